"""OpenAI's `POST /v1/audio/transcriptions`: takes a file, returns its transcript, whole or as server-sent events."""

import asyncio
import contextlib
import errno
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from ds2.serve.admission import Refused
from ds2.serve.config import Limits
from ds2.serve.fair_places import Turns
from ds2.serve.messages import Final, StreamConfig
from ds2.serve.models import Models
from ds2.serve.openai_messages import Asked, error_event, iter_events, parse_form, respond
from ds2.serve.process_choice import Busy
from ds2.serve.stream_handle import Handle
from ds2.serve.upload_decoding import DECODER_BYTES, Decoders, DecodersFailed, Order
from ds2.serve.upload_sound import upload_name
from ds2.utils.errors import InputError, ParameterError, TooLong
from ds2.utils.model_names import check_language, packaged_language

AHEAD_SECONDS = 10.0  # of sound that may wait for the model
CHARSETS = ("utf-8", "utf8", "us-ascii", "iso-8859-1")
OTHER_BYTES = 100_000  # that a request may have beside its file: other fields, multipart headers
Result = TypeVar("Result")


class ModelFailed(Exception):
    """The model process failed on an upload."""


class Transcriptions:
    """Answers uploads with the model that each names.

    A file stays on disk; it is decoded, resampled and recognised a few seconds at a time, only while its client waits.
    So many are decoded at once as have room in `limits.decoded_bytes`; others wait, one client no longer than another.
    """

    def __init__(self, models: Models, limits: Limits):
        self.models, self.limits = models, limits
        self.decoders, self.turns = Decoders(), Turns(max(1, limits.decoded_bytes // DECODER_BYTES))

    async def answer(self, request: Request, client: str, send: Send) -> int:
        """Sends the response to an upload of a client; returns its status.

        Raises:
            Refused: the request is wrong, or the server cannot take it.
        """
        form = await self._form(request)
        try:
            return await self._respond(request, parse_form(form), client, send)
        finally:
            await form.close()

    async def _form(self, request: Request) -> FormData:
        """The fields of the request; a large file goes to the temporary folder.

        Raises:
            Refused: no form, too large or late, of an encoding other than UTF-8, or there is no room for it.
        """
        kind, parameters = parse_options_header(request.headers.get("content-type"))
        if kind.lower() != b"multipart/form-data":
            raise Refused(
                400, "request", "send the recording in a form (multipart/form-data), as curl -F file=@a.mp3 does"
            )
        charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
        if charset.lower() not in CHARSETS:  # Python has others, some of which take a square of the time
            raise Refused(400, "request", f"charset {charset[:40]!r}: send the fields in UTF-8")
        try:
            return await self._limited(request).form(max_files=1, max_fields=50)
        except OSError as error:
            raise _not_stored(error) from error

    async def _respond(self, request: Request, asked: Asked, client: str, send: Send) -> int:
        longest, began = self.limits.upload_audio_seconds, time.monotonic()
        if (asked.file.size or 0) > self.limits.upload_bytes:  # the request was within its limit, which is wider
            raise self._too_large()
        try:
            name = self.models.find(asked.model)
        except ParameterError as error:
            raise Refused(404, "request", str(error), field="model") from error
        try:
            check_language(asked.language, self.models.paths[name])
            asked = replace(asked, language=asked.language or packaged_language(self.models.paths[name])[0] or "en")
        except ParameterError as error:
            raise Refused(400, "request", str(error), field="language") from error
        # The file is decoded in a process, some seconds ahead of the model, which hears it as a live stream.
        rate = self.models.rates[name]
        order = Order(upload_name(asked.file.filename), rate, longest, asked.channel)
        chunks = self.decoders.chunks(asked.file.file, order)
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(contextlib.aclosing(chunks))
            try:
                # A bad file takes no stream of the model.
                first = await _while_connected(request, self._first(stack, client, chunks))
                config = StreamConfig(rate, "float32", patient=not asked.stream, hot=asked.hot)
                handle = self.models.pools[name].open(config)
                stack.callback(handle.close)
                finals = self._transcribe(handle, first, chunks, began)
                if asked.stream:
                    response: Response = StreamingResponse(
                        _events(finals, handle, asked), media_type="text/event-stream"
                    )
                else:
                    every = await _while_connected(request, _all(finals))
                    response = respond(asked, every, handle.fed, handle.left_out)
            except (InputError, Busy, ModelFailed, DecodersFailed) as error:
                raise _refusal(error) from error
            await response(request.scope, request.receive, send)
            return response.status_code

    async def _first(self, stack: contextlib.AsyncExitStack, client: str, chunks: AsyncGenerator[bytes, None]) -> bytes:
        """Waits for the client's turn, of which the stack ends, and for the first chunk of its upload."""
        await stack.enter_async_context(self.turns.place(client))
        try:
            return await anext(chunks, b"")
        except OSError as error:
            raise _not_stored(error) from error

    async def _transcribe(
        self, handle: Handle, chunk: bytes, chunks: AsyncGenerator[bytes, None], began: float
    ) -> AsyncIterator[Final]:
        """Feeds a chunk and those behind it to the model as fast as it takes them; yields segments as they end."""
        while not handle.ends:
            while handle.backlog < AHEAD_SECONDS and not handle.ending:
                if chunk:
                    handle.feed(chunk)
                    chunk = await anext(chunks, b"")
                else:
                    handle.end()
            await handle.change()
            if handle.failed is not None:
                raise ModelFailed(handle.failed)
            while handle.finals:
                yield handle.finals.popleft()
        handle.process.metrics.upload_latency.observe(time.monotonic() - began)

    def _limited(self, request: Request) -> Request:
        """The request, whose body raises Refused when it is too large, stops coming or takes too long."""
        most, limits = self.limits.upload_bytes + OTHER_BYTES, self.limits
        # A length that is promised and too large is refused before a byte is read; a client may also promise none.
        promised = request.headers.get("content-length", "")
        if promised.isdigit() and int(promised) > most:
            raise self._too_large()
        seen, until = 0, time.monotonic() + limits.upload_timeout_seconds

        async def receive() -> Message:
            nonlocal seen
            rest = until - time.monotonic()
            try:
                message = await asyncio.wait_for(request.receive(), min(limits.idle_seconds, rest))
            except TimeoutError as error:
                reason = f"nothing came for {limits.idle_seconds:g} s"
                if rest <= limits.idle_seconds:
                    reason = f"the upload took more than {limits.upload_timeout_seconds:g} s"
                raise Refused(408, "idle", reason) from error
            seen += len(message.get("body", b""))
            if seen > most:
                raise self._too_large()
            return message

        return Request(request.scope, receive)

    def _too_large(self) -> Refused:
        return Refused(413, "size", f"a file may have {self.limits.upload_bytes:,} bytes", field="file")


def _not_stored(error: OSError) -> Refused:
    """The refusal of an upload for which the temporary folder has no room."""
    status = 507 if error.errno in (errno.ENOSPC, errno.EDQUOT) else 503
    return Refused(status, "storage", f"the upload cannot be stored ({error.strerror})", 60)


def _refusal(error: Exception) -> Refused:
    """The refusal of an upload that cannot be transcribed."""
    if isinstance(error, TooLong):
        return Refused(413, "duration", str(error), field="file")
    if isinstance(error, InputError):
        return Refused(400, "file", str(error), field="file")
    if isinstance(error, Busy):
        return Refused(503, "busy", str(error), 5)
    return Refused(500, "failed", str(error))


async def _all(finals: AsyncIterator[Final]) -> list[Final]:
    return [final async for final in finals]


async def _while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work, which is cancelled if the client disconnects.

    Raises:
        ClientDisconnect: the client disconnected.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            raise ClientDisconnect
        return await working
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _events(finals: AsyncIterator[Final], handle: Handle, asked: Asked) -> AsyncIterator[str]:
    try:
        async for event in iter_events(finals, lambda: handle.fed, "word" in asked.granularities):
            yield event
    except (InputError, ModelFailed, DecodersFailed) as error:
        refusal = _refusal(error)
        yield error_event(refusal.status, refusal.message, refusal.field)


def refusal_of(error: HTTPException | ClientDisconnect) -> Refused:
    """The refusal of a request that cannot be parsed."""
    return Refused(400, "request", str(getattr(error, "detail", "the client went away")))
