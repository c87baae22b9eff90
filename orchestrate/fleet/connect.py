"""Connects to the Temporal server of the settings, or says in one sentence why it cannot."""

from __future__ import annotations

import asyncio
import os

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from orchestrate.errors import ConfigError
from orchestrate.fleet.codec import converter
from orchestrate.fleet.keys import read_keys
from orchestrate.fleet.probe import context_of, why_not
from orchestrate.fleet.settings import FleetSettings, Tls

# With the three seconds that finding the reason may take, it is told within ten.
_CONNECT_S = 5.0
_REFUSALS = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)


async def connect(settings: FleetSettings) -> Client:
    """A client that has spoken with the server about its namespace."""
    refuse_unsafe(settings)
    tls = _tls_of(settings.tls) if settings.tls is not None else False
    keys = read_keys(settings.keys) if settings.keys is not None else None
    try:
        async with asyncio.timeout(_CONNECT_S):
            client = await Client.connect(
                settings.address,
                namespace=settings.namespace,
                api_key=settings.api_key or None,
                tls=tls,
                data_converter=converter(keys),
                runtime=_quiet_runtime(),
            )
            wanted = DescribeNamespaceRequest(namespace=settings.namespace)
            await client.workflow_service.describe_namespace(wanted)
    except RPCError as error:
        raise _refusal(settings, error) from None
    except (RuntimeError, TimeoutError) as error:
        reason = await asyncio.to_thread(why_not, settings)
        raise reason or _unknown(settings, str(error)) from None
    return client


def refuse_unsafe(settings: FleetSettings) -> None:
    """Nothing that runs say goes to another computer in clear, unless the user wants it so."""
    if settings.is_local:
        return
    if settings.tls is None and not settings.is_insecure:
        raise ConfigError(
            f"{settings.address} is on another computer, and plain text is not sent there",
            f"`tls: {{}}` in {settings.path}; `insecure: true` sends it all the same",
        )
    if settings.keys is None:
        raise ConfigError(
            f"{settings.address} is on another computer, and `keys` names no key file",
            f'(umask 077; echo "one $(openssl rand -hex 32)" > '
            f"{settings.path.with_name('fleet.keys')}), and `keys: fleet.keys` in {settings.path}",
        )


def _tls_of(tls: Tls) -> TLSConfig:
    context_of(tls)  # refuses what cannot be used
    return TLSConfig(
        server_root_ca_cert=tls.ca.read_bytes() if tls.ca else None,
        domain=tls.server_name or None,
        client_cert=tls.cert.read_bytes() if tls.cert else None,
        client_private_key=tls.key.read_bytes() if tls.key else None,
    )


def _refusal(settings: FleetSettings, error: RPCError) -> ConfigError:
    where = f"the Temporal server at {settings.address}"
    if error.status == RPCStatusCode.NOT_FOUND:
        return ConfigError(
            f"{where} has no namespace '{settings.namespace}'",
            f"temporal operator namespace create -n {settings.namespace} "
            f"--address {settings.address}",
        )
    if error.status in _REFUSALS:
        how = "the API key" if settings.api_key else "a client without an API key"
        return ConfigError(
            f"{where} refuses {how} for the namespace '{settings.namespace}'",
            "api_key_env names the variable that has it",
        )
    return _unknown(settings, error.message)


def _unknown(settings: FleetSettings, told: str) -> ConfigError:
    detail = f": {told}" if told else " in time"
    return ConfigError(
        f"the Temporal server at {settings.address} did not serve the namespace "
        f"'{settings.namespace}'{detail}"
    )


_runtimes: dict[int, Runtime] = {}


def _quiet_runtime() -> Runtime:
    """One for a process, which keeps the library's own remarks off the screen."""
    if os.getpid() not in _runtimes:
        quiet = LoggingConfig(filter=TelemetryFilter(core_level="OFF", other_level="OFF"))
        _runtimes[os.getpid()] = Runtime(telemetry=TelemetryConfig(logging=quiet))
    return _runtimes[os.getpid()]
