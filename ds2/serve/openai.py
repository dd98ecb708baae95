"""OpenAI's `POST /v1/audio/transcriptions`: takes a file, returns its transcript, whole or as server-sent events."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.types import Message

from ds2.recognition.formats import to_srt, to_vtt
from ds2.recognition.transcript import Transcript
from ds2.serve.config import Limits
from ds2.serve.gate import Refused
from ds2.serve.handle import Handle
from ds2.serve.messages import Final, StreamConfig
from ds2.serve.pool import Busy, Pool
from ds2.serve.uploads import TooLong, decode_upload
from ds2.utils.errors import InputError

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
GRANULARITIES = {"word", "segment"}
PIECE_SECONDS = 5.0  # of sound that the model gets at a time, so that an upload does not delay live streams
AHEAD_SECONDS = 10.0  # of sound that may wait for the model
Result = TypeVar("Result")


@dataclass(frozen=True)
class Asked:
    """The fields of a request."""

    file: UploadFile
    format: str
    granularities: frozenset[str]
    stream: bool
    language: str


class Transcriptions:
    """Answers uploads with the models of a pool."""

    def __init__(self, pool: Pool, limits: Limits, sample_rate: int):
        self.pool, self.limits, self.sample_rate = pool, limits, sample_rate

    async def answer(self, request: Request) -> Response:
        """The response to an upload.

        Raises:
            Refused: the request is wrong, or the server cannot take it.
        """
        async with self._limited(request).form(max_files=1, max_fields=50) as form:
            asked = parse(form)
            data = await asked.file.read()
            name = asked.file.filename or "upload"
        began = time.monotonic()
        try:
            samples = await asyncio.to_thread(
                decode_upload, data, name, self.sample_rate, self.limits.upload_audio_seconds
            )
            handle = self.pool.open(StreamConfig(self.sample_rate, "float32"))
        except TooLong as error:
            raise Refused(413, "duration", str(error), field="file") from error
        except InputError as error:
            raise Refused(400, "file", str(error), field="file") from error
        except Busy as error:
            raise Refused(503, "busy", str(error), 5) from error
        duration = len(samples) / self.sample_rate
        finals = self._transcribe(handle, samples, began)
        if asked.stream:
            return StreamingResponse(_events(finals, duration), media_type="text/event-stream")
        try:
            return respond(asked, await _while_there(request, _all(finals)), duration)
        except InputError as error:
            raise Refused(500, "failed", str(error)) from error

    async def _transcribe(self, handle: Handle, samples: np.ndarray, began: float) -> AsyncIterator[Final]:
        """Feeds (N,) float32 samples to the model as fast as it takes them, and yields utterances as they end."""
        size = round(PIECE_SECONDS * self.sample_rate)
        pieces = (samples[start : start + size].tobytes() for start in range(0, len(samples), size))
        try:
            while not handle.ends:
                while handle.backlog < AHEAD_SECONDS and not handle.ending:
                    piece = next(pieces, None)
                    if piece is None:
                        handle.end()
                    else:
                        handle.feed(piece)
                await handle.change()
                if handle.failed is not None:
                    raise InputError(handle.failed)
                while handle.finals:
                    yield handle.finals.popleft()
            handle.process.metrics.upload_latency.observe(time.monotonic() - began)
        finally:
            handle.close()

    def _limited(self, request: Request) -> Request:
        """The request, whose body raises Refused when it is too large or stops coming."""
        most = self.limits.upload_bytes + 100_000  # the other fields and the multipart headers
        refusal = Refused(413, "size", f"a file may have {self.limits.upload_bytes} bytes", field="file")
        promised = request.headers.get("content-length", "")
        if promised.isdigit() and int(promised) > most:
            raise refusal
        seen = 0

        async def receive() -> Message:
            nonlocal seen
            try:
                message = await asyncio.wait_for(request.receive(), self.limits.idle_seconds)
            except TimeoutError as error:
                raise Refused(408, "idle", f"nothing came for {self.limits.idle_seconds:g} s") from error
            seen += len(message.get("body", b""))
            if seen > most:
                raise refusal
            return message

        return Request(request.scope, receive)


def parse(form: FormData) -> Asked:
    """Reads the fields of a request.

    Raises:
        Refused: a field is missing or wrong.
    """
    file = form.get("file")
    if not isinstance(file, UploadFile):
        raise Refused(400, "request", "the recording is missing; send multipart/form-data", field="file")
    format = str(form.get("response_format", "json"))
    if format not in FORMATS:
        raise Refused(400, "request", f"response_format: must be one of {', '.join(FORMATS)}", field="response_format")
    wanted = [*form.getlist("timestamp_granularities[]"), *form.getlist("timestamp_granularities")]
    granularities = frozenset(map(str, wanted))
    if granularities - GRANULARITIES:
        raise Refused(400, "request", "timestamp_granularities: word or segment", field="timestamp_granularities")
    stream = str(form.get("stream", "false")).lower() in ("true", "1")
    return Asked(file, format, granularities, stream, str(form.get("language", "en"))[:20])


def respond(asked: Asked, finals: list[Final], duration: float) -> Response:
    """The transcript in the requested format."""
    text = " ".join(final.transcript.text for final in finals)
    words = tuple(word for final in finals for word in final.transcript.words)
    whole = Transcript(text, words, duration)
    if asked.format == "json":
        return JSONResponse({"text": text, "usage": _usage(duration)})
    if asked.format == "verbose_json":
        return JSONResponse(_verbose(asked, finals, whole))
    kind, written = {
        "text": ("plain", text + "\n"),
        "srt": ("plain", to_srt(whole, "")),
        "vtt": ("vtt", to_vtt(whole, "")),
    }[asked.format]
    return PlainTextResponse(written, media_type=f"text/{kind}")


def _verbose(asked: Asked, finals: list[Final], whole: Transcript) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "task": "transcribe",
        "language": asked.language,
        "duration": round(whole.duration, 3),
        "text": whole.text,
        "segments": [_segment(number, final) for number, final in enumerate(finals)],
        "usage": _usage(whole.duration),
    }
    if "word" in asked.granularities:
        answer["words"] = [{"word": word.text, "start": word.start, "end": word.end} for word in whole.words]
        if "segment" not in asked.granularities:
            del answer["segments"]
    return answer


def _segment(number: int, final: Final) -> dict[str, Any]:
    """A segment; `tokens`, `temperature`, `compression_ratio` and `no_speech_prob` do not apply to this model."""
    (_, score), words = final.alternatives[0], final.transcript.words
    return {
        "id": number,
        "seek": 0,
        "start": words[0].start,
        "end": words[-1].end,
        "text": final.transcript.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": score / max(1, len(final.transcript.text)),
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }


async def _all(finals: AsyncIterator[Final]) -> list[Final]:
    return [final async for final in finals]


async def _while_there(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
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
        working.cancel()
        leaving.cancel()


async def _events(finals: AsyncIterator[Final], duration: float) -> AsyncIterator[str]:
    text = ""
    try:
        async for final in finals:
            delta = (" " if text else "") + final.transcript.text
            text += delta
            yield _event({"type": "transcript.text.delta", "delta": delta})
        yield _event({"type": "transcript.text.done", "text": text, "usage": _usage(duration)})
    except InputError as error:
        yield _event({"type": "error", **problem(500, str(error))})


def _event(facts: dict[str, Any]) -> str:
    return f"data: {json.dumps(facts, ensure_ascii=False)}\n\n"


def _usage(duration: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": -(-duration // 1)}


def problem(status: int, message: str, field: str | None = None) -> dict[str, Any]:
    """An error in the form of OpenAI's API; `field` names the wrong field of the request."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": field, "code": None}}


def refusal_of(error: HTTPException | ClientDisconnect) -> Refused:
    """The refusal of a request that cannot be parsed."""
    return Refused(400, "request", str(getattr(error, "detail", "the client went away")))
