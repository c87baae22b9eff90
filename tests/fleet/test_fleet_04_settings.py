"""What `fleet.yaml` and the environment say about the server (fleet.md, "Settings")."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrate.errors import ConfigError, DefinitionError
from orchestrate.fleet.settings import FleetSettings, Timing, Tls, load_fleet

WHOLE = """\
address: temporal.example:7233
namespace: team
tls: {ca: ca.pem, cert: /etc/client.pem, key: ~/client.key, server_name: inside}
api_key_env: SOME_KEY
insecure: true
keys: fleet.keys
remote: origin
publish: 1m
timing: {lease: 1m, grace: 10, beat: 5, heartbeat_timeout: 90, lost_after: 1h}
pools:
  web: {prepare: [npm, ci]}
  desk: {ssh: [host-a], root: /srv/orchestrate, slots: 2}
"""


class Settings:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / "orchestrate" / "fleet.yaml"
        self.file.parent.mkdir()

    def read(self, text: str | None, **more: str) -> FleetSettings:
        if text is not None:
            self.file.write_text(text)
            self.file.chmod(0o600)
        return load_fleet({"XDG_CONFIG_HOME": str(self.home), **more})

    def places(self, text: str) -> list[str]:
        """Where each error is, and what it says."""
        with pytest.raises(DefinitionError) as caught:
            self.read(text)
        assert caught.value.exit_code == 5
        found = caught.value.diagnostics
        return [f"{one.span.line}:{one.span.column} {one.message}" for one in found]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path)


def test_every_key_is_optional(settings: Settings) -> None:
    read = settings.read("# nothing\n")
    assert (read.address, read.namespace, read.tls, read.keys) == (
        "127.0.0.1:7233", "default", None, None,
    )  # fmt: skip
    assert read.timing == Timing(60, 20, 10, 110, 600)
    read.timing.check()


def test_every_key_is_read(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/me")
    read = settings.read(WHOLE, SOME_KEY="k")
    beside = settings.file.parent
    assert (read.address, read.namespace, read.host, read.port) == (
        "temporal.example:7233", "team", "temporal.example", 7233,
    )  # fmt: skip
    assert read.tls == Tls(
        beside / "ca.pem", Path("/etc/client.pem"), Path("/srv/me/client.key"), "inside"
    )
    assert (read.api_key, read.is_insecure, read.remote, read.publish) == (
        "k",
        True,
        "origin",
        "1m",
    )
    assert read.keys == beside / "fleet.keys"
    timing = read.timing
    assert (timing.lease, timing.lost_after) == (60, 3600)
    timing.check()
    web, desk = read.pools["web"], read.pools["desk"]
    assert (web.hosts, web.prepare) == ((), ("npm", "ci"))
    assert (desk.hosts, desk.root, desk.slots) == (("host-a",), "/srv/orchestrate", 2)


def test_the_environment_wins(settings: Settings) -> None:
    read = settings.read(
        WHOLE,
        SOME_KEY="k",
        TEMPORAL_ADDRESS="[::1]:8000",
        TEMPORAL_NAMESPACE="other",
        TEMPORAL_API_KEY="mine",
        TEMPORAL_TLS_SERVER_CA_CERT_PATH="/a/ca",
        TEMPORAL_TLS_CLIENT_CERT_PATH="/a/cert",
        TEMPORAL_TLS_CLIENT_KEY_PATH="/a/key",
        TEMPORAL_TLS_SERVER_NAME="named",
    )
    assert (read.address, read.namespace, read.api_key) == ("[::1]:8000", "other", "mine")
    assert read.is_local
    assert read.tls == Tls(Path("/a/ca"), Path("/a/cert"), Path("/a/key"), "named")
    assert settings.read(None, SOME_KEY="k", TEMPORAL_TLS="false").tls is None
    assert settings.read("{}", TEMPORAL_TLS="true").tls == Tls()


def test_the_environment_alone_is_enough_and_without_both_the_file_is_named(
    settings: Settings,
) -> None:
    assert settings.read(None, TEMPORAL_ADDRESS="localhost:1").is_local
    with pytest.raises(ConfigError) as caught:
        settings.read(None)
    assert str(settings.file) in caught.value.message
    assert "TEMPORAL_ADDRESS" in caught.value.hint


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("127.0.0.1:1", True), ("127.9.9.9:1", True), ("localhost:1", True), ("[::1]:1", True),
        ("temporal.example:1", False), ("localhost.example:1", False), ("0.0.0.0:1", False),
    ],
)  # fmt: skip
def test_only_loopback_is_local(settings: Settings, address: str, is_local: bool) -> None:
    assert settings.read(f'address: "{address}"\n').is_local == is_local


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("adress: a:1\n", "1:1 "),
        ("a: 1\naddress: temporal.example\n", "2:10 "),
        ("tls:\n  cafile: x\n", "2:3 "),
        ("timing: {lease: -1}\n", "1:17 "),
        ("timing: {heartbeat: 1}\n", "1:10 "),
        ("pools: {web: {slots: 2}}\n", "1:9 "),
        ("pools: {web: {root: /srv}}\n", "1:9 "),
        ("insecure: maybe\n", "1:11 "),
        ("api_key_env: a key\n", "1:14 "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(settings: Settings, text: str, place: str) -> None:
    assert any(one.startswith(place) for one in settings.places(text)), settings.places(text)


def test_the_variables_are_judged_as_the_file_is(settings: Settings) -> None:
    for name, value in (("TEMPORAL_ADDRESS", "nowhere"), ("TEMPORAL_TLS", "perhaps")):
        with pytest.raises(ConfigError, match=name):
            settings.read("{}", **{name: value})
    with pytest.raises(ConfigError, match=r"NOT_SET \(api_key_env"):
        settings.read("api_key_env: NOT_SET\n")


def test_a_timeout_that_would_let_two_machines_work_is_refused(settings: Settings) -> None:
    written = "timing:\n  lease: 60\n  heartbeat_timeout: {}\n"
    with pytest.raises(ConfigError, match=r"fleet.yaml:3:3: heartbeat_timeout is 102 s") as caught:
        settings.read(written.format(102)).timing.check()
    assert "heartbeat_timeout: 103 or more" in caught.value.hint
    settings.read(written.format(103)).timing.check()


def test_a_lease_that_no_beat_can_renew_in_time_is_refused(settings: Settings) -> None:
    written = "timing: {{lease: {}, beat: 30, heartbeat_timeout: 900}}\n"
    with pytest.raises(ConfigError, match="a lease of 59 s is too short for a beat of 30 s"):
        settings.read(written.format(59)).timing.check()
    settings.read(written.format(60)).timing.check()
