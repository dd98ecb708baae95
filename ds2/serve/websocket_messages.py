"""The messages of Vosk's server: what a client's text asks for, and the JSON of results. No sockets here."""

import contextlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ds2.recognition.transcript import Transcript
from ds2.recognition.words import Word
from ds2.serve.messages import SAMPLE_BYTES, Final, StreamConfig
from ds2.text import join_words

QUOTED = 40  # characters of a client's value that an error repeats
KEYS = ("sample_rate", "encoding", "words", "max_alternatives", "push", "model", "hot", "phrase_list")  # of a config
CLOSE_REASON_BYTES = 123  # that a close frame can hold


@dataclass(frozen=True)
class Wishes:
    """The settings from the client's `config` messages.

    `push`: results are sent when they come, not as replies. `alternatives`: how many texts a result has; 0: one text
    with its words. `model`: the name of one of the server's models; empty: the default.
    """

    stream: StreamConfig = field(default_factory=StreamConfig)
    words: bool = True
    alternatives: int = 0
    push: bool = False
    model: str = ""

    def updated(self, values: dict[str, Any], has_begun: bool) -> "Wishes":
        """Returns a copy with the values of another `config`; a stream that `has_begun` keeps its format.

        Raises:
            ValueError: an unknown key, or a value that does not fit; the message quotes it.
        """
        if unknown := [key for key in values if key not in KEYS]:
            raise ValueError(f"config has no {_quoted(unknown[0])}; choose from {', '.join(KEYS)}")
        words = bool(values.get("words", self.words))
        alternatives = int(_number(values, "max_alternatives", self.alternatives))
        if alternatives < 0:
            raise ValueError(f"max_alternatives must be 0 or more, got {alternatives}")
        if has_begun:
            return replace(self, words=words, alternatives=alternatives)
        push = bool(values.get("push", self.push))
        rate = _number(values, "sample_rate", self.stream.sample_rate)
        encoding = values.get("encoding", self.stream.encoding)
        if encoding not in list(SAMPLE_BYTES):  # a list, because the client's value may be unhashable
            raise ValueError(f"encoding must be one of {', '.join(SAMPLE_BYTES)}, got {_quoted(encoding)}")
        model = values.get("model", self.model)
        if not isinstance(model, str):
            raise ValueError(f"model must be a name, got {_quoted(model)}")
        hot = values.get("hot", list(self.stream.hot))
        if not isinstance(hot, list) or not all(isinstance(word, str) for word in hot):
            raise ValueError(f"hot must be a list of words, got {_quoted(hot)}")
        stream = StreamConfig(rate, encoding, stable=push, hot=tuple(hot), alternatives=alternatives)
        return Wishes(stream, words, alternatives, push, model)

    def result(self, finals: Sequence[Final]) -> dict[str, Any]:
        """The result of some segments, with a warning where the search does not know hot words."""
        warning = finals[0].hot_warning if finals else ""
        return self._texts(finals) | ({"warning": warning} if warning else {})

    def _texts(self, finals: Sequence[Final]) -> dict[str, Any]:
        if not self.alternatives:
            return self._text(_joined_transcripts([final.transcript for final in finals]))
        if len(finals) == 1:
            ranked = finals[0].alternatives[: self.alternatives]
        else:
            ranked = ((_joined_transcripts([final.transcript for final in finals]), 0.0),)
        return {"alternatives": [{"confidence": score, **self._text(transcript)} for transcript, score in ranked]}

    def _text(self, transcript: Transcript) -> dict[str, Any]:
        words = [_vosk_word(word) for word in transcript.words] if self.words else []
        return {"result": words, "text": transcript.text} if words else {"text": transcript.text}


def parse_command(text: str) -> dict[str, Any]:
    """A client's text message.

    Raises:
        ValueError: it is not a JSON object.
    """
    with contextlib.suppress(ValueError, RecursionError):
        if isinstance(command := json.loads(text), dict):
            return command
    raise ValueError("a text message must be a JSON object; send sound in binary messages")


def close_reason(reason: str) -> str:
    """The beginning of a reason that fits into a close frame."""
    return reason.encode()[:CLOSE_REASON_BYTES].decode(errors="ignore")


def _number(values: dict[str, Any], name: str, default: float) -> float:
    value = values.get(name, default)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        if math.isfinite(number := float(value)):
            return number
    raise ValueError(f"{name} must be a number, got {_quoted(value)}")


def _quoted(value: Any) -> str:
    """A client's value, short and printable, for an error and the log."""
    text = repr(value)
    return text if len(text) <= QUOTED else text[:QUOTED] + "..."


def _vosk_word(word: Word) -> dict[str, Any]:
    shown = {} if word.display is None else {"display": word.display}
    return {"conf": word.confidence, "end": word.end, "start": word.start, "word": word.text, **shown}


def _joined_transcripts(transcripts: list[Transcript]) -> Transcript:
    text = join_words(transcript.text for transcript in transcripts)
    words = tuple(word for transcript in transcripts for word in transcript.words)
    return Transcript(text, words, sum(transcript.duration for transcript in transcripts))
