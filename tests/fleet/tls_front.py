"""TLS before the test server, which has none of its own; and certificates of our own making."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority with its files in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = folder / f"{name}.pem"
        made = self._builder(self._subject, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        _write(self.certificate, made.sign(self._key, hashes.SHA256()))

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key, for a host or a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._builder(subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        certificate = self.folder / f"{name}.crt"
        _write(certificate, made.sign(self._key, hashes.SHA256()))
        secret = self.folder / f"{name}.key"
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        secret.chmod(0o600)
        return certificate, secret

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        day = dt.timedelta(days=1)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
        )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


@contextmanager
def tls_front(
    port: int, certificate: tuple[Path, Path], wants_clients_of: Path | None = None
) -> Iterator[int]:
    """Pass TLS connections on to a port of this computer; the port to connect to.

    It is a process of its own: what clients leave half-open when a test ends, ends with it.
    """
    files = (*certificate, wants_clients_of or "")
    with subprocess.Popen(
        (sys.executable, "-m", __name__, str(port), *map(str, files)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    ) as front:  # fmt: skip
        try:
            assert front.stdout is not None
            yield int(front.stdout.readline())
        finally:
            front.kill()


async def _serve(port: int, certificate: str, key: str, wants_clients_of: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    if wants_clients_of:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(wants_clients_of)
    # Refused handshakes are what is tested.
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    server = await asyncio.start_server(
        lambda reader, writer: _pass_on(reader, writer, port), "127.0.0.1", 0, ssl=context
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    # It ends with the test also where that is killed.
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
    inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await source.read(65536):
            target.write(piece)
            await target.drain()
    target.close()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), *sys.argv[2:]))
