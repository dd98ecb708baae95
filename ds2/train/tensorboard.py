"""TensorBoard logs of a run; nothing is written where TensorBoard is not installed."""

from pathlib import Path

from ds2.model.acoustic import AcousticModel
from ds2.train.metrics import Epoch
from ds2.train.observe import PERCENTILES, Observation


def write_histograms(folder: Path, model: AcousticModel, found: Observation) -> None:
    """Adds percentiles as scalars and weights as histograms to the log in `folder`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return
    with SummaryWriter(str(folder)) as writer:
        for kind in ("weights", "gradients", "activations", "means", "variances"):
            for name, values in getattr(found, kind).items():
                for percent, value in zip(PERCENTILES, values, strict=True):
                    writer.add_scalar(f"{kind}/{name}/p{percent}", value, found.epoch)
        for name, weight in model.named_parameters():
            if weight.isfinite().all():
                writer.add_histogram(name, weight.detach().cpu(), found.epoch)


def write_scalars(folder: Path, epoch: Epoch) -> None:
    """Adds one epoch's figures to the log in `folder`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return
    with SummaryWriter(str(folder), purge_step=epoch["step"]) as writer:
        for name, value in epoch.items():
            if isinstance(value, float):
                writer.add_scalar(name, value, epoch["step"])
