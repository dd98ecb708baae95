"""A live stream gives what the whole recording gives, whatever the pieces."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import ds2
from ds2.data.audio import read_audio, resample
from ds2.recognition.live import LiveStream
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript
from ds2.utils.errors import ParameterError


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer.load("digits-streaming", "cpu")


def sound(folder: Path, count: int, pause: float) -> torch.Tensor:
    """(N,) samples at 8 kHz: digits of one speaker with seconds of weak noise after each."""
    noise = torch.randn(round(8000 * pause), generator=torch.Generator().manual_seed(0)) * 1e-3
    parts = [read_audio(folder / f"{number}.wav")[0] for number in range(count)]
    return torch.cat([part for digit in parts for part in (digit, noise)])


def finals(stream: LiveStream, samples: torch.Tensor, size: int, rate: int = 8000) -> list[Transcript]:
    """The transcripts of all utterances; every pause ends one."""
    found = [stream.final() for piece in samples.split(size) if stream.accept(piece, rate)]
    return [transcript for transcript in (*found, stream.final()) if transcript.text]


@pytest.mark.parametrize("beam", [None, 0])
@pytest.mark.parametrize("size", [100, 1777, 8000])
def test_one_utterance_equals_the_recording(spoken_digits: Callable[[int], Path], beam: int | None, size: int) -> None:
    recognizer = ds2.load("digits-streaming", "cpu", beam=beam)
    samples = sound(spoken_digits(4).parent, 4, 0.1)
    stream = recognizer.stream()
    for piece in samples.split(size):
        stream.accept(piece, 8000)
    assert stream.partial()
    live, offline = stream.final(), recognizer.transcribe(samples, 8000)
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


def test_a_long_piece_holds_several_utterances(recognizer: Recognizer, spoken_digits: Callable[[int], Path]) -> None:
    samples = sound(spoken_digits(3).parent, 3, 1.5)
    stream = recognizer.stream()
    stream.accept(samples, 8000)
    found = []
    while stream.paused:
        found.append(stream.final())
    assert len(found) == 3
    words = recognizer.transcribe(samples, 8000).words
    assert [word.text for transcript in found for word in transcript.words] == [word.text for word in words]
    assert stream.final().text == ""


@pytest.mark.parametrize("lead", [0.0, 0.32, 0.64])
def test_a_pause_within_a_chunk_ends_an_utterance(lead: float) -> None:
    """The model hears 0.96 s at once; the pause of 0.8 s may begin anywhere in them."""
    recognizer = Recognizer.load("english-streaming", "cpu")
    english = Path(__file__).parents[2] / "recipes" / "english" / "audio"
    parts = [noise(lead)]
    for name in ("libri_00088.opus", "libri_00098.opus"):
        spoken = read_audio(english / name, 16000)[0]
        words = recognizer.transcribe(spoken, 16000).words
        parts += [spoken[int(16000 * words[0].start) : int(16000 * words[-1].end)], noise(0.8)]
    border = sum(map(len, parts[:2])) / 16000 + 0.4
    stream, found = recognizer.stream(), []
    for piece in torch.cat(parts).split(1600):
        if stream.accept(piece, 16000):
            found.append(stream.final())
    times = [(transcript.words[0].start, transcript.words[-1].end) for transcript in found if transcript.text]
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
    with pytest.raises(ParameterError, match="finite samples"):
        stream.accept(np.full(80, np.nan), 8000)
    with pytest.raises(ParameterError, match="model: a bidirectional model cannot stream"):
        ds2.load("digits").stream()


def test_a_stream_without_sound_has_an_empty_transcript(recognizer: Recognizer) -> None:
    transcript = recognizer.stream().final()
    assert (transcript.text, transcript.duration) == ("", 0.0)
