"""What the server and its model processes tell each other; light to import, for the server needs no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ds2.recognition.options import DecoderOptions
from ds2.recognition.transcript import Transcript
from ds2.serve.dispatch import DispatchConfig

Precision = Literal["auto", "float32", "bfloat16", "float16"]
Encoding = Literal["pcm16", "float32", "mulaw"]
LOWEST_RATE, HIGHEST_RATE = 8000, 192_000  # Hz; a browser sends its sound card's rate
SAMPLE_BYTES = {"pcm16": 2, "float32": 4, "mulaw": 1}


@dataclass(frozen=True)
class StreamConfig:
    """What a client says of its stream."""

    sample_rate: float = 8000.0  # Hz
    encoding: Encoding = "pcm16"
    endpoints: bool = True  # a pause ends an utterance
    stable: bool = False  # partial results say how much of them is certain

    def __post_init__(self) -> None:
        if not LOWEST_RATE <= self.sample_rate <= HIGHEST_RATE:
            raise ValueError(f"sample_rate must be {LOWEST_RATE} to {HIGHEST_RATE} Hz, got {self.sample_rate:g}")
        if self.encoding not in SAMPLE_BYTES:
            raise ValueError(f"encoding must be one of {', '.join(SAMPLE_BYTES)}, got {self.encoding!r}")


@dataclass(frozen=True)
class LiveConfig:
    """How streams are cut and when results come."""

    chunk_frames: int = 12  # front-end frames (10 ms) of a chunk; rounded up to the model's stride
    long_chunk_frames: int = 48  # of one taken where that much waits: at an end, or of an upload
    partial_every: float = 0.1  # seconds between two partial results at least
    pause: float = 0.6  # seconds without a label that end an utterance
    long_utterance: float = 20.0  # seconds after which a shorter pause does
    short_pause: float = 0.15  # seconds


@dataclass(frozen=True)
class Partial:
    """What seems to be said so far in this utterance."""

    text: str
    stable: int = 0  # characters that no sound to come can change


@dataclass(frozen=True)
class Final:
    """What was said in one utterance."""

    transcript: Transcript
    alternatives: tuple[tuple[Transcript, float], ...]  # of different texts, best first, with log-probability
    start: float  # seconds


@dataclass(frozen=True)
class SpanEnd:
    """All of a span's results have come: it was ended by the client, by a reset or for good (`last`)."""

    last: bool


@dataclass(frozen=True)
class Failed:
    """The stream is over; nothing more comes."""

    reason: str


Event = Partial | Final | SpanEnd | Failed


@dataclass(frozen=True)
class WorkerConfig:
    """What a model process needs to know."""

    model: Path
    device: str
    decoder: DecoderOptions
    precision: Precision
    slots: int
    live: LiveConfig
    dispatch: DispatchConfig


@dataclass(frozen=True)
class Open:
    stream: int
    config: StreamConfig


@dataclass(frozen=True)
class Sound:
    stream: int
    data: bytes


@dataclass(frozen=True)
class End:
    """The stream's sound ends here, for good or (not `last`) up to a final result."""

    stream: int
    last: bool = True


@dataclass(frozen=True)
class Close:
    """Nobody waits for this stream any more."""

    stream: int


Command = Open | Sound | End | Close


@dataclass(frozen=True)
class Result:
    """What came of a stream."""

    stream: int
    seconds: float  # that the model has heard since the last one: of its sound, and of silence added behind it
    events: list[Event]


@dataclass(frozen=True)
class Step:
    """A batch that was run."""

    size: int
    frames: int  # of the front end, of each stream
    seconds: float  # that it took, decoding included
    waited: float  # seconds that its first chunk had waited
    queue: int  # chunks that wait behind it


@dataclass(frozen=True)
class Report:
    results: list[Result]
    step: Step | None = None


@dataclass(frozen=True)
class Ready:
    """The model is loaded."""

    sample_rate: int
