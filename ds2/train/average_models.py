"""Averages models: the result is often better than each of them, above all on speech unlike their training data.

Models trained from the same start with different seeds lie in one basin of the loss: the mean of their weights is as
good a model, without the random errors of each (Wortsman et al. 2022, "Model soups").
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ds2.bundle import Bundle
from ds2.model.config import ModelConfig
from ds2.train.finite_weights import load_finite
from ds2.utils.errors import InputError


def average(paths: Sequence[str | Path]) -> Bundle:
    """The mean of all weights and running statistics; all else is that of the first model, with the records of all.

    Raises:
        InputError: fewer than two bundles, bundles whose configurations, tokens or tensors differ, or weights that are
            not finite.
    """
    if len(paths) < 2:
        raise InputError("average: at least two bundles are needed")
    bundles = [load_finite(path) for path in paths]
    first = bundles[0]
    for path, bundle in zip(paths, bundles, strict=True):
        # Parsed configurations: an older bundle, without the newest options, equals a new one.
        for key, same in (
            ("config", ModelConfig.of(bundle) == ModelConfig.of(first)),
            ("tokens", bundle.tokens == first.tokens),
        ):
            if not same:
                raise InputError(
                    f"{path}: its {key} is not that of {paths[0]}; only models of one configuration can be averaged"
                )
        _check_same_tensors(bundle, first)
    weights = {
        name: torch.stack([bundle.weights[name].double() for bundle in bundles]).mean(0).to(tensor.dtype)
        for name, tensor in first.weights.items()
    }
    of = [{"name": Path(path).parent.name, **bundle.training} for path, bundle in zip(paths, bundles, strict=True)]
    return replace(first, weights=weights, training={"version": of[0].get("version"), "average_of": of})


def _check_same_tensors(bundle: Bundle, first: Bundle) -> None:
    """Raises InputError where one of two bundles lacks a tensor of the other, or has it in another shape, as of a
    BN-LSTM's statistics after texts of other lengths."""
    for less, more in ((bundle, first), (first, bundle)):
        if lacking := more.weights.keys() - less.weights.keys():
            raise InputError(f"{less.name}: lacks {min(lacking)}, which {more.name} has: no average")
    for name, tensor in first.weights.items():
        shape = tuple(bundle.weights[name].shape)
        if shape != tuple(tensor.shape):
            raise InputError(
                f"{bundle.name}: {name} has the shape {shape}, in {first.name} {tuple(tensor.shape)}: no average"
            )
