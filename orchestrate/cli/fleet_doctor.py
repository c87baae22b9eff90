"""What `fleet doctor` does, apart from its options."""

from __future__ import annotations

import os
from collections.abc import Sequence

from orchestrate.app.doctor import Finding
from orchestrate.app.workspaces import workspace_of
from orchestrate.cli.commands.doctor import tell_findings
from orchestrate.cli.with_extra import with_extra
from orchestrate.errors import ConfigError
from orchestrate.fleet.doctor import machine_findings, remote_finding, timing_finding
from orchestrate.fleet.settings import load_fleet

_ask_server = with_extra("on_server_list:examine")


def examine_fleet(pools: Sequence[str], working_dir: str | None, *, as_json: bool) -> int:
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
    return tell_findings(findings, as_json=as_json)
