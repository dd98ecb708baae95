"""A live stream gives what the whole recording gives, however it comes in."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.live import arrays
from hypothesis import given, settings
from hypothesis import strategies as st

import ds2
from ds2.audio.files import read_audio_array
from ds2.audio.tensors import read_audio, resample
from ds2.recognition.live import LiveStream
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.utils.errors import ParameterError

RECIPES = Path(__file__).parents[2] / "recipes"
RECORDINGS = {
    "digits-streaming": ["digits/audio/so762_000260033.opus", "digits/audio/so762_000530030.opus"],
    "english": ["english/audio/libri_00088.opus", "english/audio/cv_00139.opus"],
}
PAUSE = np.zeros(8000, np.float32)
Streamed = tuple[Recognizer, np.ndarray, list[Transcript]]  # (N,) samples at 8 kHz, the utterances in them


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer.load("digits-streaming", "cpu")


@pytest.fixture(scope="module")
def streams() -> dict[str, Streamed]:
    """Of each model that streams."""
    found = {}
    for model, paths in RECORDINGS.items():
        recognizer = Recognizer.load(model, "cpu")
        parts = [read_audio_array(RECIPES / path, 8000)[0][: 8000 * 4] for path in paths]
        samples = np.concatenate([each for part in parts for each in (part, PAUSE)])
        stream = recognizer.stream()
        stream.accept(samples, 8000)
        found[model] = recognizer, samples, stream.finish()
    return found


def sound(folder: Path, count: int, pause: float) -> torch.Tensor:
    """(N,) samples at 8 kHz: digits of one speaker with seconds of weak noise after each."""
    noise = torch.randn(round(8000 * pause), generator=torch.Generator().manual_seed(0)) * 1e-3
    parts = [read_audio(folder / f"{number}.wav")[0] for number in range(count)]
    return torch.cat([part for digit in parts for part in (digit, noise)])


def finals(stream: LiveStream, samples: torch.Tensor, size: int, rate: int = 8000) -> list[Transcript]:
    """The transcripts of all utterances, taken as they end."""
    found = []
    for array in samples.split(size):
        stream.accept(array, rate)
        found += stream.results()
    return found + stream.finish()


@pytest.mark.parametrize("beam", [None, 0])
@pytest.mark.parametrize("size", [100, 1777, 8000])
def test_one_utterance_equals_the_recording(spoken_digits: Callable[[int], Path], beam: int | None, size: int) -> None:
    recognizer = ds2.load("digits-streaming", "cpu", beam=beam)
    samples = sound(spoken_digits(4).parent, 4, 0.1)
    stream = recognizer.stream()
    for array in samples.split(size):
        stream.accept(array, 8000)
    assert stream.partial()
    [live], offline = stream.finish(), recognizer.transcribe(samples, 8000)
    assert (live.text, live.duration, live.model) == (offline.text, offline.duration, "digits-streaming")
    assert [(word.start, word.end) for word in live.words] == [(word.start, word.end) for word in offline.words]


def test_pauses_end_utterances_and_times_go_on(recognizer: Recognizer, spoken_digits: Callable[[int], Path]) -> None:
    samples = sound(spoken_digits(3).parent, 3, 1.5)
    found = finals(recognizer.stream(), samples, 800)
    words = recognizer.transcribe(samples, 8000).words
    assert len(found) == 3
    assert [word.text for transcript in found for word in transcript.words] == [word.text for word in words]
    starts = [word.start for transcript in found for word in transcript.words]
    assert starts == pytest.approx([word.start for word in words], abs=0.15)


def test_nothing_is_lost_where_nothing_is_taken(recognizer: Recognizer, spoken_digits: Callable[[int], Path]) -> None:
    """A whole file at once, and its three utterances at the end; `results` gives each of them once."""
    samples = sound(spoken_digits(3).parent, 3, 1.5)
    stream, expected = recognizer.stream(), finals(recognizer.stream(), samples, 800)
    stream.accept(samples, 8000)
    assert stream.finish() == expected
    assert len(expected) == 3
    stream.accept(samples, 8000)
    first = next(stream.results())
    assert [first.text, *(transcript.text for transcript in stream.finish())] == [each.text for each in expected]
    assert first.words[0].start == pytest.approx(expected[0].words[0].start + len(samples) / 8000, abs=0.001)
    assert stream.finish() == []


@settings(max_examples=5)
@given(sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=12))
@pytest.mark.parametrize("model", ["digits-streaming", "english"])
def test_any_pieces_give_the_same(streams: dict[str, Streamed], model: str, sizes: list[int]) -> None:
    """The utterances with their words, times and confidence, of two recordings with a pause after each."""
    recognizer, samples, expected = streams[model]
    stream = recognizer.stream()
    for array in arrays(samples, sizes):
        stream.accept(array, 8000)
    assert stream.finish() == expected
    assert len(expected) >= 2


@pytest.mark.parametrize("lead", [0.0, 0.32, 0.64])
def test_a_pause_within_a_chunk_ends_an_utterance(lead: float) -> None:
    """The model hears 0.96 s at once; the pause of 1 s may begin anywhere in them."""
    recognizer = Recognizer.load("english", "cpu")
    english = Path(__file__).parents[2] / "recipes" / "english" / "audio"
    parts = [noise(lead)]
    for name in ("libri_00088.opus", "libri_00098.opus"):
        spoken = read_audio(english / name, 16000)[0]
        words = recognizer.transcribe(spoken, 16000).words
        parts += [spoken[int(16000 * words[0].start) : int(16000 * words[-1].end)], noise(1.0)]
    border = sum(map(len, parts[:2])) / 16000 + 0.5
    stream, found = recognizer.stream(), []
    for array in torch.cat(parts).split(1600):
        stream.accept(array, 16000)
        found += stream.results()
    times = [(transcript.words[0].start, transcript.words[-1].end) for transcript in found]
    assert any(last < border for _, last in times)
    assert not any(first < border < last for first, last in times)


def noise(seconds: float) -> torch.Tensor:
    """(N,) samples at 16 kHz, hardly to be heard."""
    return torch.randn(round(16000 * seconds), generator=torch.Generator().manual_seed(0)) * 1e-4


def test_other_rates_are_resampled(recognizer: Recognizer, spoken_digits: Callable[[int], Path]) -> None:
    samples = sound(spoken_digits(2).parent, 2, 0.2)
    [live] = finals(recognizer.stream(), resample(samples, 8000, 48000), 4800, 48000)
    assert live.text == recognizer.transcribe(samples, 8000).text
    assert live.duration == pytest.approx(len(samples) / 8000, abs=0.01)


def test_what_a_stream_refuses(recognizer: Recognizer) -> None:
    stream = recognizer.stream()
    stream.accept(np.zeros(80), 8000)
    with pytest.raises(ParameterError, match="sample_rate: changed from 8000 to 16000"):
        stream.accept(np.zeros(80), 16000)
    with pytest.raises(ParameterError, match="samples"):
        stream.accept(np.full(80, np.nan), 8000)
    with pytest.raises(ParameterError, match=r"one channel, got shape \(80, 2\); average them: .mean\(1\)"):
        stream.accept(np.zeros((80, 2)), 8000)
    with pytest.raises(ParameterError, match="model: a bidirectional model cannot stream"):
        ds2.load("digits").stream()


def test_a_stream_without_sound_gives_nothing(recognizer: Recognizer) -> None:
    assert recognizer.stream().finish() == []


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32])
def test_integers_are_scaled(recognizer: Recognizer, spoken_digits: Callable[[int], Path], kind: type) -> None:
    samples = sound(spoken_digits(2).parent, 2, 0.2).numpy()
    levels = np.iinfo(kind)
    middle = (int(levels.max) + int(levels.min) + 1) // 2
    whole = (samples * (int(levels.max) - middle)).round() + middle
    stream = recognizer.stream()
    stream.accept(whole.astype(kind), 8000)
    [live] = stream.finish()
    assert (
        live.text == recognizer.transcribe(whole.astype(kind), 8000).text == recognizer.transcribe(samples, 8000).text
    )
