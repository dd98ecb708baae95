"""Recognition with recurrent weights in int8: the texts of float32."""

from pathlib import Path

import numpy as np
import pytest
from helpers.live import live_log_probs

from ds2.audio.files import read_audio_array
from ds2.bundle import read_record
from ds2.model.config import ModelConfig
from ds2.recognition import engine as engine_module
from ds2.recognition.engine import choose_engine, load_engine, served_precision
from ds2.recognition.recognizer import Recognizer
from ds2.utils.byte_products import multiplies_bytes
from ds2.utils.errors import ParameterError
from ds2.utils.model_names import locate

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
RECORDINGS = sorted(AUDIO.glob("so762_0000*.opus"))[:6]

needs_the_instruction = pytest.mark.skipif(not multiplies_bytes(), reason="needs a processor with AVX-512 VNNI")


def config(name: str) -> ModelConfig:
    return ModelConfig.of(read_record(name))


@pytest.mark.long
@pytest.mark.parametrize("model", ["digits", pytest.param("english", marks=needs_the_instruction)])
def test_recordings_have_the_same_texts(model: str) -> None:
    plain, rounded = (Recognizer.load(model, "cpu", precision=precision) for precision in ("float32", "int8"))
    texts = [[recognizer.transcribe(path).text for path in RECORDINGS] for recognizer in (plain, rounded)]
    assert texts[0] == texts[1]
    assert all(texts[0])


def test_streams_and_slots_have_nearly_the_same_log_probabilities() -> None:
    plain, rounded = (
        Recognizer.load("digits-streaming", "cpu", precision=precision).model for precision in ("float32", "int8")
    )
    samples = read_audio_array(RECORDINGS[0], 8000)[0][:16000]
    rows = [live_log_probs(engine, [samples]) for engine in (plain, rounded)]
    assert 0 < np.abs(np.exp(rows[0]) - np.exp(rows[1])).max() < 0.1
    batch = np.array([1]), np.array([0]), np.array([1 << 40])
    slots = [engine.slots(2) for engine in (plain, rounded)]
    steps = [each.advance(*batch, samples[None, : each.steps.samples(30)]) for each in slots]
    assert 0 < np.abs(np.exp(steps[0]) - np.exp(steps[1])).max() < 0.1


def test_onnxruntime_computes_in_float32() -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    with pytest.raises(ParameterError, match="precision: int8: the engine onnx computes in float32"):
        Recognizer.load("digits", engine="onnx", precision="int8")


@needs_the_instruction
def test_english_takes_8_bits_without_torch() -> None:
    assert choose_engine("auto", config("english"), "cpu", "int8") == "native"
    assert choose_engine("auto", config("digits"), "cpu", "int8") == "torch"
    plain, rounded = (Recognizer.load("english", "cpu", precision=precision).model for precision in ("float32", "int8"))
    samples = read_audio_array(RECORDINGS[0], 16000)[0]
    rows = [engine.log_probs([samples])[0] for engine in (plain, rounded)]
    assert 0 < np.abs(np.exp(rows[0]) - np.exp(rows[1])).max() < 0.1
    with pytest.raises(ParameterError, match="precision: int8: the engine native computes recurrent layers in float32"):
        Recognizer.load("digits", engine="native", precision="int8")


def test_a_processor_without_the_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server takes int8 all the same; who asks for it offline, where it is no faster, is told."""
    monkeypatch.setattr(engine_module, "multiplies_bytes", lambda: False)
    for engine in ("native", "auto"):
        with pytest.raises(ParameterError, match="precision: int8: needs a processor that multiplies bytes"):
            Recognizer.load("english", "cpu", engine=engine, precision="int8")
    assert choose_engine("auto", config("digits"), "cpu", "int8") == "torch"
    with pytest.raises(ParameterError, match="precision: int8: torch computes recurrent layers so"):
        Recognizer.load("english", "cpu", engine="torch", precision="int8")


def test_live_english_is_in_8_bits() -> None:
    engines = [load_engine(locate("english"), "auto", "cpu", each, live=True)[0] for each in ("float32", "auto")]
    samples = read_audio_array(RECORDINGS[0], 16000)[0][: 2 * 16000]
    rows = [live_log_probs(engine, [samples]) for engine in engines]
    assert 0 < np.abs(np.exp(rows[0]) - np.exp(rows[1])).max() < 0.1


def test_the_precision_of_a_server() -> None:
    asked = [("native", "auto"), ("native", "int8"), ("native", "float32"), ("torch", "auto"), ("onnx", "auto")]
    assert [served_precision(name, config("english"), precision) for name, precision in asked] == [
        "int8", "int8", "float32", "float32", "float32",
    ]  # fmt: skip
    assert served_precision("native", config("digits-streaming"), "auto") == "float32"  # its layers are recurrent
