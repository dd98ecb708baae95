"""The table of recurrent cells: every cell is found by its name, in all that runs it."""

import dataclasses
from typing import get_args

import pytest
import torch

from ds2.model.acoustic import AcousticModel
from ds2.model.cell_kernels import KERNELS
from ds2.model.cells import CELLS, Cell
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig
from ds2.model.int8_recurrent import in_int8
from ds2.model.slots import SlotModel


def test_every_cell_has_a_row_and_those_with_folded_statistics_have_kernels() -> None:
    assert set(CELLS) == set(get_args(Cell))
    assert set(KERNELS) == {cell for cell, spec in CELLS.items() if not spec.step_statistics}


@pytest.mark.parametrize("cell", KERNELS)
def test_a_step_takes_a_row_for_each_gate_and_returns_each_part_of_the_state(cell: Cell) -> None:
    gates, parts = len(CELLS[cell].gates), len(CELLS[cell].state)
    after = KERNELS[cell].step(*torch.randn(2, 5, gates * 3), *torch.randn(parts, 5, 3))
    assert [part.shape for part in after] == [(5, 3)] * parts


@pytest.mark.parametrize("cell", CELLS)
def test_onnx_has_the_same_gates_in_its_own_order(cell: Cell) -> None:
    operator = CELLS[cell].onnx
    assert operator is None or sorted(operator.gates) == sorted(CELLS[cell].gates)


def test_cells_of_equally_many_gates_run_by_different_branches() -> None:
    branches = [spec.branch for spec in CELLS.values() if spec.branch is not None]
    assert len(set(branches)) == len(branches)


def test_a_cell_of_three_gates_without_a_branch_for_int8_does_not_run_as_a_gru(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused offline, and a live stream steps it in torch."""
    config = ModelConfig(
        FrontendConfig(1000, power="adaptive"),
        (ConvolutionConfig(2, (5, 3), (2, 2)),),
        recurrent_layers=1,
        hidden=520,
        bidirectional=False,
    )
    torch.manual_seed(0)
    model = AcousticModel(config, 5).eval()
    samples = 0.1 * torch.randn(1, 220)
    start = torch.tensor([0]), torch.tensor([0]), torch.tensor([1000])
    by_kernel = SlotModel(model, 1, "int8").step(*start, samples)
    monkeypatch.setitem(CELLS, "gru", dataclasses.replace(CELLS["gru"], branch=None))
    with pytest.raises(ValueError, match="a gru stays in float32"):
        in_int8(model)
    by_steps = SlotModel(model, 1, "int8").step(*start, samples)
    assert not torch.equal(by_steps, by_kernel)
    torch.testing.assert_close(by_steps, by_kernel, atol=1e-2, rtol=0.0)
