"""The random walk over frames against its definition."""

import math

import torch

from ds2.model.random_walk import RandomWalk, affinity_loss


@torch.no_grad()
def test_equals_the_definition() -> None:
    torch.manual_seed(0)
    walk = RandomWalk(6, 2).double()
    features, logits = torch.randn(2, 5, 6, dtype=torch.float64), torch.randn(2, 5, 3, dtype=torch.float64)
    lengths = [5, 3]
    affinities = walk.affinities(features, torch.tensor(lengths))
    result = walk(logits, affinities)
    for b, length in enumerate(lengths):
        low = features[b] @ walk.project.weight.T
        for t in range(length):
            weights = {
                s: math.exp(float((low[t] - low[s]).abs() @ walk.distance + walk.offset[s - t + 2]))
                for s in range(max(0, t - 2), min(length, t + 3))
            }
            total = sum(weights.values())
            expected = sum(weight / total * logits[b, s].softmax(0) for s, weight in weights.items())
            assert torch.allclose(result[b, t].exp().double(), expected, atol=1e-6)


def test_rows_are_distributions_whatever_the_padding() -> None:
    walk = RandomWalk(4, 3)
    features = torch.randn(2, 8, 4)
    affinities = walk.affinities(features, torch.tensor([8, 5]))
    assert torch.allclose(affinities.sum(2), torch.ones(2, 8), atol=1e-5)
    assert affinities[1, 4, 4:].sum() == 0  # the frame behind the end gets nothing
    assert torch.allclose(walk.affinities(features[1:, :5], torch.tensor([5])), affinities[1:, :5], atol=1e-6)


def test_like_frames_are_drawn_together_by_the_loss() -> None:
    torch.manual_seed(0)
    walk = RandomWalk(3, 2)
    labels = torch.tensor([[0, 0, 1, 1, 1, 0, 0, 2, 2, 0]])
    features = torch.nn.functional.one_hot(labels, 3).float() + 0.1 * torch.randn(1, 10, 3)
    lengths = torch.tensor([10])
    optimizer = torch.optim.Adam(walk.parameters(), 0.05)
    losses = []
    for _ in range(60):
        loss = affinity_loss(walk.affinities(features, lengths), labels, lengths).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_the_loss_by_hand() -> None:
    affinities = torch.tensor([[[0.0, 0.75, 0.25], [0.5, 0.25, 0.25], [0.1, 0.9, 0.0]]])
    loss = affinity_loss(affinities, torch.tensor([[1, 1, 0]]), torch.tensor([3]))
    expected = -(math.log(1.0) + math.log(0.75) + math.log(0.9)) / 3
    assert torch.allclose(loss, torch.tensor([expected]))
    shorter = affinity_loss(affinities, torch.tensor([[1, 1, 1]]), torch.tensor([2]))
    assert torch.allclose(shorter, torch.tensor([-(math.log(1.0) + math.log(0.75)) / 2]))
