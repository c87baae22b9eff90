"""Connecting to a server: each way in which it cannot be done is one sentence, and exit code 5."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from orchestrate.errors import ConfigError
from orchestrate.fleet import connect as connecting
from orchestrate.fleet.connect import connect
from orchestrate.fleet.settings import load_fleet
from tests.fleet.temporal_server import TemporalServer
from tests.fleet.tls_front import Authority, tls_front

pytestmark = pytest.mark.fleet


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "config" / "orchestrate"
    folder.mkdir(parents=True)
    return folder


def _connect(config: Path, text: str, more: Mapping[str, str] | None = None) -> None:
    path = config / "fleet.yaml"
    path.write_text(text)
    path.chmod(0o600)
    settings = load_fleet({"XDG_CONFIG_HOME": str(config.parent), **(more or {})})
    asyncio.run(connect(settings))


def _refusal(config: Path, text: str, more: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        _connect(config, text, more)
    assert caught.value.exit_code == 5
    assert "\n" not in caught.value.message
    return f"{caught.value.message}\n{caught.value.hint}"


def test_a_server_that_is_there_is_connected_to(
    config: Path, temporal_server: TemporalServer
) -> None:
    _connect(config, f"address: {temporal_server.address}\n")
    # The environment wins.
    wins = {"TEMPORAL_ADDRESS": temporal_server.address, "TEMPORAL_NAMESPACE": "default"}
    _connect(config, "address: 127.0.0.1:1\nnamespace: nobodys\n", wins)


def test_no_server_is_told_with_its_address(config: Path) -> None:
    told = _refusal(config, "address: 127.0.0.1:1\n")
    assert "the Temporal server at 127.0.0.1:1 cannot be reached: Connection refused" in told


def test_a_server_that_says_nothing_is_told_within_ten_seconds(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "_CONNECT_S", 0.2)
    monkeypatch.setattr("orchestrate.fleet.probe._LIMIT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told = _refusal(config, f"address: 127.0.0.1:{silent.getsockname()[1]}\n")
    assert "is not a Temporal server" in told


def test_an_unknown_namespace_is_told_by_name(
    config: Path, temporal_server: TemporalServer
) -> None:
    told = _refusal(config, f"address: {temporal_server.address}\nnamespace: nobodys\n")
    assert f"{temporal_server.address} has no namespace 'nobodys'" in told


class Front:
    """Certificates, and TLS before the server."""

    def __init__(self, folder: Path, port: int) -> None:
        self.ours, self.others = Authority(folder, "ours"), Authority(folder, "others")
        self.server = self.ours.issue("localhost")
        self.client = self.ours.issue("client")
        self.stranger = self.others.issue("stranger")
        self.port = port

    def settings(self, port: int, **tls: object) -> str:
        given = ", ".join(f"{name}: {value}" for name, value in tls.items())
        return f"address: localhost:{port}\ntls: {{{given}}}\n"


@pytest.fixture
def front(tmp_path: Path, temporal_server: TemporalServer) -> Front:
    return Front(tmp_path, temporal_server.port)


def test_tls_is_checked_and_its_refusals_are_told(config: Path, front: Front) -> None:
    with tls_front(front.port, front.server) as port:
        ca = front.ours.certificate
        _connect(config, front.settings(port, ca=ca))
        by_number = f"address: 127.0.0.1:{port}\ntls: {{ca: {ca}, server_name: localhost}}\n"
        _connect(config, by_number)
        _connect(config, f"address: 127.0.0.1:{port}\n", {
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(ca), "TEMPORAL_TLS_SERVER_NAME": "localhost",
        })  # fmt: skip
        wrong = _refusal(config, front.settings(port, ca=front.others.certificate))
        assert f"the certificate of the Temporal server at localhost:{port} is not" in wrong
        assert "tls.ca" in wrong
        assert "is not accepted" in _refusal(config, front.settings(port))
        misnamed = _refusal(config, front.settings(port, ca=ca, server_name="elsewhere"))
        assert "elsewhere" in misnamed
        assert "tls.server_name" in misnamed
        assert "requires TLS" in _refusal(config, f"address: localhost:{port}\n")
        half = _refusal(config, front.settings(port, ca=ca, cert=front.client[0]))
        assert "tls.key" in half
        unfit = _refusal(
            config, front.settings(port, ca=ca, cert=front.client[0], key=front.stranger[1])
        )
        assert str(front.client[0]) in unfit
        empty = front.ours.folder / "empty.pem"
        empty.write_text("nothing")
        assert f"{empty} (tls.ca)" in _refusal(config, front.settings(port, ca=empty))
        gone = front.ours.folder / "gone.pem"
        assert f"{gone} (tls.ca)" in _refusal(config, front.settings(port, ca=gone))


def test_tls_to_a_server_that_has_none_is_told(
    config: Path, temporal_server: TemporalServer
) -> None:
    told = _refusal(config, f"address: {temporal_server.address}\ntls: {{}}\n")
    assert f"{temporal_server.address} fails: " in told


def test_a_client_certificate_that_is_wanted_or_refused_is_told(config: Path, front: Front) -> None:
    ca = front.ours.certificate
    with tls_front(front.port, front.server, wants_clients_of=ca) as port:
        wanted = _refusal(config, front.settings(port, ca=ca))
        assert "requires a client certificate" in wanted
        assert "tls.cert" in wanted
        cert, key = front.stranger
        refused = _refusal(config, front.settings(port, ca=ca, cert=cert, key=key))
        assert f"refuses the client certificate {cert}" in refused
        cert, key = front.client
        _connect(config, front.settings(port, ca=ca, cert=cert, key=key))


def test_what_is_not_safe_is_refused_before_anything_is_sent(config: Path) -> None:
    plain = _refusal(config, "address: temporal.example:7233\n")
    assert "temporal.example:7233" in plain
    assert "insecure: true" in plain
    for unsafe in ("tls: {}", "insecure: true"):
        told = _refusal(config, f"address: temporal.example:7233\n{unsafe}\n")
        assert "`keys` names no key file" in told
    keys = config / "fleet.keys"
    given = "address: temporal.example:7233\ntls: {}\nkeys: fleet.keys\n"
    assert f"the key file {keys} (keys) cannot be read" in _refusal(config, given)
    keys.write_text("one 1234\n")
    keys.chmod(0o644)
    assert f"chmod 600 {keys}" in _refusal(config, given)
    keys.chmod(0o600)
    told = _refusal(config, given)
    assert f"{keys}:1:1: the line is not `ID HEX64`" in told
    assert "1234" not in told


@pytest.mark.parametrize(
    ("status", "key", "told"),
    [
        (RPCStatusCode.UNAUTHENTICATED, "", "a client without an API key"),
        (RPCStatusCode.PERMISSION_DENIED, "wrong", "refuses the API key"),
    ],
)
def test_a_refused_key_is_told(config: Path, status: RPCStatusCode, key: str, told: str) -> None:
    (config / "fleet.yaml").write_text("address: cloud.example:7233\n")
    (config / "fleet.yaml").chmod(0o600)
    surroundings = {"XDG_CONFIG_HOME": str(config.parent), "TEMPORAL_API_KEY": key}
    settings = load_fleet(surroundings)
    refused = connecting._refusal(settings, RPCError("no", status, b""))
    assert "cloud.example:7233" in refused.message
    assert told in refused.message
    assert "'default'" in refused.message
    # A key never travels in clear.
    assert (settings.tls is not None) == bool(key)
