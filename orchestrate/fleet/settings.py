"""The user's `fleet.yaml`: the server, the timing, and the pools and how they are reached.

What Temporal itself calls TEMPORAL_* in the environment wins over the file.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from orchestrate.app.config.file import place_of, read_settings_file
from orchestrate.app.config.load import user_file
from orchestrate.diagnostics import closest
from orchestrate.errors import ConfigError, UsageError
from orchestrate.plan.durations import seconds_of
from orchestrate.record import field, record, replace
from orchestrate.regex import regex
from orchestrate.state.runs import is_run_id

FILE = "fleet.yaml"
DEFAULT_ADDRESS = "127.0.0.1:7233"
DEFAULT_ROOT = "orchestrate-seats"
DEFAULT_SLOTS = 4
_ADDRESS = regex(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):[0-9]{1,5}\Z")
_SWITCH = {"1": True, "true": True, "0": False, "false": False}


@record
class Pool:
    """Machines that are alike; `hosts` as the user's `ssh` knows them, none for a server's pool."""

    name: str
    hosts: tuple[str, ...]
    root: str
    slots: int
    prepare: tuple[str, ...]
    publish: str


@record
class Tls:
    """The files of an encrypted connection; without a `ca` the system's roots decide."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str = ""


@record
class Timing:
    """Seconds: how long a lease holds, its grace, the beat, and when a machine counts as lost.

    `place` is where the file says so.
    """

    lease: float = 60.0
    grace: float = 20.0
    beat: float = 10.0
    heartbeat_timeout: float = 110.0
    lost_after: float = 600.0
    place: str = ""

    def check(self) -> None:
        """Refuse a timeout after which what a silent machine runs might still be alive, and a lease
        that would run out before an answer can renew it."""
        if self.lease < 2 * self.beat:
            raise ConfigError(
                f"{self.place}a lease of {self.lease:g} s is too short for a beat of "
                f"{self.beat:g} s",
                f"lease: {2 * self.beat:g} or more (two beats)",
            )
        least = self.lease + self.grace + 2 * self.beat + 0.05 * self.lease
        if self.heartbeat_timeout < least:
            raise ConfigError(
                f"{self.place}heartbeat_timeout is {self.heartbeat_timeout:g} s, too short for a "
                f"lease of {self.lease:g} s, a grace of {self.grace:g} s and a beat of "
                f"{self.beat:g} s",
                f"heartbeat_timeout: {least:g} or more (lease + grace + 2 beats + 5 % of lease)",
            )


@record
class FleetSettings:
    """All of it, with the defaults; `path` is the file, whether it exists or not."""

    path: Path
    address: str = DEFAULT_ADDRESS
    namespace: str = "default"
    tls: Tls | None = None
    api_key: str = ""
    is_insecure: bool = False
    keys: Path | None = None
    remote: str = ""
    publish: str = "30s"
    timing: Timing = field(default_factory=Timing)
    pools: Mapping[str, Pool] = field(default_factory=dict)

    def uses_server(self, environment: Mapping[str, str]) -> bool:
        """Do the settings speak of a server? Those of `ssh:` pools alone do not."""
        is_named = self.address != DEFAULT_ADDRESS or "TEMPORAL_ADDRESS" in environment
        has_pool = any(not pool.hosts for pool in self.pools.values())
        return bool(is_named or self.remote or self.keys or has_pool)

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def is_local(self) -> bool:
        """Does the server listen on this computer only?"""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


def settings_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the settings are, beside the user's configuration; never in a workspace."""
    beside = user_file(environment)
    return None if beside is None else beside.with_name(FILE)


def may_be_on_server(run: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Is it the id of a run, and are there settings that may lead to it?"""
    path = settings_file(environment)
    has_settings = bool(environment.get("TEMPORAL_ADDRESS")) or (path is not None and path.exists())
    return has_settings and is_run_id(run)


def load_fleet(environment: Mapping[str, str] = os.environ) -> FleetSettings:
    """The settings; everything wrong with them is refused with its place."""
    path = settings_file(environment)
    if path is None or not path.exists():
        if not environment.get("TEMPORAL_ADDRESS"):
            raise ConfigError(
                f"no server and no machine is named: {path or FILE} does not exist",
                "write `address: HOST:PORT` or `pools:` there, or set TEMPORAL_ADDRESS",
            )
        return _with_environment(FleetSettings(path or Path(FILE)), {}, environment)
    refuse_readable(path)
    given = read_settings_file(path, str(path), "fleet")
    publish = str(given.get("publish", "30s"))
    settings = FleetSettings(
        path=path,
        address=given.get("address", DEFAULT_ADDRESS),
        namespace=given.get("namespace", "default"),
        is_insecure=given.get("insecure", False),
        keys=_beside(path, given.get("keys")),
        remote=given.get("remote", ""),
        publish=publish,
        timing=_timing_of(path, given),
        pools={name: _pool_of(name, one, publish) for name, one in given.get("pools", {}).items()},
    )
    return _with_environment(settings, given, environment)


def keys_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The key file alone: what a run publishes is sealed whatever becomes of the server."""
    path = settings_file(environment)
    if path is None or not path.exists():
        return None
    refuse_readable(path)
    return _beside(path, read_settings_file(path, str(path), "fleet").get("keys"))


def find_pool(name: str, environment: Mapping[str, str] = os.environ) -> Pool:
    """A pool that `ssh` leads to, by its name."""
    settings = load_fleet(environment)
    hosts = {one.name: one for one in settings.pools.values() if one.hosts}
    if name not in hosts:
        near = closest(name, list(hosts))
        also = f" (did you mean '{near}'?)" if near else ""
        known = ", ".join(hosts) or "none"
        raise UsageError(f"there is no pool '{name}' in {settings.path}{also}", f"pools: {known}")
    return hosts[name]


def refuse_readable(path: Path) -> None:
    """Who reads it learns where the machines are, or a key: it is the user's alone."""
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        raise ConfigError(f"{path} can be read by others", f"chmod 600 {path}")


def _pool_of(name: str, given: Mapping[str, Any], publish: str) -> Pool:
    return Pool(
        name=name,
        hosts=tuple(given.get("ssh", ())),
        root=given.get("root", DEFAULT_ROOT),
        slots=given.get("slots", DEFAULT_SLOTS),
        prepare=tuple(given.get("prepare", ())),
        publish=publish,
    )


def _timing_of(path: Path, given: Mapping[str, Any]) -> Timing:
    written = given.get("timing")
    if not written:
        return Timing()
    named = "heartbeat_timeout" if "heartbeat_timeout" in written else next(iter(written))
    place = f"{place_of(str(path), written, named)}: "
    return Timing(**{name: seconds_of(value) for name, value in written.items()}, place=place)


def _with_environment(
    settings: FleetSettings, given: Mapping[str, Any], environment: Mapping[str, str]
) -> FleetSettings:
    """What TEMPORAL_* says wins; a key never travels without TLS unless that is said."""
    address = environment.get("TEMPORAL_ADDRESS") or settings.address
    if not _ADDRESS.match(address):
        raise ConfigError(f"TEMPORAL_ADDRESS is '{address}'", "write HOST:PORT")
    api_key = environment.get("TEMPORAL_API_KEY", "")
    variable = given.get("api_key_env")
    if not api_key and variable:
        api_key = environment.get(variable, "")
        if not api_key:
            raise ConfigError(f"{variable} (api_key_env in {settings.path}) is not set")
    return replace(
        settings,
        address=address,
        namespace=environment.get("TEMPORAL_NAMESPACE") or settings.namespace,
        api_key=api_key,
        tls=_tls_of(settings.path, given.get("tls"), environment, has_key=bool(api_key)),
    )


def _tls_of(
    path: Path, given: Mapping[str, str] | None, environment: Mapping[str, str], *, has_key: bool
) -> Tls | None:
    switch = environment.get("TEMPORAL_TLS", "")
    if switch and switch.lower() not in _SWITCH:
        raise ConfigError(f"TEMPORAL_TLS is '{switch}'", "write true or false")
    variables = {
        "ca": "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
        "cert": "TEMPORAL_TLS_CLIENT_CERT_PATH",
        "key": "TEMPORAL_TLS_CLIENT_KEY_PATH",
    }
    files = {name: _beside(path, (given or {}).get(name)) for name in variables}
    for name, variable in variables.items():
        if environment.get(variable):
            files[name] = Path(os.path.abspath(environment[variable]))
    server = environment.get("TEMPORAL_TLS_SERVER_NAME") or (given or {}).get("server_name", "")
    is_meant = given is not None or has_key or bool(server) or any(files.values())
    is_on = _SWITCH[switch.lower()] if switch else is_meant
    return Tls(**files, server_name=server) if is_on else None


def _beside(path: Path, written: str | None) -> Path | None:
    """A file that the settings name, relative to them."""
    return path.parent / os.path.expanduser(written) if written else None
