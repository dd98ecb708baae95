"""Records the network's activity on a few dev utterances after every epoch, for `ds2 report`."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ds2.ctc import ctc_loss
from ds2.data.dataset import Batch
from ds2.decoder.greedy import greedy
from ds2.model.acoustic import AcousticModel
from ds2.model.frontend import valid_mask
from ds2.model.normalization import RunningStatistics
from ds2.text import Tokenizer
from ds2.train.checkpoint import save_checkpoint
from ds2.utils.files import make_folder

PERCENTILES = (1, 10, 25, 50, 75, 90, 99)
SAMPLE = 200_000  # values at most, evenly spaced, that percentiles are computed from


@dataclass
class Observation:
    """The record of one epoch; percentiles are lists of the values at `PERCENTILES`.

    Attributes:
        weights, gradients: of every matrix of the model; the gradients of the loss of the observed utterances.
        activations: outputs of the layers, padding left out; sparsity: the share of zeros among them.
        norms: of each layer's matrices and of their gradients, as one vector each.
        means, variances: running statistics of batch normalisation.
        gradients_over_time: of each layer's output, of the first utterance: (T',) norms over its units.
        filters: (C, F, T) of the first convolution; maps: (C, F', T') its output for the first utterance.
        texts: of each utterance (reference, greedy hypothesis); posteriors: (T', V) of each.
    """

    epoch: int
    weights: dict[str, list[float]] = field(default_factory=dict)
    gradients: dict[str, list[float]] = field(default_factory=dict)
    activations: dict[str, list[float]] = field(default_factory=dict)
    sparsity: dict[str, float] = field(default_factory=dict)
    norms: dict[str, tuple[float, float]] = field(default_factory=dict)
    means: dict[str, list[float]] = field(default_factory=dict)
    variances: dict[str, list[float]] = field(default_factory=dict)
    gradients_over_time: dict[str, list[float]] = field(default_factory=dict)
    filters: Tensor | None = None
    maps: Tensor | None = None
    texts: list[tuple[str, str]] = field(default_factory=list)
    posteriors: list[Tensor] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Writes epoch_NUMBER.pt into the folder."""
        make_folder(folder)
        save_checkpoint(folder / f"epoch_{self.epoch:04}.pt", dict(vars(self)))


def observe(model: AcousticModel, tokenizer: Tokenizer, batch: Batch, epoch: int) -> Observation:
    """Records the model in eval mode on a batch; changes neither the model nor random states."""
    device = model.output.weight.device
    model.eval()
    layers = {
        name: module
        for name, module in model.named_modules()
        if name.startswith(("convolutions.", "recurrent.")) and name.count(".") == 1
    } | {"output": model.output}
    # Hooks keep the output of each layer, so that its gradient can be asked for as well.
    outputs: dict[str, Tensor] = {}

    def keep(name: str) -> Any:
        def hook(_: nn.Module, __: Any, output: Any) -> None:
            outputs[name] = output[0] if isinstance(output, tuple) else output

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in layers.items()]
    matrices = {name: value for name, value in model.named_parameters() if value.dim() > 1 and value.requires_grad}
    try:
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):  # cuDNN has no backward pass in eval mode
            features, _ = model.frontend(batch.samples.to(device), batch.sample_lengths.to(device))
            features.requires_grad_()  # gradients over time above frozen layers as well
            logits, lengths, *_ = model.network(features, model.frontend.frames(batch.sample_lengths.to(device)))
            targets, target_lengths = batch.targets.to(device), batch.target_lengths.to(device)
            loss = ctc_loss(logits, targets, lengths, target_lengths, reduction="none", zero_infinity=True).mean()
            tensors = [*matrices.values(), *outputs.values()]
            gradients = torch.autograd.grad(loss, tensors, allow_unused=True)
    finally:
        for hook in hooks:
            hook.remove()
    # Of each tensor a few percentiles are kept, of the batch's texts and posteriors all.
    first = model.get_parameter("convolutions.0.kernel.weight")
    found = Observation(epoch, filters=first.detach()[:, 0].cpu().clone())
    for (name, weight), gradient in zip(matrices.items(), gradients, strict=False):
        gradient = torch.zeros(1) if gradient is None else gradient
        found.weights[name], found.gradients[name] = percentiles(weight), percentiles(gradient)
        weights, slopes = found.norms.get(layer := _layer_of(name), (0.0, 0.0))
        found.norms[layer] = math.hypot(weights, weight.norm().item()), math.hypot(slopes, gradient.norm().item())
    for (name, output), gradient in zip(outputs.items(), gradients[len(matrices) :], strict=True):
        _observe_layer(found, name, output.detach(), gradient, lengths)
    for name, module in model.named_modules():
        if isinstance(module, RunningStatistics):
            found.means[name], found.variances[name] = percentiles(module.mean), percentiles(module.variance)
    log_probs = logits.detach().float().log_softmax(2)
    for row, hypothesis in enumerate(greedy(log_probs, lengths)):
        found.texts.append((batch.utterances[row].text, tokenizer.decode(hypothesis.tokens)))
        found.posteriors.append(log_probs[row, : int(lengths[row])].exp().half().cpu())
    return found


def _observe_layer(found: Observation, name: str, output: Tensor, gradient: Tensor | None, lengths: Tensor) -> None:
    """Records the output of a convolution, (B, C, F, T), or of another layer, (B, T, H), and its gradient."""
    by_frame = output.flatten(1, 2).transpose(1, 2) if output.dim() == 4 else output
    frames = (lengths * by_frame.shape[1] + int(lengths.max()) - 1) // int(lengths.max())  # before the last stride
    heard = by_frame[valid_mask(frames, by_frame.shape[1])]
    found.activations[name], found.sparsity[name] = percentiles(heard), (heard == 0).float().mean().item()
    if name == "convolutions.0":
        found.maps = output[0, ..., : int(frames[0])].half().cpu()
    if gradient is not None:
        across = gradient.flatten(1, 2).transpose(1, 2) if gradient.dim() == 4 else gradient
        found.gradients_over_time[name] = across[0, : int(frames[0])].norm(dim=1).tolist()


def _layer_of(parameter: str) -> str:
    """The layer of a parameter's name: convolutions.0 of convolutions.0.kernel.weight, output of output.weight."""
    first, second, *_ = parameter.split(".")
    return f"{first}.{second}" if second.isdigit() else first


def percentiles(values: Tensor) -> list[float]:
    """(...) -> the values at PERCENTILES, from at most SAMPLE elements of a tensor."""
    flat = values.detach().flatten().float()
    flat = flat[:: -(-len(flat) // SAMPLE) or 1]
    return torch.quantile(flat, torch.tensor(PERCENTILES, device=flat.device) / 100).tolist()
