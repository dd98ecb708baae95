"""The recipe of the neural language model: its loss, and training, which may begin with an earlier model."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from helpers.scripts import run_script

from ds2.bundle import Bundle
from ds2.lm.neural import NeuralModel

SCRIPT = Path(__file__).parents[2] / "recipes" / "english" / "neural_lm.py"
SOURCES = ("books", "transcripts", "tatoeba", "prompts", "wordnet", "commands", "stories")
KINDS = torch.float32, torch.float64


@pytest.mark.parametrize(("rows", "absent"), [(1, 0), (700, 50)])  # blocks of 512 rows
def test_the_loss_is_that_of_torch_in_float64(
    recipe_script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, rows: int, absent: int
) -> None:
    module = recipe_script("english/neural_lm_loss")
    monkeypatch.setattr(module, "has_bfloat16", lambda: False)
    random = torch.Generator().manual_seed(rows)
    parts = [torch.randn(size, generator=random) for size in ((rows + absent, 8), (30, 8), (30,))]
    wanted = torch.randint(30, (rows + absent,), generator=random)
    wanted[torch.randperm(rows + absent, generator=random)[:absent]] = module.NO_PIECE
    found, expected = ([part.to(kind, copy=True).requires_grad_() for part in parts] for kind in KINDS)
    loss = module.cross_entropy(*found, wanted)
    reference = torch.nn.functional.cross_entropy(torch.nn.functional.linear(*expected), wanted, ignore_index=-1)
    (3 * loss).backward()
    (3 * reference).backward()
    assert loss.item() == pytest.approx(reference.item(), rel=1e-5)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.grad, theirs.grad, rtol=1e-4, atol=1e-6)


def test_the_lstm_is_torchs_in_float64_within_bfloat16(recipe_script: Callable[[str], ModuleType]) -> None:
    """States and gradients over 9 steps, with the rounding of 8 bits at each."""
    module, random = recipe_script("english/neural_lm_lstm"), torch.Generator().manual_seed(7)
    steps, batch, cells, width = 9, 5, 48, 16
    sizes = {"terms": (steps, batch, 4 * cells), "recurrent": (4 * cells, width), "projection": (width, cells)}
    parts = [torch.randn(size, generator=random, dtype=torch.float64) / 4 for size in sizes.values()]
    parts[0] = (4 * parts[0]).bfloat16().double()
    weights = torch.randn(steps, batch, width, generator=random, dtype=torch.float64)
    torchs = torch.nn.LSTM(4 * cells, cells, proj_size=width, bias=False, dtype=torch.float64)
    inputs = parts[0].clone().requires_grad_()
    with torch.no_grad():
        torchs.weight_ih_l0.copy_(torch.eye(4 * cells))
        torchs.weight_hh_l0.copy_(parts[1])
        torchs.weight_hr_l0.copy_(parts[2])
    expected, _ = torchs(inputs)
    (expected * weights).sum().backward()
    ours = [parts[0].bfloat16().requires_grad_(), *(part.float().requires_grad_() for part in parts[1:])]
    found = module.ProjectedLSTM.apply(*ours)
    (found * weights).sum().backward()
    gradients = inputs.grad, torchs.weight_hh_l0.grad, torchs.weight_hr_l0.grad
    for own, right in zip([found, *(part.grad for part in ours)], [expected, *gradients], strict=True):
        assert ((own.double() - right).norm() / right.norm()).item() < 0.02


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_training_goes_on_from_an_earlier_model(tmp_path: Path) -> None:
    (tmp_path / "texts" / "dev").mkdir(parents=True)
    for name in (*SOURCES, "dev/all"):
        (tmp_path / "texts" / f"{name}.txt").write_text("the cat sat\nthe dog sat on the cat\n" * 20)
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    run_script(SCRIPT, "train", tmp_path / "texts", first, "--updates", "3", "--falls", "1")
    printed = run_script(SCRIPT, "train", tmp_path / "texts", second, "--start", first, "--updates", "0")
    assert "update" not in printed
    before, after = (Bundle.load(path).neural_model for path in (first, second))
    assert before
    assert after
    assert before.pieces == after.pieces
    for name, array in before.arrays.items():
        np.testing.assert_allclose(array, after.arrays[name], rtol=1e-6, err_msg=name)
    model = NeuralModel(after.pieces, {name: np.asarray(array) for name, array in after.arrays.items()})
    assert model.score("the cat sat".split()) > model.score("sat the cat".split())
