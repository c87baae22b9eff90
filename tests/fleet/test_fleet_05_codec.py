"""What the server holds is sealed: words that a run uses lie nowhere in its file (fleet.md)."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from orchestrate.errors import ConfigError
from orchestrate.fleet.codec import SealingCodec
from orchestrate.fleet.connect import connect
from orchestrate.fleet.keys import SealError, read_keys
from orchestrate.fleet.settings import FleetSettings
from orchestrate.record import replace
from tests.fleet.temporal_server import TemporalServer

pytestmark = pytest.mark.fleet


class Words:
    """One for each way on which a value reaches the server."""

    def __init__(self) -> None:
        self.argument, self.memo, self.signal, self.failure, self.detail, self.result = (
            secrets.token_hex(12) for _ in range(6)
        )

    def all(self) -> list[str]:
        return list(vars(self).values())


@activity.defn(name="fail")
async def fail(words: list[str]) -> None:
    activity.heartbeat(words[1])
    raise ApplicationError(words[0], words[1])


@workflow.defn(name="talk")
class Talk:
    def __init__(self) -> None:
        self._heard = ""

    @workflow.signal
    def hear(self, word: str) -> None:
        self._heard = word

    @workflow.run
    async def run(self, words: list[str]) -> str:
        await workflow.wait_condition(lambda: bool(self._heard))
        try:
            await workflow.execute_activity(
                "fail", words, start_to_close_timeout=timedelta(minutes=1),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )  # fmt: skip
        except ActivityError:
            workflow.upsert_memo({"later": words[2]})
            raise
        return ""


async def _talk(client: Client, name: str, words: Words) -> None:
    """A workflow whose argument, memo, signal, heartbeat, failure and details are our words."""
    queue = f"talk-{name}"
    async with Worker(
        client, task_queue=queue, workflows=[Talk], activities=[fail],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):  # fmt: skip
        given = [words.failure, words.detail, words.result, words.argument]
        handle = await client.start_workflow(
            Talk.run, given, id=name, task_queue=queue, memo={"first": words.memo}
        )
        await handle.signal(Talk.hear, words.signal)
        with pytest.raises(WorkflowFailureError) as caught:
            await handle.result()
        assert isinstance(caught.value.cause, ActivityError)
        assert words.failure in str(caught.value.cause.cause)
        described = await handle.describe()
        assert await described.memo() == {"first": words.memo, "later": words.result}


@pytest.fixture
def settings(tmp_path: Path, temporal_server: TemporalServer) -> FleetSettings:
    keys = tmp_path / "fleet.keys"
    write_keys(keys, "one")
    return FleetSettings(tmp_path / "fleet.yaml", temporal_server.address, keys=keys)


def write_keys(path: Path, *names: str) -> None:
    path.write_text("".join(f"{name} {secrets.token_hex(32)}\n" for name in names))
    path.chmod(0o600)


def _in_the_file(server: TemporalServer, word: str) -> bool:
    """In the database or in a journal beside it."""
    files = server.folder.glob(f"{server.database.name}*")
    return any(word.encode() in path.read_bytes() for path in files)


def test_words_of_a_run_lie_nowhere_in_the_servers_file(
    settings: FleetSettings, temporal_server: TemporalServer
) -> None:
    name = secrets.token_hex(8)
    words = Words()

    async def talk(how: FleetSettings, name: str, words: Words) -> None:
        await _talk(await connect(how), name, words)

    asyncio.run(talk(settings, name, words))
    assert [word for word in words.all() if _in_the_file(temporal_server, word)] == []
    assert _in_the_file(temporal_server, name), "the file does not have what it must have"
    # Without keys each of these ways would have left its word there.
    in_clear = Words()
    asyncio.run(talk(replace(settings, keys=None), secrets.token_hex(8), in_clear))
    assert [word for word in in_clear.all() if not _in_the_file(temporal_server, word)] == []


def test_a_key_is_replaced_by_one_before_it(settings: FleetSettings) -> None:
    name = secrets.token_hex(8)
    assert settings.keys is not None
    first = settings.keys.read_text()

    async def start() -> None:
        client = await connect(settings)
        await client.start_workflow("kept", id=name, task_queue="none", memo={"a": "b"})

    async def memo() -> object:
        client = await connect(settings)
        return await (await client.get_workflow_handle(name).describe()).memo()

    asyncio.run(start())
    write_keys(settings.keys, "two")
    settings.keys.write_text(settings.keys.read_text() + first)
    assert asyncio.run(memo()) == {"a": "b"}
    assert read_keys(settings.keys).first == "two"
    write_keys(settings.keys, "two")
    with pytest.raises(SealError, match=r"the key 'one' is not in .*fleet\.keys"):
        asyncio.run(memo())
    write_keys(settings.keys, "one")
    with pytest.raises(SealError, match=r"the key 'one' of .* does not open it"):
        asyncio.run(memo())


def test_an_order_from_somebody_without_keys_is_refused(settings: FleetSettings) -> None:
    assert settings.keys is not None
    codec = SealingCodec(read_keys(settings.keys))
    with pytest.raises(SealError, match="not encrypted"):
        asyncio.run(codec.decode([Payload(metadata={"encoding": b"json/plain"}, data=b"1")]))
    sealed = asyncio.run(codec.encode([Payload(data=b"1")]))[0]
    changed = Payload(metadata=sealed.metadata, data=bytes((sealed.data[0] ^ 1, *sealed.data[1:])))
    with pytest.raises(ConfigError, match="does not open it"):
        asyncio.run(codec.decode([changed]))
    assert asyncio.run(codec.decode([sealed]))[0].data == b"1"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no key"),
        ("# only a remark\n", "has no key"),
        ("one 12\n", r":1:1: the line is not `ID HEX64`"),
        (f"one {'0' * 64}\none {'1' * 64}\n", r":2:1: the line names a key again"),
    ],
)
def test_what_is_wrong_with_a_key_file_is_told_with_its_line(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=told):
        read_keys(path)
