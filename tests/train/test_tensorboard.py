"""TensorBoard logs, read back by TensorBoard."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from conftest import TINY

from ds2.model.acoustic import AcousticModel
from ds2.train.run_state import RunState
from ds2.train.tensorboard import KINDS, LossLog, write_histograms, write_scalars


def test_the_figures_of_an_epoch_are_scalars_at_its_step(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    write_scalars(tmp_path, {"epoch": 1, "step": 12, "loss": 2.5, "wer": 0.5, "skipped": 3})
    log = accumulator.EventAccumulator(str(tmp_path)).Reload()
    assert log.Tags()["scalars"] == ["loss", "wer"]
    assert [(event.step, event.value) for event in log.Scalars("loss")] == [(12, 2.5)]


def test_the_loss_within_an_epoch_is_the_mean_of_every_ten_updates(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    state = RunState(step=100)
    with LossLog(tmp_path, state) as log:
        for update in range(25):
            state.step += 1
            state.utterances += 4
            state.loss_sum += 4 * update
            log.add(state)
    events = accumulator.EventAccumulator(str(tmp_path)).Reload().Scalars("loss within the epoch")
    assert [(event.step, event.value) for event in events] == [(110, 4.5), (120, 14.5)]
    with LossLog(None, state) as log:
        log.add(state)


def test_the_graph_has_a_node_for_each_layer(tmp_path: Path) -> None:
    """The letters are heard through the layer that only they have; the phones are not."""
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = dataclasses.replace(TINY, fully_connected=12, random_walk=2, phones=41)
    nothing: dict[str, object] = {key: {} for key in (*KINDS, "sparsity", "norms")}
    model = AcousticModel(config, 5)
    for epoch in (1, 2):
        write_histograms(tmp_path, model, SimpleNamespace(epoch=epoch, **nothing))  # type: ignore[arg-type]
    graph = accumulator.EventAccumulator(str(tmp_path)).Reload().Graph()
    edges = {node.name: [*node.input] for node in graph.node}
    last = f"recurrent.{config.recurrent_layers - 1}"
    assert edges["fully_connected"] == edges["phone_output"] == [last]
    assert (edges["output"], edges["random_walk"]) == (["fully_connected"], ["output"])
    [output] = [node for node in graph.node if node.name == "output"]
    assert output.attr["parameters"].i == sum(each.numel() for each in model.output.parameters())


def test_histograms_leave_out_what_is_not_finite_and_what_has_no_bin(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model = AcousticModel(TINY, 5)
    values = torch.tensor([float("nan"), float("inf"), -3e38, 0.25, 0.5])
    model.output.bias = torch.nn.Parameter(values)
    with torch.no_grad():
        model.output.weight.fill_(3e38)
    nothing: dict[str, object] = {key: {} for key in (*KINDS, "sparsity", "norms")}
    write_histograms(tmp_path, model, SimpleNamespace(epoch=1, **nothing))  # type: ignore[arg-type]
    log = accumulator.EventAccumulator(str(tmp_path)).Reload()
    [event] = log.Histograms("output.bias")
    assert (event.histogram_value.num, event.histogram_value.min, event.histogram_value.max) == (2, 0.25, 0.5)
    assert "output.weight" not in log.Tags()["histograms"]


FULL = """
import resource, sys
from pathlib import Path
from ds2.train.run_state import RunState
from ds2.train.tensorboard import LossLog, write_scalars
from ds2.utils.errors import InputError

resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # no file grows beyond 100 bytes, as on a full disk
folder = Path(sys.argv[1])
try:
    write_scalars(folder, {"epoch": 1, "step": 12, "loss": 2.5, "wer": 0.5, "skipped": 3})
except InputError as error:
    print(error)
log = LossLog(folder, RunState(step=100))
log.add(RunState(step=120, utterances=1))
try:
    log.__exit__()
except InputError as error:
    print(error)
"""


def test_a_full_disk_is_reported_with_the_name_of_the_log(tmp_path: Path) -> None:
    """It was called one of standard output. In a process of its own: TensorBoard's thread ends with the error, too."""
    pytest.importorskip("tensorboard")
    done = subprocess.run([sys.executable, "-c", FULL, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{tmp_path}: cannot be written (File too large)") for line in lines)
