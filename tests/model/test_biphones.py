"""Scores of biphones."""

import numpy as np
import pytest
import torch
from torch import Tensor

from ds2.model.biphones import Biphones
from ds2.model.bundle_weights import LayerWeights
from ds2.model.config import ModelConfig
from ds2.model.native.biphones import NativeBiphones


def scored() -> tuple[Biphones, Tensor, Tensor]:
    """Random weights, (2, 7, 6) of a layer below, (2, 7, 3, 3) scores."""
    torch.manual_seed(0)
    biphones, x = Biphones(6, 2, 4), torch.randn(2, 7, 6)
    for weight in biphones.parameters():
        torch.nn.init.normal_(weight)
    with torch.no_grad():
        return biphones, x, biphones(x)


def test_by_hand() -> None:
    """z = [[1, 5], [3, 2]]: the first phone suits best after the second, the second after the first."""
    biphones = Biphones(1, 1, 3)
    with torch.no_grad():
        biphones.output.bias.copy_(torch.tensor([1.0, 5.0, 3.0, 2.0]))
        scores = biphones(torch.ones(1, 1, 1))
    assert scores[0, 0].tolist() == [[-2.0, 0.0], [0.0, -3.0]]


def test_they_are_at_most_0_and_0_at_the_best_label_before() -> None:
    _, _, scores = scored()
    assert (scores <= 0).all()
    assert (scores == 0).sum(2).eq(1).all()
    assert scores.dtype == torch.float32


def test_at_first_all_are_0() -> None:
    scores = Biphones(6, 2, 4)(torch.randn(2, 7, 6))
    assert scores.shape == (2, 7, 3, 3)
    assert not scores.any()


def test_without_torch_they_are_the_same() -> None:
    biphones, x, scores = scored()
    weights = {name: weight.numpy() for name, weight in biphones.state_dict().items()}
    found = NativeBiphones(6, 2, 4, LayerWeights(weights))(x.numpy())
    assert np.allclose(found, scores.flatten(2).numpy(), atol=1e-5)


def test_they_are_of_phones() -> None:
    with pytest.raises(ValueError, match="biphones are of phones: set phones as well"):
        ModelConfig(biphones=2)
