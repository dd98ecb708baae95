"""The output of inner layers, of short recordings and of those that are cut into windows."""

from pathlib import Path

import pytest
import torch
from helpers.commands import write_noise

from ds2.data.utterance import RecordingSpan
from ds2.recognition.layer_outputs import LayerOutputs, layer_names
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.windows import Window
from ds2.utils.errors import InputError, ParameterError


@pytest.fixture
def recognizer(tiny_bundle: Path) -> Recognizer:
    return Recognizer.load(tiny_bundle, "cpu", engine="torch")


def test_the_layers_are_named_from_input_to_output(recognizer: Recognizer) -> None:
    names = ["frontend", "convolutions.0", "convolutions.1", "recurrent.0", "output"]
    assert layer_names(recognizer) == names
    assert LayerOutputs(recognizer, "convolutions").name == "convolutions.1"
    with pytest.raises(ParameterError, match=r"layer: recurrent\.9: the model has frontend, convolutions\.0"):
        LayerOutputs(recognizer, "recurrent.9")


def test_the_output_layer_gives_the_log_probabilities_before_the_softmax(recognizer: Recognizer) -> None:
    windows = [Window(torch.randn(size).numpy()) for size in (8000, 3000)]
    logits = LayerOutputs(recognizer, "output").of_windows(windows)
    for row, log_probs in zip(logits, recognizer.log_probs(windows), strict=True):
        torch.testing.assert_close(torch.from_numpy(row).log_softmax(1), torch.from_numpy(log_probs))


def test_the_front_end_gives_its_features(recognizer: Recognizer) -> None:
    """At 8 kHz a second has 99 frames of 81 bins, of which the model makes 50."""
    samples = torch.randn(8000)
    [row] = LayerOutputs(recognizer, "frontend").of_windows([Window(samples.numpy())])
    features, _ = recognizer.model.module.frontend(samples[None], torch.tensor([8000]))
    assert row.shape == (99, 81)
    torch.testing.assert_close(torch.from_numpy(row), features[0].T)


@pytest.mark.parametrize(("layer", "frames", "size"), [("recurrent", 50, 24), ("convolutions.0", 50, 164)])
def test_shapes_of_inner_layers(recognizer: Recognizer, layer: str, frames: int, size: int) -> None:
    [row] = LayerOutputs(recognizer, layer).of_windows([Window(torch.randn(8000).numpy())])
    assert row.shape == (frames, size)


def test_long_recordings_are_joined_and_bad_ones_have_their_error(recognizer: Recognizer, tmp_path: Path) -> None:
    (tmp_path / "bad.wav").write_bytes(b"?")
    paths = [write_noise(tmp_path / "long.wav", 45.0), tmp_path / "bad.wav", write_noise(tmp_path / "short.wav", 0.5)]
    for layer, rate in (("recurrent", 1), ("frontend", 2)):
        found = [result for _, _, result in LayerOutputs(recognizer, layer).of_files(map(RecordingSpan, paths))]
        assert isinstance(found[1], InputError)
        assert abs(len(found[0]) - 2250 * rate) <= rate
        assert len(found[2]) in (25 * rate, 25 * rate - 1)
