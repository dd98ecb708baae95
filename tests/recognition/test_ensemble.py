"""Several models as one: averaged log-probabilities, and what does not fit together."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.commands import write_noise

from ds2.bundle import Bundle
from ds2.data.utterance import RecordingSpan
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ModelConfig
from ds2.recognition.ensemble import Ensemble, mean
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError


def test_the_mean_of_two_distributions_by_hand() -> None:
    """The geometric means of (1/2, 1/2) and (1/10, 9/10) are as sqrt(0.05) to sqrt(0.45), that is 1 to 3."""
    log_probs = torch.tensor([[[0.5, 0.5]], [[0.1, 0.9]]]).log()
    torch.testing.assert_close(torch.from_numpy(mean(log_probs.numpy(), 2, 0)).exp(), torch.tensor([[0.25, 0.75]]))


def test_phones_sum_up_to_one_apart_from_tokens() -> None:
    both = torch.from_numpy(mean(torch.randn(3, 4, 5, generator=torch.manual_seed(0)).numpy(), 2, 3)).exp()
    torch.testing.assert_close(both[:, :2].sum(1), torch.ones(4))
    torch.testing.assert_close(both[:, 2:].sum(1), torch.ones(4))


def test_scores_of_biphones_are_averaged_plainly() -> None:
    rows = torch.randn(3, 4, 2 + 3 + 4, generator=torch.manual_seed(0)).numpy()
    assert np.array_equal(mean(rows, 2, 3)[:, 5:], rows[:, :, 5:].mean(0))
    assert np.array_equal(mean(rows, 2, 3)[:, :5], mean(rows[..., :5], 2, 3))


@pytest.fixture
def other_bundle(tiny_bundle: Path) -> Path:
    """The tokens and the shape of the tiny bundle, other weights."""
    bundle = Bundle.load(tiny_bundle)
    path = tiny_bundle.with_name("other.safetensors")
    weights = {**bundle.weights, "output.weight": torch.randn_like(bundle.weights["output.weight"])}
    replace(bundle, weights=weights).save(path)
    return path


def test_an_ensemble_decodes_the_mean(tiny_bundle: Path, other_bundle: Path, tmp_path: Path) -> None:
    models = [Recognizer.load(path, "cpu") for path in (tiny_bundle, other_bundle)]
    (tmp_path / "bad.wav").write_bytes(b"?")
    recordings = [RecordingSpan(write_noise(tmp_path / f"{n}.wav", 0.3 + n, n)) for n in range(2)] + [
        RecordingSpan(tmp_path / "bad.wav")
    ]
    found = list(Ensemble(models).transcribe_files(recordings))
    assert [recording for recording, _ in found] == recordings
    assert isinstance(found[2][1], InputError)
    for recording, transcript in found[:2]:
        log_probs = [next(model.log_probs_of_files([recording]))[2] for model in models]
        expected = models[0].decode(mean(np.stack(log_probs), 5, 0), transcript.duration)
        assert transcript.text == expected.text
        assert transcript.text != models[0].transcribe(recording.path).text


def test_twice_the_same_model_gives_its_transcript(tiny_bundle: Path, tmp_path: Path) -> None:
    model = Recognizer.load(tiny_bundle, "cpu")
    recording = RecordingSpan(write_noise(tmp_path / "a.wav", 1.0))
    [(_, transcript)] = Ensemble([model, model]).transcribe_files([recording])
    assert transcript.text == model.transcribe(recording.path).text


def test_models_with_other_tokens_are_refused(tiny_bundle: Path) -> None:
    with pytest.raises(InputError, match="digits: models of an ensemble must have the same tokens"):
        Ensemble([Recognizer.load(tiny_bundle, "cpu"), Recognizer.load("digits", "cpu")])


def test_models_of_which_one_has_biphones_are_refused(tiny_bundle: Path) -> None:
    bundle, models = Bundle.load(tiny_bundle), []
    for units in (0, 2):
        config = ModelConfig.of(replace(bundle, config={**bundle.config, "phones": 3, "biphones": units}))
        weights = AcousticModel(config, len(bundle.tokens)).state_dict()
        made = replace(bundle, config={**bundle.config, "phones": 3, "biphones": units}, weights=weights)
        models.append(Recognizer.from_bundle(made, f"with {units}", "cpu"))
    with pytest.raises(InputError, match=r"with 0 and with 2: models of an ensemble must have .* biphones"):
        Ensemble(models)
