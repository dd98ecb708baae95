"""TensorBoard logs of a run; nothing is written where TensorBoard is not installed."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds2.model.acoustic import AcousticModel
from ds2.model.summary import summarize
from ds2.train.metrics import Epoch
from ds2.train.network_activity import PERCENTILES, Observation
from ds2.train.network_drawing import OUTPUTS
from ds2.train.run_state import RunState
from ds2.utils.errors import InputError

if TYPE_CHECKING:
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from torch.utils.tensorboard import SummaryWriter

UPDATES = 10  # between two points of the loss within an epoch
HISTOGRAM_LIMIT = 1e19  # TensorBoard has no bin for more, and refuses what has no bin
KINDS = ("weights", "gradients", "activations", "means", "variances")


class LossLog:
    """The mean loss of every UPDATES updates, while an epoch is trained: `with LossLog(folder, state) as log`."""

    def __init__(self, folder: Path | None, state: RunState):
        """`folder` of the log; None writes nothing. `state` at the start."""
        self.folder = folder
        self.writer = _writer(folder, purge_step=state.step + 1) if folder is not None else None
        self._remember(state)

    def add(self, state: RunState) -> None:
        """Adds a point where enough updates were done since the last one."""
        count = state.utterances - self.utterances
        if self.writer is None or state.step - self.step < UPDATES or not count:
            return
        with _naming_the_log(self.folder):
            self.writer.add_scalar("loss within the epoch", (state.loss_sum - self.loss_sum) / count, state.step)
        self._remember(state)

    def _remember(self, state: RunState) -> None:
        self.step, self.loss_sum, self.utterances = state.step, state.loss_sum, state.utterances

    def __enter__(self) -> "LossLog":
        return self

    def __exit__(self, *_: object) -> None:
        if self.writer is not None:
            with _naming_the_log(self.folder):
                self.writer.close()


def write_histograms(folder: Path, model: AcousticModel, found: Observation) -> None:
    """Adds percentiles, sparsity and norms as scalars and weights as histograms to the log in `folder`.

    After the first epoch also the graph of the network. The tab of custom scalars has one chart of all percentiles for
    each layer. Histograms leave out weights that are not finite, as of a training that diverges.
    """
    if (writer := _writer(folder)) is None:
        return
    with _naming_the_log(folder), writer:
        if found.epoch == 1:
            _add_graph(writer, model)
        charts: dict[str, dict[str, Any]] = {}
        for kind in KINDS:
            for name, values in getattr(found, kind).items():
                tags = [f"{kind}/{name}/p{percent}" for percent in PERCENTILES]
                charts.setdefault(kind, {})[name] = ["Multiline", tags]
                for tag, value in zip(tags, values, strict=True):
                    writer.add_scalar(tag, value, found.epoch)
        writer.add_custom_scalars(charts)
        for name, zeros in found.sparsity.items():
            writer.add_scalar(f"sparsity/{name}", zeros, found.epoch)
        for name, (weights, gradients) in found.norms.items():
            writer.add_scalar(f"norms/{name}/weights", weights, found.epoch)
            writer.add_scalar(f"norms/{name}/gradients", gradients, found.epoch)
        for name, weight in model.named_parameters():
            shown = weight.detach()[weight.detach().abs() < HISTOGRAM_LIMIT]
            if len(shown):
                writer.add_histogram(name, shown.cpu(), found.epoch)


def _add_graph(writer: "SummaryWriter", model: AcousticModel) -> None:
    from tensorboard.compat.proto.event_pb2 import Event

    # The graphs of SummaryWriter come from a trace, in which a layer is hundreds of operations.
    event = Event(graph_def=network_graph(model).SerializeToString())
    writer._get_file_writer().add_event(event)


def network_graph(model: AcousticModel) -> "GraphDef":
    """A node for each layer, with shape and parameters, and edges from the layers that it hears."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    graph, last, shared = GraphDef(), "sound", "sound"
    graph.node.add(name=last, op="Placeholder")
    for layer in summarize(model.config, len(model.output.bias)):
        heard = {"phone_output": shared, "biphones": shared, "random_walk": "output"}.get(layer.name, last)
        node = graph.node.add(name=layer.name, op=layer.name.partition(".")[0], input=[heard])
        node.attr["shape"].s = layer.shape.encode()
        node.attr["parameters"].i = layer.parameters
        if layer.name not in OUTPUTS:
            last = layer.name
            shared = shared if layer.name == "fully_connected" else last  # the outputs of phones pass it by
    return graph


def write_scalars(folder: Path, epoch: Epoch) -> None:
    """Adds one epoch's figures to the log in `folder`."""
    if (writer := _writer(folder, purge_step=epoch["step"])) is None:
        return
    with _naming_the_log(folder), writer:
        for name, value in epoch.items():
            if isinstance(value, float):
                writer.add_scalar(name, value, epoch["step"])


@contextlib.contextmanager
def _naming_the_log(folder: Path | None) -> Iterator[None]:
    """Names the log where it cannot be written: a thread of TensorBoard writes, and its error names no file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); the training resumes from here") from error


def _writer(folder: Path, purge_step: int | None = None) -> "SummaryWriter | None":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    _quiet_threads()
    return SummaryWriter(str(folder), purge_step=purge_step)


@functools.cache
def _quiet_threads() -> None:
    """The threads of TensorBoard print no traceback of a full disk: whoever writes next gets the error."""
    others = threading.excepthook

    def hook(failure: threading.ExceptHookArgs) -> None:
        theirs = isinstance(failure.exc_value, OSError) and type(failure.thread).__module__.startswith("tensorboard.")
        if not theirs:
            others(failure)

    threading.excepthook = hook
