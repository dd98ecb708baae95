"""Averages models: one that often does better than each of them, above all on what is unlike their training data.

The weights of models that were trained from the same start, with other seeds, lie in one basin: their mean is as good a
model, and its errors are not those that chance put into each (Wortsman et al. 2022, "Model soups").
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from ds2.bundle import Bundle
from ds2.utils.errors import InputError


def average(paths: Sequence[str | Path]) -> Bundle:
    """The mean of the weights, running statistics included; metadata of the first, and the names of all.

    Raises:
        InputError: fewer than two bundles, or bundles of another configuration or other tokens.
    """
    if len(paths) < 2:
        raise InputError("average: name at least two bundles")
    bundles = [Bundle.load(path) for path in paths]
    first = bundles[0]
    for path, bundle in zip(paths, bundles, strict=True):
        for key in ("config", "tokens"):
            if bundle.metadata[key] != first.metadata[key]:
                raise InputError(
                    f"{path}: its {key} is not that of {paths[0]}; only models of one kind have an average"
                )
    weights = {
        name: torch.stack([bundle.weights[name].double() for bundle in bundles]).mean(0).to(tensor.dtype)
        for name, tensor in first.weights.items()
    }
    of = [
        {"name": Path(path).parent.name, **bundle.metadata["training"]}
        for path, bundle in zip(paths, bundles, strict=True)
    ]
    metadata = {**first.metadata, "training": {"version": of[0].get("version"), "average_of": of}}
    return Bundle(weights, metadata, first.language_model)
