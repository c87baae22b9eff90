"""Why a server cannot be reached, in a sentence.

The client's own words are those of its libraries, and it does not hear everything: with TLS 1.3 a
refused certificate looks like a connection that ends. So we connect once more by hand and see.
"""

from __future__ import annotations

import socket
import ssl

from orchestrate.errors import ConfigError
from orchestrate.fleet.settings import FleetSettings, Tls

_LIMIT_S = 3.0
# How an HTTP/2 client begins: the greeting and empty settings. The server answers with its own.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_WANTED = "CERTIFICATE_REQUIRED"


def why_not(settings: FleetSettings) -> ConfigError | None:
    """What stands between us and the server; None if it answers as a server does."""
    where = f"the Temporal server at {settings.address}"
    try:
        plain = socket.create_connection((settings.host, settings.port), _LIMIT_S)
    except TimeoutError:
        return ConfigError(f"{where} did not answer within {_LIMIT_S:g} s", _look(settings))
    except OSError as error:
        return ConfigError(f"{where} cannot be reached: {error.strerror}", _look(settings))
    with plain:
        if settings.tls is None:
            return _why_not_plain(plain, settings, where)
        return _why_not_encrypted(plain, settings, settings.tls, where)


def _why_not_plain(plain: socket.socket, settings: FleetSettings, where: str) -> ConfigError | None:
    try:
        plain.sendall(_GREETING)
        if plain.recv(1)[:1] == b"\x00":
            return None
    except OSError:
        pass
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection((settings.host, settings.port), _LIMIT_S) as again,
            context.wrap_socket(again),
        ):
            return ConfigError(f"{where} requires TLS", f"`tls: {{}}` in {settings.path}")
    except OSError:
        return ConfigError(f"what answers at {settings.address} is not a Temporal server")


def _why_not_encrypted(
    plain: socket.socket, settings: FleetSettings, tls: Tls, where: str
) -> ConfigError | None:
    context = context_of(tls)
    try:
        with context.wrap_socket(plain, server_hostname=tls.server_name or settings.host) as sealed:
            sealed.sendall(_GREETING)
            if sealed.recv(1):
                return None
    except ssl.SSLCertVerificationError as error:
        return ConfigError(
            f"the certificate of {where} is not accepted: {error.verify_message}",
            "tls.ca names who has signed it, tls.server_name the name that it has",
        )
    except ssl.SSLError as error:
        if _WANTED in (error.reason or ""):
            return _certificate_wanted(where)
        if "ALERT" in (error.reason or "") and tls.cert is not None:
            return ConfigError(f"{where} refuses the client certificate {tls.cert} (tls.cert)")
        return ConfigError(f"TLS with {where} fails: {error.reason}")
    except OSError:
        pass
    if tls.cert is None:
        return _certificate_wanted(where)
    return ConfigError(f"{where} refuses the client certificate {tls.cert} (tls.cert)")


def _certificate_wanted(where: str) -> ConfigError:
    return ConfigError(f"{where} requires a client certificate", "tls.cert and tls.key name it")


def context_of(tls: Tls) -> ssl.SSLContext:
    """TLS as it is set; files that cannot be used are refused by name."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    for name, file in (("ca", tls.ca), ("cert", tls.cert), ("key", tls.key)):
        if file is not None:
            try:
                file.read_bytes()
            except OSError as error:
                raise ConfigError(f"{file} (tls.{name}) cannot be read: {error.strerror}") from None
    if (tls.cert is None) != (tls.key is None):
        raise ConfigError("tls.cert and tls.key belong together, and one of them is missing")
    try:
        if tls.ca is not None:
            context = ssl.create_default_context(cafile=tls.ca)
            context.set_alpn_protocols(["h2"])
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{tls.ca} (tls.ca) has no certificate") from None
    try:
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, password=lambda: b"")
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            f"{tls.cert} (tls.cert) and {tls.key} (tls.key) are not a certificate and its key"
        ) from None
    return context


def _look(settings: FleetSettings) -> str:
    return f"`address` in {settings.path}, or TEMPORAL_ADDRESS, names it"
