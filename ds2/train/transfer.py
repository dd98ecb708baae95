"""Training that starts from a bundle with another alphabet, sample rate, width or number of directions.

Parts may be frozen. A forward-only model starts as the forward half of a bidirectional one. A model with more recurrent
units or channels starts as the narrower one: neither the old units nor the output read the new units (similar to
Net2WiderNet, Chen et al. 2016, with new units instead of copies).

The front end's bins are 50 Hz wide at any rate, so the bins of a lower rate are the first bins of a higher one. Layers
that read all bins are cut off or, for a higher rate, start with zeros for the new bins.
"""

import torch
from torch import Tensor, nn

from ds2.bundle import Bundle
from ds2.model.acoustic import AcousticModel
from ds2.model.config import ModelConfig
from ds2.model.time_delay import TimeDelay
from ds2.text import Tokenizer
from ds2.train.config import StartConfig, TrainConfig
from ds2.utils.errors import InputError

ADDED_PARTS = ("phone_output.", "biphones.", "gates.", "lookahead.", "frontend.prior_power")


def fit_weights(model: AcousticModel, tokenizer: Tokenizer, start: Bundle, config: TrainConfig) -> None:
    """Loads the bundle's weights into the model; alphabet, sample rate, width and directions may differ.

    Outputs for phones and biphones, gates, a lookahead or an adaptive power that the bundle lacks are those of the new
    model, and those for the phones of another language; those that the new model lacks are left out.

    Raises:
        InputError: the models differ in something else.
    """
    weights = dict(start.weights)
    theirs = ModelConfig.of(start)
    state = model.state_dict()
    other_rate = theirs.frontend.sample_rate != config.model.frontend.sample_rate
    if other_rate:
        fit_bins(weights, state, theirs, config.model)
    weights = {name: tensor for name, tensor in weights.items() if not is_left_out(name, theirs, config.model)}
    weights = {name: tensor for name, tensor in state.items() if name.startswith(ADDED_PARTS)} | weights
    same_bins = other_rate or theirs.frontend.bins == config.model.frontend.bins
    if same_bins and not theirs.spec.step_statistics:  # statistics of time steps belong to their units
        widen(weights, model)
    if config.start.new_alphabet or config.start.add_letters:
        fit_outputs(weights, state, start.tokens, tokenizer)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise InputError(
            f"{config.start_from}: its weights are of another shape than [model] asks for; "
            "give the model the bundle's configuration, see ds2 info"
        ) from error


def is_left_out(name: str, theirs: ModelConfig, ours: ModelConfig) -> bool:
    """Whether a weight belongs to a part that our model does without, or has for other phones."""
    backwards = theirs.bidirectional and not ours.bidirectional and ".backwards." in name
    others = theirs.phones != ours.phones
    outputs = ("phone_output.", others), ("biphones.", others or not ours.biphones)
    return backwards or any(name.startswith(prefix) and left_out for prefix, left_out in outputs)


def same_frontend(start: Bundle, config: TrainConfig) -> bool:
    """Whether the bundle's feature statistics can be used in the new model."""
    return ModelConfig.of(start).frontend == config.model.frontend


def fit_bins(weights: dict[str, Tensor], state: dict[str, Tensor], theirs: ModelConfig, ours: ModelConfig) -> None:
    """Cuts or pads, in `weights`, what depends on the number of bins: (C', C, F, time) and (units, C * F)."""
    weights["frontend.mean"], weights["frontend.std"] = state["frontend.mean"], state["frontend.std"]
    for number, convolution in enumerate(theirs.convolutions):
        name = f"convolutions.{number}.kernel.weight"
        if not convolution.kernel[0] and name in state:  # (C', C, F, time): all bins at once
            weights[name] = resized(weights[name], 2, state[name].shape[2])
    inputs = [name for name in weights if name.startswith("recurrent.0.") and name.endswith("input_weight")]
    inputs += [name for name in weights if name == "random_walk.project.weight"]
    channels = theirs.convolutions[-1].channels
    for name in inputs:  # (units, C * F')
        if name in state and state[name].shape[1] % channels == 0:
            grid = weights[name].unflatten(1, (channels, -1))
            weights[name] = resized(grid, 2, state[name].shape[1] // channels).flatten(1)


def fit_outputs(weights: dict[str, Tensor], state: dict[str, Tensor], tokens: list[str], tokenizer: Tokenizer) -> None:
    """Puts the bundle's rows of known tokens into the (V, H) output layer of `weights`; others are the new model's."""
    index = {token: number for number, token in enumerate(tokens)}
    for name in ("output.weight", "output.bias"):
        rows = state[name].clone()
        for number, token in enumerate(tokenizer.tokens):
            if token in index and weights[name][0].shape == rows[0].shape:
                rows[number] = weights[name][index[token]]
        weights[name] = rows


def widen(weights: dict[str, Tensor], model: AcousticModel) -> None:
    """Widens layers, and those that read them, to the model's units; the old units do not read the new ones."""
    state = model.state_dict()
    for name, old in weights.items():
        if name in state and is_wider(state[name], old):
            weights[name] = widened(old, state[name], *unit_groups(name, state[name], model))


def is_wider(new: Tensor, old: Tensor) -> bool:
    """Whether `new`, (N, M, ...), has more units or inputs than `old`, none less, and kernels of the same size."""
    if new.dim() != old.dim() or new.shape == old.shape or new.shape[2:] != old.shape[2:]:
        return False
    return all(more >= less for more, less in zip(new.shape, old.shape, strict=True))


def unit_groups(name: str, weight: Tensor, model: AcousticModel) -> tuple[int, int]:
    """Equal parts of a weight, (N, M): rows, the gates, and columns, the frames that a time-delay layer reads."""
    layer = model.get_submodule(name.rpartition(".")[0])
    if isinstance(layer, TimeDelay):
        return 1, layer.first if name.endswith(".narrow") else layer.second
    return weight.shape[0] // model.config.hidden if name.startswith("recurrent.") else 1, 1


def widened(old: Tensor, new: Tensor, rows: int, columns: int) -> Tensor:
    """`new`, (N, M) or (N,), with the units of `old` first in each group of rows; they read 0 from what `old` lacks."""
    result = new.clone()
    wide, narrow = result.unflatten(0, (rows, -1)), old.unflatten(0, (rows, -1))
    if old.dim() > 1:
        wide, narrow = wide.unflatten(2, (columns, -1)), narrow.unflatten(2, (columns, -1))
        wide[:, : narrow.shape[1]] = 0.0
        wide[:, : narrow.shape[1], :, : narrow.shape[3]] = narrow
    else:
        wide[:, : narrow.shape[1]] = narrow
    return result


def resized(tensor: Tensor, dimension: int, size: int) -> Tensor:
    """(..., n, ...) -> (..., size, ...) along a dimension: cut off at `size`, or padded with zeros up to it."""
    if tensor.shape[dimension] >= size:
        return tensor.narrow(dimension, 0, size).contiguous()
    shape = list(tensor.shape)
    shape[dimension] = size - tensor.shape[dimension]
    return torch.cat([tensor, tensor.new_zeros(shape)], dimension)


def freeze(model: AcousticModel, config: StartConfig, epoch: int) -> None:
    """Freezes the parts named in `config.freeze`, statistics included, and releases them after `config.freeze_epochs`.

    Raises:
        InputError: the model has no part of that name.
    """
    frozen = epoch < config.freeze_epochs or not config.freeze_epochs
    for name in config.freeze:
        try:
            part: nn.Module = model.get_submodule(name)
        except AttributeError as error:
            parts = ", ".join(child for child, _ in model.named_children())
            raise InputError(f"start.freeze: the model has no part {name!r}; it has {parts}") from error
        part.requires_grad_(not frozen)
        part.train(model.training and not frozen)
