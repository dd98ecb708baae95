"""From audio to transcripts: words, times, long recordings, many files."""

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor

from ds2.audio.files import InMemory
from ds2.audio.tensors import read_audio
from ds2.bundle import Bundle
from ds2.data.utterance import RecordingSpan
from ds2.model.acoustic import AcousticModel
from ds2.recognition import windows
from ds2.recognition.channels import transcribe_channels
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.torch_engine import TorchEngine
from ds2.recognition.transcript import Transcript
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.recognition.windows import Window
from ds2.utils.errors import InputError, ParameterError


@pytest.fixture
def recognizer(tiny_bundle: Path) -> Recognizer:
    return Recognizer.load(tiny_bundle, "cpu")


def write_noise(path: Path, seconds: float, rate: int = 8000, seed: int = 0) -> Path:
    samples = np.random.default_rng(seed).normal(0, 0.1, round(seconds * rate))
    soundfile.write(path, samples, rate)
    return path


def test_file_samples_and_array_give_the_same_transcript(recognizer: Recognizer, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 1.0)
    samples, rate = read_audio(path)
    from_file = recognizer.transcribe(path)
    assert from_file.words
    assert from_file == recognizer.transcribe(samples, rate) == recognizer.transcribe(samples.numpy(), rate)
    assert from_file.duration == 1.0


@pytest.mark.parametrize("rate", [16000, 44100, 48000])
def test_other_rates_are_resampled(recognizer: Recognizer, tmp_path: Path, rate: int) -> None:
    assert recognizer.transcribe(write_noise(tmp_path / "a.wav", 0.5, rate)).duration == pytest.approx(0.5)


def test_bytes_and_open_files_give_the_transcript_of_the_path(recognizer: Recognizer, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 1.0)
    with path.open("rb") as file:
        assert recognizer.transcribe(path.read_bytes()) == recognizer.transcribe(file) == recognizer.transcribe(path)
    with pytest.raises(InputError, match=r"bad\.wav"), (tmp_path / "bad.wav").open("wb+") as empty:
        recognizer.transcribe(empty)
    with pytest.raises(ParameterError, match="binary mode"), (tmp_path / "a.txt").open("w+") as text:
        recognizer.transcribe(text)  # type: ignore[arg-type]


def test_recordings_in_memory_go_in_batches_as_files_do(recognizer: Recognizer, tmp_path: Path) -> None:
    paths = [write_noise(tmp_path / f"{seconds}.wav", seconds) for seconds in (0.5, 35.0, 1.0)]
    (tmp_path / "bad.wav").write_bytes(b"not audio")
    paths.append(tmp_path / "bad.wav")
    sources = [InMemory(path.read_bytes(), path.name) for path in paths]
    from_files = [result for _, result in recognizer.transcribe_files(map(RecordingSpan, paths))]
    from_memory = list(recognizer.transcribe_files(sources))
    assert [source for source, _ in from_memory] == sources
    assert [result for _, result in from_memory][:3] == from_files[:3]
    assert isinstance(from_memory[3][1], InputError)
    assert str(from_memory[3][1]).startswith("bad.wav: ")


def test_samples_need_their_rate(recognizer: Recognizer) -> None:
    with pytest.raises(ParameterError, match="audio: expected a path, bytes, a file or samples, got int"):
        recognizer.transcribe(5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="audio: expected a path, bytes, a file or samples, got NoneType"):
        recognizer.transcribe(None)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"audio: one recording is expected, .* transcribe_files takes a list"):
        recognizer.transcribe(["a.wav", "b.wav"])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="sample_rate: required"):
        recognizer.transcribe(torch.zeros(8000))


def test_a_transcript_names_its_model(recognizer: Recognizer, tiny_bundle: Path) -> None:
    assert recognizer.transcribe(torch.zeros(8000), 8000).model == str(tiny_bundle)


@pytest.mark.parametrize("samples", [torch.zeros(0), torch.tensor([0.0, float("nan")])])
def test_impossible_samples_are_refused(recognizer: Recognizer, samples: Tensor) -> None:
    with pytest.raises(InputError, match="samples"):
        recognizer.transcribe(samples, 8000)


def test_floats_with_the_scale_of_integers_are_refused(recognizer: Recognizer) -> None:
    with pytest.raises(ParameterError, match=r"full scale of 1\.0, these reach 20000; divide them by 32768"):
        recognizer.transcribe(20000 * torch.sin(torch.arange(8000.0)).sign(), 8000)


@pytest.mark.parametrize("shape", [(2, 100), (100, 2), (100, 1)])
def test_several_channels_are_refused_with_the_remedy(recognizer: Recognizer, shape: tuple[int, int]) -> None:
    with pytest.raises(ParameterError, match=r"one channel, got shape .*; average them: \.mean\((\d)\)") as error:
        recognizer.transcribe(torch.zeros(shape), 8000)
    axis = int(str(error.value)[-2])
    assert isinstance(recognizer.transcribe(torch.zeros(shape).mean(axis), 8000), Transcript)


@pytest.mark.parametrize("kind", [np.int64, np.uint16, np.bool_, np.complex64])
def test_samples_of_other_kinds_are_refused(recognizer: Recognizer, kind: type) -> None:
    with pytest.raises(ParameterError, match=np.dtype(kind).name):
        recognizer.transcribe(np.zeros(100, kind), 8000)


@pytest.mark.parametrize("size", [1, 100, 160])
def test_shortest_audio_has_a_transcript(recognizer: Recognizer, size: int) -> None:
    assert isinstance(recognizer.transcribe(0.1 * torch.ones(size), 8000), Transcript)


def test_silence_has_a_transcript(recognizer: Recognizer) -> None:
    assert isinstance(recognizer.transcribe(torch.zeros(8000), 8000), Transcript)


def test_long_recording_equals_one_pass_but_for_distant_context(recognizer: Recognizer, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "long.wav", 70.0)
    samples, _ = read_audio(path)
    [whole] = recognizer.log_probs([Window(samples.numpy())])
    cut = recognizer.cutter.windows_of_samples(samples.numpy())
    joined = np.concatenate([recognizer.log_probs([window])[0] for window in cut])
    assert joined.shape == whole.shape
    assert (joined.argmax(1) == whole.argmax(1)).mean() > 0.99
    of_file, of_samples = recognizer.transcribe(path), recognizer.transcribe(samples, 8000)
    assert [(word.text, word.start, word.end) for word in of_file.words] == [
        (word.text, word.start, word.end) for word in of_samples.words
    ]
    assert [word.confidence for word in of_file.words] == pytest.approx(
        [word.confidence for word in of_samples.words], abs=1e-3
    )  # sums of padded and of unpadded rows are rounded differently


def test_words_at_the_joins_of_windows_are_neither_lost_nor_doubled(
    spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    """A digit every 2 seconds for 70 seconds, with the bundled model: words and times are those of one pass."""
    rng, digits = np.random.default_rng(0), sorted(spoken_digits(30).parent.glob("*.wav"))
    long = rng.normal(0, 1e-3, 70 * 8000)
    for number in range(35):
        samples, _ = soundfile.read(digits[number % len(digits)])
        start = 2 * 8000 * number + 4000
        long[start : start + len(samples)] += samples[: len(long) - start]
    soundfile.write(tmp_path / "long.wav", long, 8000)
    recognizer = Recognizer.load("digits", "cpu")
    samples, _ = read_audio(tmp_path / "long.wav")
    whole = recognizer.decode(recognizer.log_probs([Window(samples.numpy())])[0], 70.0).words
    heard = recognizer.transcribe(tmp_path / "long.wav").words
    moments = {(word.text, round(word.start)) for word in whole}
    assert len(whole) >= 33
    assert abs(len(heard) - len(whole)) <= 2
    assert sum((word.text, round(word.start)) in moments for word in heard) >= len(whole) - 3


def test_many_files_come_back_in_order_whatever_their_lengths(
    recognizer: Recognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recognizer.cutter = replace(recognizer.cutter, batch_seconds=3.0)
    monkeypatch.setattr(windows, "GROUP_SECONDS", 6.0)
    lengths = [0.3, 2.0, 0.1, 1.5, 2.5, 0.7, 33.0, 0.2]
    paths = [write_noise(tmp_path / f"{n}.wav", seconds, seed=n) for n, seconds in enumerate(lengths)]
    heard: list[float] = []
    results = list(recognizer.transcribe_files(map(RecordingSpan, paths), heard.append))
    assert len(heard) > 3
    assert sum(heard) == pytest.approx(sum(lengths), abs=0.05 * len(lengths))
    assert [segment.path for segment, _ in results] == paths
    for path, (_, transcript) in zip(paths, results, strict=True):
        assert transcript == recognizer.transcribe(path)


def test_a_result_does_not_wait_for_the_recordings_after_it(
    recognizer: Recognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second recording fills the group; the model runs on both while others are read, here slowly."""
    recognizer.cutter = replace(recognizer.cutter, batch_seconds=30.0)
    monkeypatch.setattr(windows, "GROUP_SECONDS", 30.0)
    paths = [write_noise(tmp_path / f"{n}.wav", seconds) for n, seconds in enumerate([6.0, 45.0, 1.0, 1.0])]
    read, batches, model = list[Path](), list[int](), recognizer.log_probs

    def counted(batch: list[Window]) -> list[np.ndarray]:
        found = model(batch)
        batches.append(len(batch))
        return found

    monkeypatch.setattr(recognizer, "log_probs", counted)

    def slowly() -> Iterator[RecordingSpan]:
        for path in paths:
            while len(read) == 2 and len(batches) < 2:
                time.sleep(0.01)
            time.sleep(0.2)
            read.append(path)
            yield RecordingSpan(path)

    results = recognizer.log_probs_of_files(slowly())
    assert next(results)[0].path == paths[0]
    assert read == paths[:3]
    assert [segment.path for segment, _, _ in results] == paths[1:]


def test_one_bad_file_is_its_own_error(recognizer: Recognizer, tmp_path: Path) -> None:
    good = write_noise(tmp_path / "a.wav", 0.5)
    results = [
        result for _, result in recognizer.transcribe_files(map(RecordingSpan, [good, tmp_path / "gone.wav", good]))
    ]
    assert isinstance(results[1], InputError)
    assert results[0] == results[2] == recognizer.transcribe(good)


def test_a_fault_of_ds2_at_one_recording_leaves_the_others_their_transcripts(
    recognizer: Recognizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recording fails when its text is made, a long one while it is heard; both are among others."""
    joined, heard = TranscriptBuilder.joined, TranscriptBuilder.heard

    def joined_or_failed(self: TranscriptBuilder, segments: Sequence[Transcript], duration: float) -> Transcript:
        if duration == 2.0:
            raise ZeroDivisionError("of one recording")
        return joined(self, segments, duration)

    def heard_or_failed(self: TranscriptBuilder, *arguments: Any) -> Transcript:
        if len(arguments) > 3 and arguments[3] > 0:
            raise KeyError("later")
        return heard(self, *arguments)

    monkeypatch.setattr(TranscriptBuilder, "joined", joined_or_failed)
    monkeypatch.setattr(TranscriptBuilder, "heard", heard_or_failed)
    paths = [write_noise(tmp_path / f"{n}.wav", seconds) for n, seconds in enumerate([0.5, 2.0, 150.0, 1.0])]
    results = [result for _, result in recognizer.transcribe_files(paths)]
    assert [isinstance(result, Transcript) for result in results] == [True, False, False, True]
    assert (
        str(results[1]) == f"{paths[1]}: ds2 itself fails here, please report it: ZeroDivisionError: of one recording"
    )
    assert "KeyError: 'later'" in str(results[2])
    assert isinstance(results[2], InputError)
    assert isinstance(results[2].__cause__, KeyError)
    monkeypatch.setattr(TranscriptBuilder, "joined", lambda *_: importlib.import_module("no_such_package"))
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):  # all recordings would fail
        list(recognizer.transcribe_files(paths[:2]))


def test_segment_is_a_part_of_a_file(recognizer: Recognizer, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 2.0)
    [(_, part)] = recognizer.transcribe_files([RecordingSpan(path, 0.5, 1.0)])
    assert part == recognizer.transcribe(read_audio(path, offset=0.5, duration=1.0)[0], 8000)


def test_files_may_be_named_by_strings(recognizer: Recognizer, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav", 2.0)
    for name in (str(path), path):
        [(source, transcript)] = recognizer.transcribe_files([name])
        assert source is name
        assert transcript == recognizer.transcribe(path)
        [(_, separate)] = transcribe_channels(recognizer, [name])
        assert separate == transcript
    with pytest.raises(
        ParameterError, match=r"sources: expected several files, got one; put it into a list: \['a.wav'\]"
    ):
        list(recognizer.transcribe_files("a.wav"))


def test_no_files_no_transcripts(recognizer: Recognizer) -> None:
    assert list(recognizer.transcribe_files([])) == []


def test_weights_that_do_not_fit_are_refused(tiny_bundle: Path) -> None:
    bundle = Bundle.load(tiny_bundle)
    config = {**bundle.config, "hidden": 25}
    replace(bundle, config=config).save(tiny_bundle)
    with pytest.raises(InputError, match="do not fit"):
        Recognizer.load(tiny_bundle)


def test_loading_draws_nothing_and_equals_a_model_filled_by_hand(tiny_bundle: Path) -> None:
    bundle, before = Bundle.load(tiny_bundle), torch.get_rng_state()
    engine = Recognizer.load(tiny_bundle, "cpu", engine="torch").model
    assert isinstance(engine, TorchEngine)
    loaded = engine.module
    assert torch.equal(torch.get_rng_state(), before)
    filled = AcousticModel(loaded.config, len(bundle.tokens))
    filled.load_state_dict(bundle.weights)
    for of_loaded, of_filled in (
        (loaded.named_parameters(), filled.named_parameters()),
        (loaded.named_buffers(), filled.named_buffers()),
    ):
        for (name, value), (_, expected) in zip(of_loaded, of_filled, strict=True):
            assert torch.equal(value, expected), name


def test_bundles_of_the_package_go_by_their_names() -> None:
    assert Recognizer.load("digits-streaming").model.config.bidirectional is False
    with pytest.raises(InputError, match=r"klingon: neither .* \(digits"):
        Recognizer.load("klingon")


def test_a_configuration_with_negative_kernels_is_refused(tiny_bundle: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(tiny_bundle)
    bundle.config["convolutions"][1]["kernel"][0] = -1
    bundle.save(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="do not fit"):
        Recognizer.load(tmp_path / "x.safetensors", "cpu")


def test_a_model_of_phones_without_a_language_model_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As training writes it: by letters alone it is much worse than its search makes it."""
    bare = replace(Bundle.load("english"), language_model=None, neural_model=None, decoder={}, confidence=None)
    bare.save(tmp_path / "bare.safetensors")
    Recognizer.load(tmp_path / "bare.safetensors", "cpu")
    assert "bare.safetensors holds no language model: the best symbol of each frame counts; name one" in caplog.text
    caplog.clear()
    (tmp_path / "fine-tuned.safetensors").touch()
    Recognizer.load(tmp_path / "bare.safetensors", "cpu")
    assert f"{tmp_path / 'fine-tuned.safetensors'} has one" in caplog.text
    caplog.clear()
    Recognizer.load(tmp_path / "bare.safetensors", "cpu", DecoderOptions(beam=0))
    Recognizer.load("digits", "cpu")
    assert "language model" not in caplog.text
