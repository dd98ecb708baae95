"""Recognition with recurrent weights in int8: the texts of float32."""

from pathlib import Path

import numpy as np
import pytest
from helpers.live import live_log_probs

from ds2.audio.files import read_audio_array
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import ParameterError

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
RECORDINGS = sorted(AUDIO.glob("so762_0000*.opus"))[:6]


@pytest.mark.parametrize("model", ["digits", "english"])
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
