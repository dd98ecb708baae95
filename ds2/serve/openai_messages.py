"""The messages of OpenAI's transcription endpoint: the fields of a request, the forms of an answer. No sockets here."""

import json
import math
import re
import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ds2.recognition.formats import to_srt, to_vtt
from ds2.recognition.options import MOST_CHARACTERS, MOST_WORDS
from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word
from ds2.serve.admission import Refused
from ds2.serve.messages import MOST_HOT, Final, check_hot
from ds2.text import join_words, normalize
from ds2.utils.errors import ParameterError

FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
SUBTITLES = ("srt", "vtt")
NAMES = {"en": "english", "zh": "chinese"}  # as OpenAI answers
LEAST = 1e-4  # confidence, for the logarithm
MOST_PROMPT = 2000  # characters of a prompt that are read: a text of OpenAI's has half as many
GRANULARITIES = {"word", "segment"}


@dataclass(frozen=True)
class Asked:
    """The fields of a request."""

    file: UploadFile
    format: str
    granularities: frozenset[str]
    stream: bool
    language: str  # empty: the model's
    model: str
    hot: tuple[str, ...]
    channel: int | None  # from 1 on; None: all together


def parse_form(form: FormData) -> Asked:
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
    if not _is_temperature(str(form.get("temperature") or 0)):
        raise Refused(400, "request", "temperature: must be a number from 0 to 1", field="temperature")
    stream = str(form.get("stream", "false")).lower() in ("true", "1")
    if stream and format in SUBTITLES:
        raise Refused(
            400, "request", "stream: events hold text, no subtitles; leave one of the two out", field="stream"
        )
    if not re.fullmatch("[1-9][0-9]?|", channel := str(form.get("channel", ""))):
        raise Refused(400, "request", "channel: must be a number from 1 to 99", field="channel")
    return Asked(file, format, granularities, stream, str(form.get("language", ""))[:20],
                 str(form.get("model", "")), _hot(form), int(channel) if channel else None)  # fmt: skip


def _is_temperature(text: str) -> bool:
    """Whether OpenAI would take it; this search draws nothing at random, so that it changes nothing."""
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _hot(form: FormData) -> tuple[str, ...]:
    """The words and phrases of the fields `hot`, and those between the commas of OpenAI's `prompt`.

    Raises:
        Refused: the fields `hot` do not hold words, or too many.
    """
    fields = [str(value) for value in [*form.getlist("hot[]"), *form.getlist("hot")]]
    if (length := sum(map(len, fields))) > MOST_HOT * MOST_CHARACTERS:
        raise Refused(400, "request", f"hot: {length:,} characters are too many for {MOST_HOT} words", field="hot")
    listed = [word.strip() for value in fields for word in value.split(",") if word.strip()]
    prompt = str(form.get("prompt", ""))[:MOST_PROMPT].replace("\n", ",").split(",")
    prompted = list(filter(_is_phrase, (piece.strip(" .") for piece in prompt)))
    try:
        check_hot(listed)
    except ParameterError as error:
        raise Refused(400, "request", str(error), field="hot") from error
    return (*listed, *prompted)[:MOST_HOT]


def _is_phrase(text: str) -> bool:
    """Whether this is a word or a phrase, not a sentence that is longer than one, nor an end and a beginning of two."""
    words = normalize(text).split() if len(text) <= MOST_CHARACTERS else []
    spelt = all(word.replace("'", "").isalpha() for word in words)
    return 0 < len(words) <= MOST_WORDS and spelt and "=" not in text and ". " not in text


def respond(asked: Asked, finals: list[Final], duration: float, left_out: int = 0) -> Response:
    """The transcript in the requested format; so many words of other segments are hardly speech."""
    found = [final.transcript for final in finals]
    words = tuple(word for transcript in found for word in transcript.words)
    calibrated, model = all(each.calibrated for each in found), found[0].model if found else ""
    plain = join_words(each.text for each in found)
    dropped = left_out + sum(each.dropped for each in found)
    whole = Transcript(plain, words, duration, model, calibrated=calibrated, dropped=dropped)
    if asked.format == "json":
        return JSONResponse({"text": whole.display, "usage": _usage(duration), **_warning(whole, finals)})
    if asked.format == "verbose_json":
        return JSONResponse(_verbose(asked, finals, whole))
    kind, written = {
        "text": ("plain", whole.display + "\n"),
        "srt": ("plain", to_srt(whole, "")),
        "vtt": ("vtt", to_vtt(whole, "")),
    }[asked.format]
    return PlainTextResponse(written, media_type=f"text/{kind}")


def _verbose(asked: Asked, finals: list[Final], whole: Transcript) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "task": "transcribe",
        "language": NAMES.get(asked.language[:2].lower(), asked.language),
        "duration": round(whole.duration, 3),
        "text": whole.display,
        "segments": [_openai_segment(number, final) for number, final in enumerate(finals)],
        "usage": _usage(whole.duration),
        **_warning(whole, finals),
    }
    if "word" in asked.granularities:
        answer["words"] = [_openai_word(word) for word in whole.words]
        if "segment" not in asked.granularities:
            del answer["segments"]
    return answer


def _warning(transcript: Transcript, finals: Sequence[Final]) -> dict[str, str]:
    """A key that OpenAI does not have: it does not sound like the model's language, or hot words are unknown."""
    lines = list(filter(None, [transcript.warning, finals[0].hot_warning if finals else ""]))
    return {"warning": "; ".join(lines)} if lines else {}


def _openai_word(word: Word) -> dict[str, Any]:
    """A word, plain as OpenAI's are, and its display form where it has one."""
    shown = {} if word.display is None else {"display": word.display}
    return {"word": word.text, **shown, "start": word.start, "end": word.end, "confidence": word.confidence}


def _openai_segment(number: int, final: Final) -> dict[str, Any]:
    """A segment; `tokens`, `temperature`, `compression_ratio` and `no_speech_prob` do not apply to this model.

    `avg_logprob` is the mean logarithm of the words' confidence: clients discard segments below -1, as with Whisper.
    """
    words = final.transcript.words
    return {
        "id": number,
        "seek": 0,
        "start": words[0].start,
        "end": words[-1].end,
        "text": final.transcript.display,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": statistics.fmean(math.log(max(word.confidence, LEAST)) for word in words),
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }


async def iter_events(
    finals: AsyncIterator[Final], duration: Callable[[], float], words: bool = False
) -> AsyncIterator[str]:
    """Server-sent events: a delta for each segment, at last the whole text and the `duration` in seconds.

    With `words` each delta holds the words of the segment with their times.
    """
    text = ""
    async for final in finals:
        longer = join_words([text, final.transcript.display]) if text else final.transcript.display
        text, delta = longer, longer[len(text) :]
        timed = {"words": [_openai_word(word) for word in final.transcript.words]} if words else {}
        yield _event({"type": "transcript.text.delta", "delta": delta, **timed})
    yield _event({"type": "transcript.text.done", "text": text, "usage": _usage(duration())})


def error_event(status: int, message: str, field: str | None) -> str:
    """The server-sent event of an error."""
    return _event({"type": "error", **error_body(status, message, field)})


def _event(facts: dict[str, Any]) -> str:
    return f"data: {json.dumps(facts, ensure_ascii=False)}\n\n"


def _usage(duration: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": -(-duration // 1)}


def error_body(status: int, message: str, field: str | None = None) -> dict[str, Any]:
    """An error in the form of OpenAI's API; `field` names the wrong field of the request."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": field, "code": None}}
