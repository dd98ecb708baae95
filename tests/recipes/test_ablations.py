"""The tables of ablations: their commands are trainings of equally large models, and they read what these write.

The walk over frames with labels is that of its paper.
"""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers.scripts import run_script

from ds2.curation.synthesis import installed
from ds2.data.manifest import read_manifest, write_manifest
from ds2.data.utterance import Utterance
from ds2.model.acoustic import AcousticModel
from ds2.train.config import TrainConfig
from ds2.utils.config import load_config
from ds2.utils.errors import InputError

RECIPE = Path(__file__).parents[2] / "recipes" / "ablations"


@pytest.fixture(scope="module")
def ablations(recipe_script: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_script("ablations/ablations")


def configured(line: str) -> TrainConfig:
    return load_config(TrainConfig, RECIPE / "base.toml", [word for word in shlex.split(line)[2:] if word != "--set"])


def parameters(config: TrainConfig) -> int:
    tokens = 17  # of digits: the blank, the space and 15 letters
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in AcousticModel(config.model, tokens).parameters())


@pytest.mark.parametrize("name", ["choices", "depth", "size", "noise", "speakers"])
def test_each_line_is_a_training_of_its_own(ablations: ModuleType, name: str) -> None:
    lines = ablations.commands(ablations.TABLES[name], Path("runs"))
    assert len({shlex.split(line)[1] for line in lines}) == len(lines) == 3 * len(ablations.TABLES[name].rows)
    seeds = [configured(line).seed for line in lines]
    assert seeds == sorted(seeds)
    assert set(seeds) == {1, 2, 3}


def test_models_of_any_depth_are_equally_large(ablations: ModuleType) -> None:
    lines = ablations.commands(ablations.TABLES["depth"], Path("runs"))
    sizes = {parameters(configured(line)) for line in lines}
    assert max(sizes) < 1.03 * min(sizes)


def test_sizes_are_those_of_their_names(ablations: ModuleType) -> None:
    table = ablations.TABLES["size"]
    for name, line in zip(table.rows, ablations.commands(table, Path("runs")), strict=False):
        assert parameters(configured(line)) == pytest.approx(int(name.split()[1].replace(",", "")), rel=0.02)


def test_a_speaker_who_is_tested_is_never_trained_on(ablations: ModuleType, tmp_path: Path) -> None:
    """Rows of equal hours have about as many, of as many speakers as they say."""
    speakers = ("george", "jackson", "lucas", "nicolas", "theo", "yweweler")
    for split, count in {"small": 300, "dev": 5, "test": 5}.items():
        spoken = [
            Utterance(tmp_path / f"{split}/{speaker}{number}.flac", 2.0, "one", speaker=speaker)
            for number in range(count)
            for speaker in speakers
        ]
        write_manifest(tmp_path / f"{split}.jsonl", spoken)
    ablations.write_speakers(tmp_path)
    for seed, held_out in ablations.HELD_OUT.items():
        dev = read_manifest(tmp_path / "speakers" / f"dev.{seed}.jsonl")
        assert (len(dev), {each.speaker for each in dev}) == (10, {held_out})
        for hours, (numbers, _) in ablations.PORTIONS.items():
            for number in numbers:
                train = read_manifest(tmp_path / "speakers" / f"{number}-{hours}.{seed}.jsonl")
                found = {each.speaker for each in train}
                assert len(found) == number
                assert held_out not in found
                assert sum(each.duration for each in train) == pytest.approx(3600 * hours, rel=0.05)


def test_a_table_tells_of_runs_that_have_ended(ablations: ModuleType, tmp_path: Path) -> None:
    table = ablations.TABLES["noise"]
    runs = [Path(shlex.split(line)[1]) for line in ablations.commands(table, tmp_path / "noise")]
    for run, epochs, rate in ((runs[0], 6, 0.02), (runs[4], 6, 0.04), (runs[1], 5, 0.5)):  # of 0 % twice, of 20 % once
        run.mkdir(parents=True)
        line = {"seconds": 2.0, "loss": 1.0, "dev_loss": 3.0, "wer": rate}
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for _ in range(epochs)))
        (run / "noisy.json").write_text(json.dumps(2 * rate))
    printed = run_script(RECIPE / "ablations.py", "table", "noise", tmp_path, tmp_path / "noise.png")
    assert printed.splitlines()[2:] == [
        "| 0% of utterances noisy | 2 | 6 | 12 | 1.00 | 3.00 | 3.00% ± 1.41% | 6.00% ± 2.83% |"
    ]
    assert (tmp_path / "noise.png").stat().st_size > 0
    with pytest.raises(InputError, match="no run has ended"):
        ablations.print_table(ablations.TABLES["size"], tmp_path / "size", None)


@pytest.fixture(scope="module")
def frame_labels(recipe_script: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_script("ablations/frame_labels")


@torch.no_grad()
def test_affinities_are_symmetric_and_of_131_parameters(frame_labels: ModuleType) -> None:
    torch.manual_seed(0)
    network = frame_labels.Network(5, "walk")
    assert sum(parameter.numel() for parameter in network.walk.parameters()) == 131
    radius, low = frame_labels.RADIUS, torch.randn(20, 131)
    affinities = network.walk.affinities(low)
    assert affinities.min() >= 0
    assert affinities.max() <= 1
    for frame in range(20):
        for other in range(max(0, frame - radius), min(20, frame + radius + 1)):
            expected = torch.exp(-(low[frame] - low[other]).abs().mean())  # all weights are 1 / 131 at first
            assert affinities[frame, other - frame + radius] == pytest.approx(float(expected), abs=1e-5)
    assert affinities[0, :radius].sum() == 0
    assert torch.allclose(network.walk(torch.ones(20, 3), affinities), torch.ones(20, 3))


@pytest.mark.skipif(not installed("espeak-ng"), reason="espeak-ng is not installed")
def test_labels_of_frames_are_those_of_the_sounds(frame_labels: ModuleType) -> None:
    """A pause at both ends and between the sentences, and sounds in between."""
    names = [""]
    [sentence] = frame_labels.sentences("train", 1, 1, names)
    assert sentence.features.shape == (len(sentence.labels), 81)
    speech = frame_labels.targets(sentence, "speech or none")
    assert 0.5 < speech.float().mean() < 0.95
    assert (speech[0], speech[-1]) == (0, 0)
    assert int((speech.diff() == 1).sum()) >= 2
    assert len(sentence.labels.unique()) > 8


@pytest.mark.skipif(not installed("espeak-ng"), reason="espeak-ng is not installed")
def test_the_walk_is_compared_on_both_tasks(frame_labels: ModuleType) -> None:
    script = RECIPE / "frame_labels.py"
    rows = run_script(script, "--seeds", 1, "--sentences", 3, "--epochs", 1).splitlines()[2:]
    assert len(rows) == 2 * (len(frame_labels.KINDS) + 2)  # two of them with more steps
