"""A live session by itself: its client and its stream are stood in for, so that each moment can be chosen."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.websockets import WebSocketState

from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word
from ds2.serve.config import Limits
from ds2.serve.messages import Failed, Final, Partial, StreamConfig, StreamEnd
from ds2.serve.models import Models
from ds2.serve.prometheus import Metrics
from ds2.serve.stream_handle import Handle
from ds2.serve.websocket_session import Over, VoskSession, Waiting

pytestmark = pytest.mark.anyio


class Client:
    """A WebSocket whose client reads while `reads` is set."""

    application_state = WebSocketState.CONNECTED

    def __init__(self) -> None:
        self.sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.got: list[dict[str, Any]] = []
        self.closed: int | None = None
        self.reads = asyncio.Event()
        self.reads.set()

    def tell(self, message: bytes | dict[str, Any]) -> None:
        kind, text = ("bytes", message) if isinstance(message, bytes) else ("text", json.dumps(message))
        self.sent.put_nowait({"type": "websocket.receive", kind: text})

    async def receive(self) -> dict[str, Any]:
        return await self.sent.get()

    async def send_text(self, text: str) -> None:
        await self.reads.wait()
        self.got.append(json.loads(text))

    async def close(self, code: int, reason: str) -> None:
        await self.reads.wait()
        self.closed = code


class Stage:
    """A session, its client, and a stream of which we say what comes."""

    def __init__(self, limits: Limits | None = None, waiting: Waiting | None = None):
        process = SimpleNamespace(send=lambda command: None, release=lambda number: None, metrics=Metrics())
        self.handle = Handle(process, 0, StreamConfig())  # type: ignore[arg-type]
        self.client = Client()
        pool = SimpleNamespace(open=lambda config: self.handle)
        models, limits = Models([Path("digits.safetensors")]), limits or Limits()
        models.pools["digits"] = pool  # type: ignore[assignment]
        waiting = waiting or Waiting(limits.waiting_bytes, limits.streams)
        self.session = VoskSession(self.client, models, limits, waiting)  # type: ignore[arg-type]
        self.running = asyncio.create_task(self.session.run())

    async def hears(self, *messages: bytes | dict[str, Any]) -> None:
        for message in messages:
            self.client.tell(message)
        await settle()

    async def comes(self, *events: Partial | Final | StreamEnd | Failed) -> None:
        for event in events:
            self.handle.take(event)
        self.handle.changed.set()
        await settle()

    async def over(self) -> Over:
        return await asyncio.wait_for(self.running, 60)


async def settle() -> None:
    """Until every task waits."""
    for _ in range(20):
        await asyncio.sleep(0)


def final(text: str) -> Final:
    transcript = Transcript(text, (Word(text, 0.0, 1.0, 1.0),), 1.0)
    return Final(transcript, ((transcript, 0.0),), 0.0)


PUSH = {"config": {"push": 1}}
SOUND = bytes(100)


@pytest.mark.parametrize("messages", [[PUSH, SOUND], [SOUND], [{"reset": 1}], [{"what": 1}]])
async def test_a_client_that_does_not_read_loses_its_place(messages: list[bytes | dict[str, Any]]) -> None:
    """Whether it is owed a result, a reply, or an error and the close."""
    stage = Stage(Limits(idle_seconds=0.05))
    stage.client.reads.clear()
    await stage.hears(*messages)
    await stage.comes(final("one"))
    await stage.over()


async def test_a_push_client_hears_of_a_model_process_that_dies_before_the_last_result() -> None:
    stage = Stage()
    await stage.hears(PUSH, SOUND, {"eof": 1})
    await stage.comes(Failed("the model process stopped"))
    assert (await stage.over()).code == 1011
    assert stage.client.got == [{"error": "the model process stopped"}]


async def test_a_result_that_comes_while_a_push_client_is_slow_is_not_lost() -> None:
    stage = Stage()
    await stage.hears(PUSH, SOUND, {"eof": 1})
    stage.client.reads.clear()
    await stage.comes(Partial("on"))
    await stage.comes(final("one"), StreamEnd(last=True))
    stage.client.reads.set()
    assert (await stage.over()).code == 1000
    assert [message.get("text") for message in stage.client.got] == [None, "one"]


async def test_who_takes_the_room_of_others_ends() -> None:
    """The model stands still: all sound beyond the first second waits."""
    waiting = Waiting(most=100_000, sessions=10)
    greedy, modest = Stage(waiting=waiting), Stage(waiting=waiting)
    await modest.hears(bytes(20_000), bytes(5000))
    await greedy.hears(bytes(20_000), bytes(60_000))
    assert waiting.bytes == 65_000
    await greedy.hears(bytes(60_000))
    await modest.hears(bytes(2000))
    assert "sound wait" in (await greedy.over()).reason
    assert waiting.bytes == 7000
    await modest.comes(Failed("enough"))
    assert (await modest.over()).code == 1011
    assert waiting.bytes == 0


@pytest.mark.parametrize("message", [{"config": {}}, {"reset": 1}, b""])
def test_a_client_that_only_talks_loses_its_place(message: bytes | dict[str, Any]) -> None:
    """Messages without sound do not count, before the first sound and after it."""

    async def scene(stage: Stage, said: bool) -> None:
        if said:
            await stage.hears(SOUND)
        while not stage.running.done():
            await stage.hears(message)
            await stage.comes(*([StreamEnd(last=False)] if said and message == {"reset": 1} else []))
            await asyncio.sleep(0.01)
            if stage.handle.ending:  # the end
                await stage.comes(StreamEnd(last=True))
        assert (await stage.over()).code == 1008
        assert "no sound came" in stage.client.got[-1]["error"]

    async def scenes() -> None:
        for said in (False, True):
            await asyncio.wait_for(scene(Stage(Limits(idle_seconds=0.1)), said), 60)

    asyncio.run(scenes())
