"""The messages between the server and its model processes; light to import, because the server needs no torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ds2.model.config import Precision
from ds2.recognition.live_config import LiveConfig
from ds2.recognition.options import DecoderOptions, EngineName, hot_words
from ds2.recognition.transcript import Transcript
from ds2.serve.dispatch import DispatchConfig
from ds2.utils.errors import ParameterError

Encoding = Literal["pcm16", "float32", "mulaw"]
LOWEST_RATE, HIGHEST_RATE = 8000, 192_000  # Hz; a browser sends its sound card's rate
MOST_HOT = 100  # hot words of a stream
SAMPLE_BYTES = {"pcm16": 2, "float32": 4, "mulaw": 1}


def check_hot(words: Sequence[str]) -> None:
    """Checks the hot words of a stream.

    Raises:
        ParameterError: there are too many, or one is no word.
    """
    if len(words) > MOST_HOT:
        raise ParameterError("hot", f"at most {MOST_HOT} words, got {len(words)}")
    hot_words(words)


@dataclass(frozen=True)
class StreamConfig:
    """The format of a client's stream."""

    sample_rate: float = 8000.0  # Hz
    encoding: Encoding = "pcm16"
    endpoints: bool = True  # a pause ends a segment
    patient: bool = False  # nobody waits for the first words: segments are as long as those of a recording
    stable: bool = False  # partial results say how many of their characters are final
    hot: tuple[str, ...] = ()  # words to prefer, each as "word" or "word=nats"
    alternatives: int = 1  # different texts that a final result holds at most, the best one included

    def __post_init__(self) -> None:
        if not LOWEST_RATE <= self.sample_rate <= HIGHEST_RATE:
            raise ValueError(f"sample_rate must be {LOWEST_RATE} to {HIGHEST_RATE} Hz, got {self.sample_rate:g}")
        if self.encoding not in SAMPLE_BYTES:
            raise ValueError(f"encoding must be one of {', '.join(SAMPLE_BYTES)}, got {self.encoding!r}")
        check_hot(self.hot)


@dataclass(frozen=True)
class Partial:
    """The text of an unfinished segment."""

    text: str
    stable: int = 0  # leading characters that later sound cannot change


@dataclass(frozen=True)
class Final:
    """The result of one segment."""

    transcript: Transcript
    alternatives: tuple[tuple[Transcript, float], ...]  # of different texts, best first, with log-probability
    start: float  # seconds
    unknown_hot: tuple[str, ...] = ()  # words of the stream's hot words and phrases that the search does not know

    @property
    def hot_warning(self) -> str:
        """A line on hot words that cannot be found; empty if there are none."""
        if not self.unknown_hot:
            return ""
        words = ", ".join(self.unknown_hot)
        return f"hot: {words}: unknown to the model, so not found; the server learns words from its setting decoder.hot"


@dataclass(frozen=True)
class LeftOut:
    """A segment has no result, as its words are hardly speech."""

    words: int


@dataclass(frozen=True)
class StreamEnd:
    """The client reset its stream, or ended it for good (`last`), and all results up to there have come."""

    last: bool


@dataclass(frozen=True)
class Failed:
    """The stream has failed; no more results come."""

    reason: str


Event = Partial | Final | LeftOut | StreamEnd | Failed


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of a model process."""

    model: Path
    device: str
    decoder: DecoderOptions
    precision: Precision
    slots: int
    live: LiveConfig
    dispatch: DispatchConfig
    engine: EngineName = "auto"


@dataclass(frozen=True)
class Open:
    """Opens a stream."""

    stream: int
    config: StreamConfig


@dataclass(frozen=True)
class Sound:
    """Sound of a stream, in its encoding."""

    stream: int
    data: bytes


@dataclass(frozen=True)
class End:
    """The sound of the stream ends, for good or (not `last`) until the final result."""

    stream: int
    last: bool = True


@dataclass(frozen=True)
class Alternatives:
    """How many different texts the next final results of the stream hold at most, the best one included."""

    stream: int
    most: int


@dataclass(frozen=True)
class Close:
    """The client of this stream has left."""

    stream: int


Command = Open | Sound | End | Alternatives | Close


@dataclass(frozen=True)
class Result:
    """New events of a stream."""

    stream: int
    seconds: float  # of sound that the model has processed since the last one, padding at the end included
    events: list[Event]


@dataclass(frozen=True)
class Step:
    """One step of the model: a batch of chunks."""

    size: int
    frames: int  # of the front end, of each stream
    seconds: float  # its duration, decoding included
    waited: float  # seconds that its oldest chunk had waited
    queue: int  # chunks that still wait


@dataclass(frozen=True)
class Report:
    """What a step gave: results of streams, and the facts of the step for the metrics."""

    results: list[Result]
    step: Step | None = None


@dataclass(frozen=True)
class Ready:
    """The model is loaded."""

    sample_rate: int
