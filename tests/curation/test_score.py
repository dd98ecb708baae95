"""What is known of how well a text fits."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from helpers.readings import read_digits

from ds2.curation.score import FEATURES, features, score
from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError


def test_features_by_hand() -> None:
    utterance = Utterance(Path("a.wav"), 2.0, "one two", extra={"cost": 14.0, "frames": 70})
    assert features(utterance) == [14.0, 0.2, 2.0, 10.0, 2, 7]
    assert len(FEATURES) == 6


def test_the_cost_is_torchs_ctc_loss_and_a_wrong_text_costs_more(recognizer: Recognizer, tmp_path: Path) -> None:
    reading = read_digits(tmp_path / "a.wav", 3, lines=1)
    right = Utterance(tmp_path / "a.wav", 5.0, reading.text.strip())
    wrong = Utterance(tmp_path / "a.wav", 5.0, "one one one one one")
    results = list(score(recognizer, [right, wrong]))
    scored = [result for result in results if isinstance(result, Utterance)]
    assert scored[0].extra["hypothesis"] == right.text
    assert scored[0].extra["cost"] + 20 < scored[1].extra["cost"]
    log_probs = np.concatenate([part for part, _ in recognizer.iter_log_probs(tmp_path / "a.wav")])
    targets = torch.tensor(recognizer.tokenizer.encode(right.text))
    rows = torch.from_numpy(log_probs).double()
    loss = torch.nn.functional.ctc_loss(
        rows,
        targets,
        torch.tensor(len(log_probs)),
        torch.tensor(len(targets)),
        reduction="sum",
    )
    assert scored[0].extra["cost"] == pytest.approx(float(loss), abs=2e-3)
    assert scored[0].extra["frames"] == len(log_probs)


def test_what_cannot_be_scored_comes_back_as_its_error(
    recognizer: Recognizer, spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    [good] = read_manifest(spoken_digits(1))
    soundfile.write(tmp_path / "short.wav", np.zeros(800), 8000)
    cases = [
        (good.text, good.audio_path, None),
        ("nine", tmp_path / "missing.wav", "cannot be read"),
        ("", good.audio_path, "text is empty"),
        ("zwölf", good.audio_path, "alphabet"),
        ("seven seven seven", tmp_path / "short.wav", "do not fit"),
    ]
    utterances = [Utterance(path, 1.0, text) for text, path, _ in cases]
    for result, (_, path, message) in zip(score(recognizer, utterances), cases, strict=True):
        if message is None:
            assert isinstance(result, Utterance)
        else:
            assert isinstance(result, InputError)
            assert message in str(result)
            assert str(path) in str(result)


def test_a_part_of_a_file_is_scored_alone(recognizer: Recognizer, tmp_path: Path) -> None:
    reading = read_digits(tmp_path / "a.wav", 4, lines=2)
    start, end = reading.spans[5][0] - 0.2, reading.spans[9][1] + 0.2
    utterance = Utterance(tmp_path / "a.wav", end - start, " ".join(reading.words[5:]), offset=start)
    [scored] = score(recognizer, [utterance])
    assert isinstance(scored, Utterance)
    assert scored.extra["hypothesis"] == utterance.text
    assert json.dumps(scored.extra)
