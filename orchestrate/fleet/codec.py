"""What the server holds of runs, sealed: every payload, and what failures say."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    DefaultFailureConverterWithEncodedAttributes,
    PayloadCodec,
)

from orchestrate.fleet.keys import Keys, SealError
from orchestrate.plan.visible import visible

_SEALED = b"binary/encrypted"
_KEY = "encryption-key-id"


class SealingCodec(PayloadCodec):
    """Seals payloads with the keys of the fleet.

    One that is not sealed is refused: a machine that has keys takes no order from one without.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        name = self._keys.first.encode()
        return [
            Payload(
                metadata={"encoding": _SEALED, _KEY: name},
                data=self._keys.seal(one.SerializeToString()),
            )
            for one in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._open(one) for one in payloads]

    def _open(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != _SEALED:
            raise SealError("the server gave something that is not encrypted, and `keys` is set")
        name = payload.metadata.get(_KEY, b"").decode("ascii", "replace")
        return Payload.FromString(self._keys.open(name, payload.data))


class ClearCodec(PayloadCodec):
    """Of a machine without keys: what others have sealed is refused by the name of its key."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [*payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        for one in payloads:
            if one.metadata.get("encoding") == _SEALED:
                name = one.metadata.get(_KEY, b"").decode("ascii", "replace")
                raise SealError(
                    f"the server gave something that is encrypted with the key '{visible(name)}'",
                    "`keys` in fleet.yaml names the file that has it",
                )
        return [*payloads]


def converter(keys: Keys | None) -> DataConverter:
    """How values become what the server holds; in clear only without keys."""
    if keys is None:
        return DataConverter(payload_codec=ClearCodec())
    return DataConverter(
        failure_converter_class=DefaultFailureConverterWithEncodedAttributes,
        payload_codec=SealingCodec(keys),
    )
