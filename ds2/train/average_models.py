"""Averages models: the result is often better than each of them, above all on speech unlike their training data.

Models trained from the same start with different seeds lie in one basin of the loss: the mean of their weights is as
good a model, without the random errors of each (Wortsman et al. 2022, "Model soups").
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from ds2.bundle import Bundle
from ds2.model.config import ModelConfig
from ds2.train.finite_weights import load_finite
from ds2.utils.errors import InputError
from ds2.utils.model_names import FINE_TUNED, is_packaged

logger = logging.getLogger(__name__)

# The cosine of the matrices of two models: below, they have no start in common. Models of one start have 0.89 after
# most of a training, and 1.00 after fine-tuning.
RELATED = 0.3


def average(paths: Sequence[str | Path]) -> Bundle:
    """The mean of all weights and running statistics, with the records of all models.

    The search and all else are those of the first model with a language model, or of the first one.

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
        if (cosine := _cosine(bundle, first)) < RELATED:
            logger.warning(
                "%s did not begin where %s did (the cosine of their weights is %.2f): the average of such models "
                "recognises nothing; train them from the same start (start_from)", path, paths[0], cosine,
            )  # fmt: skip
    weights = {
        name: torch.stack([bundle.weights[name].double() for bundle in bundles]).mean(0).to(tensor.dtype)
        for name, tensor in first.weights.items()
    }
    of = [_named(Path(path)) | bundle.training for path, bundle in zip(paths, bundles, strict=True)]
    searching = next((bundle for bundle in bundles if bundle.language_model is not None), first)
    tuned = [each for path in paths if (each := Path(path).with_name(FINE_TUNED)).is_file()]
    if tuned and searching.language_model is None:
        logger.warning("none of them holds a language model, which %s has: average such files", tuned[0])
    return replace(searching, weights=weights, training={"version": of[0].get("version"), "average_of": of})


def _named(path: Path) -> dict[str, str]:
    """The name of a run, kathleen of runs/kathleen/best.safetensors, or of a model of the package."""
    return {"name": path.stem, "model": path.stem} if is_packaged(path) else {"name": path.parent.name or path.stem}


def _cosine(one: Bundle, other: Bundle) -> float:
    """That of the angle between the matrices of two models."""
    names = [name for name, tensor in one.weights.items() if tensor.dim() > 1]
    first, second = (torch.cat([each.weights[name].flatten().float() for name in names]) for each in (one, other))
    return float(torch.nn.functional.cosine_similarity(first, second, dim=0))


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
