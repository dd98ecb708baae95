"""onnxruntime gives what torch gives: offline, live, and in the slots of a server."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
from helpers.live import live_log_probs
from helpers.without_torch import WITHOUT_TORCH

from ds2.bundle import Bundle
from ds2.data.audio_files import read_audio_array
from ds2.export.package import export
from ds2.model.steps import Steps
from ds2.recognition.onnx_engine import make_session
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError, ParameterError

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
RECORDINGS = sorted(AUDIO.glob("so762_0000*.opus"))[:6]


@pytest.mark.parametrize("options", [DecoderOptions(), DecoderOptions(beam=0)], ids=["search", "greedy"])
@pytest.mark.parametrize("bundle", ["digits", "english"])
def test_transcripts_are_those_of_torch(bundle: str, options: DecoderOptions) -> None:
    """By phones and a language model in english, by a closed vocabulary in digits."""
    ours, torchs = (Recognizer.load(bundle, "cpu", options, engine) for engine in ("onnx", "torch"))
    for path in RECORDINGS:
        one, other = ours.transcribe(path), torchs.transcribe(path)
        assert one.text == other.text != ""
        assert [word.confidence for word in one.words] == pytest.approx(
            [word.confidence for word in other.words], abs=2e-2
        )


def test_an_exported_model_transcribes_as_its_bundle(tmp_path: Path) -> None:
    model, *_ = export("digits-streaming", tmp_path, weights="int8")
    exported, bundle = Recognizer.load(model), Recognizer.load("digits-streaming")
    for path in RECORDINGS:
        assert exported.transcribe(path).text == bundle.transcribe(path).text
    assert heard(exported, read_audio_array(RECORDINGS[0], 8000)[0], 700) == heard(
        bundle, read_audio_array(RECORDINGS[0], 8000)[0]
    )


def heard(recognizer: Recognizer, samples: np.ndarray, size: int = 1600) -> str:
    stream = recognizer.stream()
    for start in range(0, len(samples), size):
        stream.accept(samples[start : start + size], recognizer.sample_rate)
    return " ".join(transcript.text for transcript in stream.finish())


@pytest.mark.parametrize("sizes", [[80000], [1, 79, 80, 161, 4000, 900, 12345], [10], [320, 0, 0]])
def test_a_stream_gives_what_torchs_gives(sizes: list[int]) -> None:
    """However it is cut, also where it is shorter than a window."""
    ours, torchs = (Recognizer.load("digits-streaming", "cpu", engine=engine) for engine in ("onnx", "torch"))
    samples = (0.1 * np.random.default_rng(0).standard_normal(sum(sizes))).astype(np.float32)
    ends = np.cumsum(sizes)[:-1]
    found = [live_log_probs(recognizer.model, np.split(samples, ends)) for recognizer in (ours, torchs)]
    assert found[0].shape == found[1].shape
    assert np.allclose(found[0], found[1], atol=1e-4)


def test_a_stream_without_sound_is_empty() -> None:
    engine = Recognizer.load("digits-streaming", "cpu", engine="onnx").model
    assert len(live_log_probs(engine, [np.zeros(0, np.float32)])) == 0


def test_slots_give_what_torchs_give_in_any_batch() -> None:
    generator = np.random.default_rng(0)
    ours, torchs = (
        Recognizer.load("digits-streaming", "cpu", engine=engine).model.slots(3) for engine in ("onnx", "torch")
    )
    steps, ages = Steps.of(ours.config), np.zeros(3, np.int64)
    for _ in range(12):
        batch = np.sort(generator.permutation(3)[: generator.integers(1, 4)])
        ages[batch] = np.where(generator.random(len(batch)) < 0.2, 0, ages[batch])  # a new stream in the old slot
        samples = (0.1 * generator.standard_normal((len(batch), steps.samples(steps.frames)))).astype(np.float32)
        lengths = np.full(len(batch), 1 << 40)
        one, other = (each.advance(batch, ages[batch], lengths, samples) for each in (ours, torchs))
        first = np.maximum(0, steps.delay - ages[batch] // steps.stride)
        for row, second, start in zip(one, other, first, strict=True):
            assert np.allclose(row[start:], second[start:], atol=1e-4)
        ages[batch] += steps.frames


def test_a_model_that_cannot_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="bidirectional"):
        Recognizer.load("digits", engine="onnx").stream()
    model, *_ = export("digits", tmp_path)
    with pytest.raises(ParameterError, match=r"streaming\.onnx: cannot read"):
        Recognizer.load(model).stream()


@pytest.mark.parametrize("tokens", [4, 6])
def test_a_graph_of_other_tokens_is_refused(tiny_bundle: Path, tokens: int) -> None:
    """torch refuses the weights; a graph is made of them whatever the tokens are."""
    replace(Bundle.load(tiny_bundle), tokens=["<blank>", " ", "a", "b", "c", "d"][:tokens]).save(tiny_bundle)
    with pytest.raises(InputError, match="do not fit the tokens"):
        Recognizer.load(tiny_bundle, engine="onnx")
    model, *_ = export(str(tiny_bundle), tiny_bundle.parent / "out")
    with pytest.raises(InputError, match=r"model\.onnx: .* do not fit the tokens"):
        Recognizer.load(model)


def test_weights_in_another_file_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime would look for them in the working directory."""
    (tmp_path / "secret").write_bytes(bytes(16))
    monkeypatch.chdir(tmp_path)
    weights = onnx.TensorProto(name="w", data_type=1, dims=[4], data_location=onnx.TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="secret")
    x, y = (onnx.helper.make_tensor_value_info(name, 1, [4]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Max", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    opset = onnx.helper.make_opsetid("", 17)
    with pytest.raises(InputError, match="External data path"):
        make_session(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9).SerializeToString())


def test_precision_of_onnx_is_float32() -> None:
    with pytest.raises(InputError, match="precision float16: the engine onnx computes in float32"):
        Recognizer.load("digits-streaming", engine="onnx").model.slots(1, "float16")


def test_torch_is_not_imported_where_it_is_installed(tmp_path: Path) -> None:
    """Its import would take longer than all the rest."""
    model, *_ = export("digits", tmp_path)
    code = (
        f"from ds2.cli import main; main(['transcribe', {str(RECORDINGS[0])!r}, '--model', {str(model)!r}]); "
        "import sys; print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[1:] == ["False"]


def test_torch_is_not_needed() -> None:
    """To transcribe by phones with a language model, and live."""
    code = (
        f"{WITHOUT_TORCH}\nfrom ds2.cli import main; "
        f"main(['transcribe', {str(RECORDINGS[0])!r}, '--model', 'english', '--engine', 'onnx']); "
        "from ds2.recognition.recognizer import Recognizer; stream = Recognizer.load('digits-streaming').stream(); "
        "from ds2.data.audio_files import read_audio_array; "
        f"stream.accept(read_audio_array({str(RECORDINGS[1])!r})[0], 16000); "
        "print(stream.finish()[0].text); import ds2.serve.worker"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 2), result.stderr
    assert "torch" not in result.stderr
