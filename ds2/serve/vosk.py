"""A live stream over a WebSocket, in the protocol of Vosk's server, so that its clients work unchanged.

    client                                            server
    {"config": {"sample_rate": 16000}}                (no reply)
    binary sound                                      {"partial": "one tw"}, or at a pause
                                                      {"result": [{"conf", "end", "start", "word"}], "text": "one two"}
    {"reset": 1}                                      the final result; the stream goes on
    {"eof": 1}                                        the final result; close 1000

Exactly one reply to each message but the first, sent without waiting for the model, unless the client is so far ahead
that it must be held back. Beyond Vosk's own, `config` takes `encoding` (pcm16, float32, mulaw) and `push`: results then
come when they come, not as replies, and partial results say how many characters are `stable`. A later `config` changes
what it names; once there was sound, only `words` and `max_alternatives`. `phrase_list` and `model` change nothing: the
server's `decoder.hot` names words to listen for.
"""

import asyncio
import contextlib
import json
import math
import time
from collections import deque
from collections.abc import Awaitable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ds2.recognition.transcript import Transcript, Word
from ds2.serve.config import Limits
from ds2.serve.messages import SAMPLE_BYTES, Final, SpanEnd, StreamConfig
from ds2.serve.pool import Busy, Handle, Pool
from ds2.utils.errors import InputError

HOLD = 1.0  # seconds of sound that may wait before replies to a faster client wait too
MESSAGES = 20_000  # that may wait; of a byte each they would be cheap in bytes alone
QUOTED = 40  # characters of what a client sent that an error repeats at most
NORMAL, RESTART, LATER, BAD_DATA, POLICY, TOO_MUCH, BROKEN = 1000, 1012, 1013, 1007, 1008, 1009, 1011
EOF, DRAIN, FAILED = (
    object(),
    object(),
    object(),
)  # in the inbox: client gone; server going down; stream or pusher ended


class Over(Exception):
    """The session ends with this close code; an error message goes before it unless the code is NORMAL or RESTART."""

    def __init__(self, code: int, reason: str = ""):
        super().__init__(reason)
        self.code, self.reason = code, reason


class VoskSession:
    """One connection from its first message to its close."""

    def __init__(self, websocket: WebSocket, pool: Pool, limits: Limits):
        self.websocket, self.pool, self.limits = websocket, pool, limits
        self.config = StreamConfig()
        self.words, self.alternatives, self.push = True, 0, False
        self.handle: Handle | None = None
        self.inbox: deque[Any] = deque()
        self.held = 0  # bytes in the inbox; of text, characters
        self.flooded = False  # more waits than is allowed: the socket is left alone from then on
        self.arrived = asyncio.Event()
        self.pusher: asyncio.Task[None] | None = None

    async def run(self) -> Over:
        """Serves until the end, closes, and says how it ended."""
        reader = asyncio.create_task(self._read())
        try:
            over = await self._serve()
        except (WebSocketDisconnect, RuntimeError):  # RuntimeError: sending to a client that is gone
            return Over(NORMAL, "the client went away")
        finally:
            if self.handle is not None:
                self.handle.close()
            tasks = [task for task in (reader, self.pusher) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await self._close(over)
        return over

    def drain(self) -> None:
        """The server is going down: what was heard gets its final result."""
        self._put(DRAIN)

    async def _serve(self) -> Over:
        try:
            while True:
                await self._obey(await self._next())
        except Over as over:
            return over
        except Busy as error:
            return Over(LATER, str(error))
        except (InputError, ValueError) as error:
            return Over(BAD_DATA, str(error))

    async def _read(self) -> None:
        """A task: empties the socket, so that pings are answered however far the model is behind, within limits."""
        while not self.flooded:
            message = await self.websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._put(EOF)
                return
            data = message.get("bytes")
            self._put(data if data is not None else message.get("text", ""))
            self.flooded = self.held > self._room or len(self.inbox) > MESSAGES
        if self.handle is not None:
            self.handle.changed.set()  # whoever waits for the model hears of it

    @property
    def _room(self) -> float:
        """Bytes that may wait."""
        return self.limits.backlog * SAMPLE_BYTES[self.config.encoding] * self.config.sample_rate + self.limits.message

    def _check(self) -> None:
        """Raises Over where the stream cannot go on."""
        if self.flooded:
            raise Over(POLICY, f"more than {self.limits.backlog:g} s of sound wait: send no faster than real time")
        if self.handle is not None and self.handle.failed is not None:
            raise Over(BROKEN, self.handle.failed)

    def _put(self, message: Any) -> None:
        self.inbox.append(message)
        self.held += _size(message)
        self.arrived.set()

    async def _next(self) -> Any:
        """The next message; raises Over when none comes."""
        while not self.inbox:
            self.arrived.clear()
            try:
                await asyncio.wait_for(self.arrived.wait(), self.limits.idle)
            except TimeoutError:
                await self._end(POLICY, f"nothing came for {self.limits.idle:g} s")
        message = self.inbox.popleft()
        self.held -= _size(message)
        return message

    async def _obey(self, message: Any) -> None:
        if message is EOF:
            raise WebSocketDisconnect
        self._check()
        if message is FAILED and self.pusher is not None:
            await self.pusher  # raises what it met
        elif message is DRAIN:
            await self._end(RESTART, "the server is shutting down")
        elif isinstance(message, bytes):
            await self._sound(message)
        else:
            await self._text(message)

    async def _sound(self, data: bytes) -> None:
        handle = self._stream()
        handle.feed(data)
        if handle.fed > self.limits.duration:
            await self._end(POLICY, f"a stream may last {self.limits.duration:g} s")
        most = self.limits.backlog if self.push else HOLD
        while handle.backlog > most:
            await self._change(handle)
            self._check()
        if not self.push:
            await self._send(self._result([handle.finals.popleft()]) if handle.finals else self._partial(handle))

    async def _text(self, text: str) -> None:
        try:
            command = json.loads(text)
        except (ValueError, RecursionError):
            command = None
        if not isinstance(command, dict):
            raise Over(BAD_DATA, "text that is no JSON object; sound goes in binary messages")
        if isinstance(command.get("config"), dict):
            self._configure(command["config"])
        elif "reset" in command:
            await self._final(last=False)
        elif "eof" in command:
            await self._end(NORMAL)
        else:
            raise Over(BAD_DATA, "a text message holds config, reset or eof")

    def _configure(self, values: dict[str, Any]) -> None:
        """What is not named stays as it is, and so does the sound of a stream that has begun."""
        self.words = bool(values.get("words", self.words))
        self.alternatives = int(_number(values, "max_alternatives", self.alternatives))
        if self.handle is not None:
            return
        self.push = bool(values.get("push", self.push))
        rate = _number(values, "sample_rate", self.config.sample_rate)
        encoding = values.get("encoding", self.config.encoding)
        if encoding not in list(SAMPLE_BYTES):  # a list, for what was sent may have no hash
            raise Over(BAD_DATA, f"encoding must be one of {', '.join(SAMPLE_BYTES)}, got {_quoted(encoding)}")
        self.config = StreamConfig(rate, encoding, stable=self.push)

    def _stream(self) -> Handle:
        if self.handle is None:
            self.handle = self.pool.open(self.config)
            self.handle.on_failure = lambda: self._put(FAILED)
            if self.push:
                self.pusher = asyncio.create_task(self._push(self.handle))
                self.pusher.add_done_callback(lambda _: self._put(FAILED))
        return self.handle

    async def _end(self, code: int, reason: str = "") -> None:
        await self._final(last=True)
        raise Over(code, reason)

    async def _final(self, last: bool) -> None:
        """Ends the span and replies with all that was said and not yet sent."""
        handle = self.handle
        if handle is None:  # there was no sound
            await self._send(self._result([]))
            return
        handle.end(last)
        if self.pusher is not None:
            if last:
                await self.pusher
                self._check()
            return
        while not handle.ends:
            await self._change(handle)
            self._check()
        _ended(handle)
        finals = list(handle.finals)
        handle.finals.clear()
        await self._send(self._result(finals))

    async def _push(self, handle: Handle) -> None:
        """A task: sends results as they come, until the last. More may come while one is being sent: it waits for a
        change only where nothing is left to send."""
        shown = handle.partial
        while True:
            if handle.finals:
                await self._send(self._result([handle.finals.popleft()]))
            elif handle.ends:
                if _ended(handle).last:
                    return
            elif handle.failed is not None:  # the session's own loop tells
                return
            elif handle.partial != shown:
                shown = handle.partial
                if shown.text:
                    await self._send({**self._partial(handle), "stable": shown.stable})
            else:
                await self._change(handle)

    @staticmethod
    async def _change(handle: Handle) -> None:
        await handle.changed.wait()
        handle.changed.clear()

    @staticmethod
    def _partial(handle: Handle) -> dict[str, Any]:
        return {"partial": handle.partial.text}

    def _result(self, finals: list[Final]) -> dict[str, Any]:
        """Vosk's form of what was said in some utterances."""
        if self.alternatives > 0:
            if len(finals) == 1:
                ranked = finals[0].alternatives[: self.alternatives]
            else:
                ranked = ((_joined([final.transcript for final in finals]), 0.0),)
            return {"alternatives": [{"confidence": score, **self._said(said)} for said, score in ranked]}
        return self._said(_joined([final.transcript for final in finals]))

    def _said(self, transcript: Transcript) -> dict[str, Any]:
        words = [_word(word) for word in transcript.words] if self.words else []
        return {"result": words, "text": transcript.text} if words else {"text": transcript.text}

    async def _send(self, message: dict[str, Any]) -> None:
        await self._within_idle(self.websocket.send_text(json.dumps(message, ensure_ascii=False)))

    async def _close(self, over: Over) -> None:
        if self.websocket.application_state != WebSocketState.CONNECTED:
            return
        if over.code not in (NORMAL, RESTART):
            await self._send({"error": over.reason})
        await self._within_idle(self.websocket.close(over.code, _cut(over.reason)))

    async def _within_idle(self, sending: Awaitable[None]) -> None:
        """A client that takes nothing for as long as it may send nothing is as good as gone."""
        try:
            async with asyncio.timeout(self.limits.idle):
                await sending
        except TimeoutError as error:
            raise WebSocketDisconnect from error


def _ended(handle: Handle) -> SpanEnd:
    """The next end of a span; how long the client waited for it is counted."""
    handle.process.metrics.latency.observe(time.monotonic() - handle.ending.popleft())
    return handle.ends.popleft()


def _size(message: Any) -> int:
    """How much of the room a message takes in the inbox."""
    return len(message) if isinstance(message, bytes | str) else 0


def _number(values: dict[str, Any], name: str, default: float) -> float:
    value = values.get(name, default)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if math.isfinite(number := float(value)):
            return number
    raise Over(BAD_DATA, f"{name} must be a number, got {_quoted(value)}")


def _quoted(value: Any) -> str:
    """What a client sent, short and printable, for an error and the log."""
    text = repr(value)
    return text if len(text) <= QUOTED else text[:QUOTED] + "..."


def _cut(reason: str) -> str:
    """As much of it as a close frame holds: 123 bytes."""
    return reason.encode()[:123].decode(errors="ignore")


def _word(word: Word) -> dict[str, Any]:
    return {"conf": word.confidence, "end": word.end, "start": word.start, "word": word.text}


def _joined(transcripts: list[Transcript]) -> Transcript:
    text = " ".join(transcript.text for transcript in transcripts)
    words = tuple(word for transcript in transcripts for word in transcript.words)
    return Transcript(text, words, sum(transcript.duration for transcript in transcripts))
