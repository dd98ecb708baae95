"""A live stream over a WebSocket, in the protocol of Vosk's server, so that its clients work unchanged.

    client                                            server
    {"config": {"sample_rate": 16000}}                (no reply)
    binary sound                                      {"partial": "one tw"}, or at a pause
                                                      {"result": [{"conf", "end", "start", "word"}], "text": "one two"}
    {"reset": 1}                                      the final result; the stream continues
    {"eof": 1}                                        the final result; close 1000

Every message but `config` gets exactly one reply. It is sent without waiting for the model, unless the client is so far
ahead that it must be slowed down. Three keys of `config` are not Vosk's: `encoding` (pcm16, float32, mulaw); `hot`, a
list of words to prefer, each as "word" or "word=nats"; and `push`, with which results are sent when they come, not as
replies, and partial results say how many characters are `stable`. An unknown key is an error. A later `config` changes
the keys that it names; after the first sound only `words` and `max_alternatives` can change. `model` names one of the
server's models, by default its first. `phrase_list` is ignored: it allows no other words, while hot words are
preferred. Where the model has punctuation, each word has its `display` form, too; `text` stays plain.
"""

import asyncio
import contextlib
import json
import time
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from ds2.serve.config import Limits
from ds2.serve.messages import SAMPLE_BYTES
from ds2.serve.models import Models
from ds2.serve.process_choice import Busy
from ds2.serve.stream_handle import Handle
from ds2.serve.websocket_messages import Wishes, close_reason, parse_command

HOLD_SECONDS = 1.2  # sound that may wait, more than LONGEST_CHUNK, before a client that is too fast waits for replies
MESSAGES = 20_000  # that may wait; without this bound messages of one byte would hardly be limited
NORMAL, RESTART, LATER, BAD_DATA, POLICY, BROKEN = 1000, 1012, 1013, 1007, 1008, 1011
# In the inbox: the client has left; the server shuts down; the stream or the pusher has failed.
EOF, DRAIN, FAILED = object(), object(), object()


@dataclass
class Waiting:
    """What waits in the inboxes of all sessions."""

    most: int  # bytes
    sessions: int  # as many as can be open
    bytes: int = 0

    def too_much(self, held: int) -> bool:
        """Whether a session that holds so many bytes must end, because it takes the room of others."""
        return self.bytes > self.most and held > self.most / self.sessions


class Over(Exception):
    """The session ends with this close code; unless it is NORMAL or RESTART, an error message is sent first."""

    def __init__(self, code: int, reason: str = ""):
        super().__init__(reason)
        self.code, self.reason = code, reason


class VoskSession:
    """One connection from its first message to its close."""

    def __init__(self, websocket: WebSocket, models: Models, limits: Limits, waiting: Waiting):
        self.websocket, self.models, self.limits, self.waiting = websocket, models, limits, waiting
        self.wishes = Wishes()
        self.handle: Handle | None = None
        self.inbox: deque[Any] = deque()
        self.held = 0  # bytes (of text, characters) in the inbox
        self.flooded = False  # more waits than is allowed: nothing more is read
        self.arrived = asyncio.Event()
        self.pusher: asyncio.Task[None] | None = None
        self.sound_at = time.monotonic()  # when the last sound came; the time that the server took does not count

    async def run(self) -> Over:
        """Serves the client until the end, closes, and returns why it ended."""
        reader = asyncio.create_task(self._read())
        try:
            over = await self._serve()
        except (WebSocketDisconnect, RuntimeError):  # RuntimeError: sending to a client that has left
            return Over(NORMAL, "the client went away")
        finally:
            if self.handle is not None:
                self.handle.close()
            tasks = [task for task in (reader, self.pusher) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.waiting.bytes -= self.held
        with contextlib.suppress(RuntimeError, WebSocketDisconnect):
            await self._close(over)
        return over

    def drain(self) -> None:
        """The server shuts down: the client gets the final result of its sound so far."""
        self._put(DRAIN)

    async def _serve(self) -> Over:
        try:
            while True:
                await self._obey(await self._next())
        except Over as over:
            return over
        except Busy as error:
            return Over(LATER, str(error))
        except ValueError as error:  # InputError is one
            return Over(BAD_DATA, str(error))

    async def _read(self) -> None:
        """A task: empties the socket within limits, so that pings are answered even while the model is behind."""
        while not self.flooded:
            message = await self.websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._put(EOF)
                return
            data = message.get("bytes")
            self._put(data if data is not None else message.get("text", ""))
            self.flooded = self.held > self._room or len(self.inbox) > MESSAGES or self.waiting.too_much(self.held)
        if self.handle is not None:
            self.handle.changed.set()  # wakes whoever waits for the model

    @property
    def _room(self) -> float:
        """Bytes that may wait."""
        stream = self.wishes.stream
        backlog = self.limits.backlog_seconds * SAMPLE_BYTES[stream.encoding] * stream.sample_rate
        return backlog + self.limits.message_bytes

    def _check(self) -> None:
        """Raises Over if the stream cannot continue."""
        if self.flooded:
            seconds = self.limits.backlog_seconds
            raise Over(POLICY, f"more than {seconds:g} s of sound wait: send no faster than real time")
        if self.handle is not None and self.handle.failed is not None:
            raise Over(BROKEN, self.handle.failed)

    def _put(self, message: Any) -> None:
        self.inbox.append(message)
        self._hold(_size(message))
        self.arrived.set()

    async def _next(self) -> Any:
        """The next message; raises Over if no sound comes in time, whatever else does."""
        until = self.sound_at + self.limits.idle_seconds
        while not self.inbox:
            self.arrived.clear()
            try:
                await asyncio.wait_for(self.arrived.wait(), until - time.monotonic())
            except TimeoutError:
                break
        if not self.inbox or (isinstance(self.inbox[0], str) and time.monotonic() > until):
            await self._end(POLICY, f"no sound came for {self.limits.idle_seconds:g} s")
        message = self.inbox.popleft()
        self._hold(-_size(message))
        return message

    def _hold(self, change: int) -> None:
        self.held += change
        self.waiting.bytes += change

    async def _obey(self, message: Any) -> None:
        if message is EOF:
            raise WebSocketDisconnect
        self._check()
        if message is FAILED and self.pusher is not None:
            await self.pusher  # raises its exception
        elif message is DRAIN:
            await self._end(RESTART, "the server is shutting down")
        elif isinstance(message, bytes):
            await self._sound(message)
        else:
            await self._text(message)

    async def _sound(self, data: bytes) -> None:
        handle = self._stream()
        handle.feed(data)
        if handle.fed > self.limits.stream_seconds:
            await self._end(POLICY, f"a stream may last {self.limits.stream_seconds:g} s")
        most = self.limits.backlog_seconds if self.wishes.push else HOLD_SECONDS
        while handle.backlog > most:
            await handle.change()
            self._check()
        if data:
            self.sound_at = time.monotonic()
        if not self.wishes.push:
            finals = [handle.finals.popleft()] if handle.finals else []
            await self._send(self.wishes.result(finals) if finals else {"partial": handle.partial.text})

    async def _text(self, text: str) -> None:
        command = parse_command(text)
        if isinstance(command.get("config"), dict):
            self.wishes = self.wishes.updated(command["config"], self.handle is not None)
            self.models.find(self.wishes.model)  # raises ParameterError, a ValueError, for an unknown name
            if self.handle is not None:
                self.handle.ask(self.wishes.alternatives)
        elif "reset" in command:
            await self._final(last=False)
        elif "eof" in command:
            await self._end(NORMAL)
        else:
            raise Over(BAD_DATA, "a text message must hold config, reset or eof")

    def _stream(self) -> Handle:
        if self.handle is None:
            self.handle = self.models.pools[self.models.find(self.wishes.model)].open(self.wishes.stream)
            self.handle.on_failure = lambda: self._put(FAILED)
            if self.wishes.push:
                self.pusher = asyncio.create_task(self._push(self.handle))
                self.pusher.add_done_callback(lambda _: self._put(FAILED))
        return self.handle

    async def _end(self, code: int, reason: str = "") -> None:
        await self._final(last=True)
        raise Over(code, reason)

    async def _final(self, last: bool) -> None:
        """Ends the stream, or (not `last`) resets it, and replies with all results that have not been sent yet."""
        handle = self.handle
        if handle is None:  # there was no sound
            await self._send(self.wishes.result([]))
            return
        handle.end(last)
        # Where results are pushed, the task sends the last ones itself.
        if self.pusher is not None:
            if last:
                await self.pusher
                self._check()
            return
        began = time.monotonic()
        # The time that the client waits for its results does not count as silence of the client.
        while not handle.ends:
            await handle.change()
            self._check()
        self.sound_at += time.monotonic() - began
        handle.take_end()
        finals = list(handle.finals)
        handle.finals.clear()
        await self._send(self.wishes.result(finals))

    async def _push(self, handle: Handle) -> None:
        """A task: sends results as they come, until the last. More can come during a send, so it waits for a change
        only if there is nothing to send."""
        shown = handle.partial
        while True:
            if handle.finals:
                await self._send(self.wishes.result([handle.finals.popleft()]))
            elif handle.ends:
                if handle.take_end().last:
                    return
            elif handle.failed is not None:  # the session's own loop reports it
                return
            elif handle.partial != shown:
                shown = handle.partial
                if shown.text:
                    await self._send({"partial": shown.text, "stable": shown.stable})
            else:
                await handle.change()

    async def _send(self, message: dict[str, Any]) -> None:
        await self._within_idle(self.websocket.send_text(json.dumps(message, ensure_ascii=False)))

    async def _close(self, over: Over) -> None:
        if self.websocket.application_state != WebSocketState.CONNECTED:
            return
        if over.code not in (NORMAL, RESTART):
            await self._send({"error": over.reason})
        await self._within_idle(self.websocket.close(over.code, close_reason(over.reason)))

    async def _within_idle(self, sending: Awaitable[None]) -> None:
        """A client that does not read for as long as it may be silent counts as gone."""
        try:
            async with asyncio.timeout(self.limits.idle_seconds):
                await sending
        except TimeoutError as error:
            raise WebSocketDisconnect from error


def _size(message: Any) -> int:
    """The size of a message in the inbox."""
    return len(message) if isinstance(message, bytes | str) else 0
