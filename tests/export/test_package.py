"""Exported folders: the bundled models in other runtimes, on real recordings."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
from helpers.runtimes import log_probs

from ds2.audio.tensors import read_audio
from ds2.bundle import Bundle
from ds2.decoder.greedy import greedy
from ds2.export.options import Weights
from ds2.export.package import export, token_table
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.text import BLANK_TOKEN, Tokenizer
from ds2.utils.errors import InputError
from ds2.utils.model_names import MODELS

RECORDINGS = sorted((Path(__file__).parents[2] / "recipes" / "digits" / "audio").glob("so762_0000*.opus"))[:6]


def recordings(rate: int) -> tuple[Tensor, Tensor]:
    """Spoken sentences of different lengths as one batch: (B, N), (B,)."""
    samples = [read_audio(path, rate)[0] for path in RECORDINGS]
    return torch.nn.utils.rnn.pad_sequence(samples, batch_first=True), torch.tensor(list(map(len, samples)))


@pytest.mark.parametrize("weights", ["float32", "float16", "int8"])
@pytest.mark.parametrize("bundle", ["digits", "digits-streaming"])
def test_bundled_models_write_the_texts_that_torch_writes(tmp_path: Path, bundle: str, weights: Weights) -> None:
    export(bundle, tmp_path, weights=weights)
    recognizer = Recognizer.load(bundle, "cpu", DecoderOptions(beam=0), "torch")
    samples, lengths = recordings(recognizer.sample_rate)
    with torch.no_grad():
        expected, frames = recognizer.model.module(samples, lengths)
    found, found_frames = map(torch.from_numpy, log_probs((tmp_path / "model.onnx").read_bytes(), samples, lengths))
    texts = [
        [recognizer.tokenizer.decode(hypothesis.tokens) for hypothesis in greedy(rows, count)]
        for rows, count in ((expected, frames), (found, found_frames))
    ]
    assert texts[0] == texts[1]
    assert all(texts[0])
    if weights == "float32":
        for row, other, count in zip(found, expected, frames.tolist(), strict=True):
            assert torch.allclose(row[:count], other[:count], atol=1e-3)


def test_int8_is_less_than_half_as_large(tmp_path: Path) -> None:
    sizes = {}
    for weights in ("float32", "float16", "int8"):
        sizes[weights] = export("digits", tmp_path / weights, weights=weights)[0].stat().st_size
    assert sizes["int8"] < sizes["float32"] / 2
    assert sizes["int8"] < sizes["float16"] < sizes["float32"]


def test_model_says_what_it_takes_and_gives(tmp_path: Path, tiny_bundle: Path) -> None:
    export(str(tiny_bundle), tmp_path / "new" / "folder")
    model = onnx.load(tmp_path / "new" / "folder" / "model.onnx")
    facts = {entry.key: entry.value for entry in model.metadata_props}
    assert json.loads(facts["tokens"]) == [BLANK_TOKEN, " ", "a", "b", "c"]
    assert (int(facts["sample_rate"]), float(facts["frame_seconds"])) == (8000, 0.02)
    assert [value.name for value in model.graph.input] == ["samples", "lengths"]
    assert [value.name for value in model.graph.output] == ["log_probs", "frames"]
    table = (tmp_path / "new" / "folder" / "tokens.txt").read_text(encoding="utf-8")
    assert table == "<blk> 0\n▁ 1\na 2\nb 3\nc 4\n"


def test_model_card_and_licence_come_along(tmp_path: Path, tiny_bundle: Path) -> None:
    card = (MODELS / "digits.md").read_text(encoding="utf-8")
    tiny_bundle.with_suffix(".md").write_text("# tiny", encoding="utf-8")
    expected = {"digits": {"model_card": card, "license": "Apache-2.0"}, str(tiny_bundle): {"model_card": "# tiny"}}
    for bundle, wanted in expected.items():
        [path, *_] = export(bundle, tmp_path)
        facts = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
        assert {name: facts[name] for name in ("model_card", "license") if name in facts} == wanted


def test_table_of_bigrams() -> None:
    assert token_table(Tokenizer([BLANK_TOKEN, "a", "ab", "é"])) == "<blk> 0\na 1\nab 2\né 3\n"
    for token in ("\n", "a\nb", "\t", "x\u2028y", "\u00a0"):
        with pytest.raises(InputError, match=r"tokens\.txt cannot hold the token"):
            token_table(Tokenizer([BLANK_TOKEN, "a", token]))


def test_sherpa_takes_models_of_16_khz_only(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="digits: sherpa-onnx needs a model of 16000 Hz, this one is of 8000 Hz"):
        export("digits", tmp_path, "sherpa")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["missing", "shape"])
def test_bundle_that_cannot_be_exported_is_named(tmp_path: Path, tiny_bundle: Path, damage: str) -> None:
    bundle = Bundle.load(tiny_bundle)
    if damage == "missing":
        del bundle.weights["output.bias"]
    else:
        bundle.weights["recurrent.0.forwards.recurrent_weight"] = torch.zeros(72, 23)
    bundle.save(tiny_bundle)
    with pytest.raises(InputError, match=r"tiny\.safetensors: the weights do not fit"):
        export(str(tiny_bundle), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "value"), [("frontend.std", 0.0), ("recurrent.0.forwards.norm.variance", -1.0)])
def test_weights_that_become_no_numbers_are_refused(tmp_path: Path, tiny_bundle: Path, name: str, value: float) -> None:
    bundle = Bundle.load(tiny_bundle)
    bundle.weights[name][:] = value
    bundle.save(tiny_bundle)
    with pytest.raises(InputError, match=r"tiny\.safetensors: its weights are zero, infinite or no numbers where none"):
        export(str(tiny_bundle), tmp_path / "out")


def test_a_model_for_live_streams_has_a_second_graph(tmp_path: Path) -> None:
    paths = export("digits-streaming", tmp_path)
    assert [path.name for path in paths] == ["model.onnx", "streaming.onnx", "tokens.txt"]


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file/folder: cannot make the folder"):
        export("digits", tmp_path / "file" / "folder")


@pytest.mark.parametrize("weights", ["float32", "float16"])
def test_sherpa_onnx_writes_the_texts_that_torch_writes(tmp_path: Path, weights: Weights) -> None:
    """It gives a model samples of mean 0 and variance 1; torch gets the same. In float16, where two letters may be near
    a tie, they are the texts of onnxruntime with the same weights."""
    sherpa = pytest.importorskip("sherpa_onnx", reason="sherpa-onnx is not installed")
    model, tokens = export("english", tmp_path, "sherpa", weights)
    other = sherpa.OfflineRecognizer.from_omnilingual_asr_ctc(model=str(model), tokens=str(tokens), num_threads=1)
    greedy_options = DecoderOptions(beam=0)
    if weights == "float32":
        recognizer = Recognizer.load("english", "cpu", greedy_options, "torch")
    else:
        same = export("english", tmp_path / "same", weights=weights)[0]
        recognizer = Recognizer.load(same, "cpu", greedy_options, "onnx")
    for path in RECORDINGS:
        samples, rate = read_audio(path, recognizer.sample_rate)
        samples = (samples - samples.mean()) / samples.std()
        stream = other.create_stream()
        stream.accept_waveform(rate, samples.numpy())
        other.decode_stream(stream)
        # A second space in a row is in the model's outputs, and not in our texts.
        assert " ".join(stream.result.text.split()) == recognizer.transcribe(samples, rate).text
