"""onnxruntime runs bundles and what `ds2 export` wrote, and refuses what it cannot run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
from helpers.architectures import GATED, in_chunks, state, trained, whole_utterances

from ds2.audio.files import read_audio_array
from ds2.bundle import Bundle
from ds2.export.acoustic import acoustic_graph
from ds2.export.package import export
from ds2.export.streaming import streaming_graph
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import ModelConfig
from ds2.model.native.network import NativeSlots, Network
from ds2.recognition.onnx_engine import OnnxEngine, make_session
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError, ParameterError

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
RECORDINGS = sorted(AUDIO.glob("so762_0000*.opus"))[:6]


def test_an_exported_model_transcribes_as_its_bundle(tmp_path: Path) -> None:
    model, *_ = export("digits-streaming", tmp_path, weights="int8")
    exported, bundle = Recognizer.load(model), Recognizer.load("digits-streaming")
    for path in RECORDINGS:
        assert exported.transcribe(path).text == bundle.transcribe(path).text
    assert heard(exported, read_audio_array(RECORDINGS[0], 8000)[0], 700) == heard(
        bundle, read_audio_array(RECORDINGS[0], 8000)[0]
    )


def test_an_exported_model_takes_a_language_model_and_its_folder_names_it(tmp_path: Path) -> None:
    model, *_ = export("digits", tmp_path / "out")
    words = ("<s>", "</s>", "<unk>", *"zero one two three four five six seven eight nine".split())
    lines = "".join(f"-1.0\t{word}\n" for word in words)
    (tmp_path / "lm.arpa").write_text(f"\\data\\\nngram 1={len(words)}\n\n\\1-grams:\n{lines}\n\\end\\\n")
    options = DecoderOptions(lm=tmp_path / "lm.arpa")
    exported, bundle = (Recognizer.load(name, options=options) for name in (model, "digits"))
    assert exported.beam is not None
    assert exported.transcribe(RECORDINGS[0]).text == bundle.transcribe(RECORDINGS[0]).text != ""
    with pytest.raises(InputError, match=r"out: is the folder of an exported model; name .*out/model\.onnx"):
        Recognizer.load(tmp_path / "out")


def heard(recognizer: Recognizer, samples: np.ndarray, size: int = 1600) -> str:
    stream = recognizer.stream()
    for start in range(0, len(samples), size):
        stream.accept(samples[start : start + size], recognizer.sample_rate)
    return " ".join(transcript.text for transcript in stream.finish())


def test_an_exported_model_that_cannot_stream_is_refused(tmp_path: Path) -> None:
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


def engine_of(config: ModelConfig, weights: dict[str, np.ndarray]) -> OnnxEngine:
    graphs = [make(config, weights, "float32", {}).SerializeToString() for make in (acoustic_graph, streaming_graph)]
    return OnnxEngine(config, 5, lambda: graphs[0], lambda: graphs[1])


def test_phones_and_biphones_follow_the_tokens() -> None:
    """Of whole utterances, and of live streams that join in a random order: those of the other engines."""
    model, frames, generator = trained(GATED), [60, 37, 4], np.random.default_rng(0)
    samples, expected = whole_utterances(model, frames)
    engine = engine_of(GATED, state(model))
    found = engine.log_probs([row[: 10 + 10 * length] for row, length in zip(samples, frames, strict=True)])
    for row, other in zip(found, expected, strict=True):
        assert row.shape == other.shape == (len(other), 5 + 4 + 9)
        assert np.allclose(row, other, atol=1e-4)
    network = Network(GATED, 5, LayerWeights(state(model)))
    ours, others = engine.slots(3, phones=True), NativeSlots(network, 3, phones=True)
    q, places = GATED.stride, np.zeros(3, np.int64)
    padded, starts = in_chunks(GATED, samples, frames, q)
    while (live := np.flatnonzero(places <= starts[-1])).size:
        slots = generator.permutation(live)[: generator.integers(1, 4)]
        chunk = np.stack([padded[slot, 10 * places[slot] :][: others.steps.samples(q)] for slot in slots])
        step = slots, places[slots], np.array(frames)[slots], chunk
        assert np.allclose(ours.advance(*step), others.advance(*step), atol=1e-4)
        places[slots] += q


def test_a_graph_without_the_biphones_of_its_configuration_is_refused() -> None:
    weights = state(trained(GATED))
    without = acoustic_graph(replace(GATED, biphones=0), weights, "float32", {}).SerializeToString()
    with pytest.raises(InputError, match="do not fit the tokens or the configuration"):
        OnnxEngine(GATED, 5, lambda: without, lambda: without).try_out()


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


@pytest.mark.long
def test_torch_is_not_imported_where_it_is_installed(tmp_path: Path) -> None:
    """Its import would take longer than all the rest."""
    model, *_ = export("digits", tmp_path)
    code = (
        f"from ds2.cli.main import main; main(['transcribe', {str(RECORDINGS[0])!r}, '--model', {str(model)!r}]); "
        "import sys; print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[1:] == ["False"]
