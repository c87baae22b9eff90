"""What a fleet has of what its runs need: server, pools, machines, git remote, clock."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrate.app.workspaces import workspace_of
from orchestrate.checkpoints.program import find_git
from orchestrate.errors import ConfigError, OrchestrateError
from orchestrate.fleet import ssh
from orchestrate.fleet.extra import with_extra
from orchestrate.fleet.host import PROTOCOL
from orchestrate.fleet.settings import FleetSettings, Pool, load_fleet
from orchestrate.plan.visible import visible
from orchestrate.view.doctor import Finding

_ask_server = with_extra("server_doctor:examine")
_ANSWER_S = 10.0
_REMOTE_S = 10.0
# A lease is counted on each machine by itself; only what people read would be wrong.
_MOST_SKEW_S = 5.0


def examine_fleet(pools: Sequence[str], working_dir: str | None) -> list[Finding]:
    """Look at everything that the settings name, and at the pools that are named here."""
    settings = load_fleet()
    of_hosts = [pool for pool in settings.pools.values() if pool.hosts]
    findings = [one for pool in of_hosts for one in machine_findings(pool)]
    on_server = [name for name in pools if name not in {pool.name for pool in of_hosts}]
    if on_server or settings.uses_server(os.environ):
        findings.append(timing_finding(settings))
        try:
            findings += _ask_server(settings, on_server)
        except ConfigError as error:
            findings.append(Finding("server", False, error.message, error.hint, is_needed=True))
        findings.append(remote_finding(settings, workspace_of(working_dir).root))
    return findings


def timing_finding(settings: FleetSettings) -> Finding:
    """Whether the timing lets a lost machine be told from a slow one."""
    try:
        settings.timing.check()
    except ConfigError as error:
        return Finding("timing", False, error.message, error.hint, is_needed=True)
    timing = settings.timing
    told = (
        f"lease {timing.lease:g} s, grace {timing.grace:g} s, beat {timing.beat:g} s, "
        f"heartbeat_timeout {timing.heartbeat_timeout:g} s, lost after {timing.lost_after:g} s"
    )
    return Finding("timing", True, told)


def machine_findings(pool: Pool) -> Iterator[Finding]:
    """Each machine that `ssh` leads to: whether it answers, its free slots, version and clock."""
    for host in pool.hosts:
        name = f"{pool.name}: {host}"
        asked = {"protocol": PROTOCOL, "root": pool.root}
        before = time.time()
        try:
            found = ssh.ask(host, ("seat", "list"), asked, _ANSWER_S)
        except OrchestrateError as error:
            yield Finding(name, False, error.message, error.hint, is_needed=True)
            continue
        busy = sum(status == "running" for status in found["runs"].values())
        yield Finding(
            name, True,
            f"orchestrate {found['version']}, {pool.slots - busy} of {pool.slots} slots free",
        )  # fmt: skip
        yield clock_finding(f"{name} clock", found["time"], before, time.time())


def clock_finding(name: str, theirs: float, before: float, after: float) -> Finding:
    """Whether a clock elsewhere agrees with ours; the question took from `before` to `after`."""
    skew = max(0.0, before - theirs, theirs - after)
    if skew <= _MOST_SKEW_S:
        return Finding(name, True, "agrees with this computer's")
    return Finding(name, False, f"differs from this computer's by {skew:.0f} s", "set it with NTP")


def remote_finding(settings: FleetSettings, workspace: Path) -> Finding:
    """Whether the git remote that carries runs can be reached from here."""
    if not settings.remote:
        return Finding(
            "git remote", False, "no remote is named", f"`remote: origin` in {settings.path}",
            is_needed=True,
        )  # fmt: skip
    program = find_git(os.environ)
    if program is None:
        return Finding("git remote", False, "git is not installed", is_needed=True)
    variables = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    words = (program, "ls-remote", "--quiet", settings.remote, "HEAD")
    try:
        done = subprocess.run(
            words, cwd=workspace, env=variables, capture_output=True, check=False,
            stdin=subprocess.DEVNULL, timeout=_REMOTE_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        told = f"{settings.remote} did not answer within {_REMOTE_S:g} s"
        return Finding("git remote", False, told, is_needed=True)
    if done.returncode == 0:
        return Finding("git remote", True, settings.remote)
    said = visible(done.stderr.decode("utf-8", "replace").strip()).splitlines()
    why = said[0] if said else "git said nothing"
    advice = f"git ls-remote {settings.remote}"
    return Finding("git remote", False, f"{settings.remote}: {why}", advice, is_needed=True)
