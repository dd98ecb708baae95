"""CTC-CRF against the enumeration of all paths, and the trigram by hand."""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from ds2.ctc.crf import _log_partition_on_cpu, _Paths, ctc_crf_loss, log_partition
from ds2.ctc.label_paths import NEVER, _log_weight, log_weight_of_labels
from ds2.ctc.trigram import Trigram

OUTPUTS = 4
TRIGRAM = Trigram.from_labels([[1, 2, 3], [1, 1, 2], [3], [2, 2, 1, 3]], OUTPUTS)


def labels_of(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(symbol for symbol, _ in itertools.groupby(path) if symbol)


def log_prior(labels: tuple[int, ...]) -> Tensor:
    row = (0, 0, *labels, 0)
    return torch.stack([TRIGRAM.table[row[i : i + 3]].double().log() for i in range(len(row) - 2)]).sum()


def enumerated(scores: Tensor) -> Tensor:
    """Log of the weight of all paths through (T, V) scores."""
    paths = itertools.product(range(OUTPUTS), repeat=len(scores))
    weights = [
        torch.stack([scores[t, symbol] for t, symbol in enumerate(path)]).sum() + log_prior(labels_of(path))
        for path in paths
    ]
    return torch.stack(weights).logsumexp(0)


def random_scores(*shape: int) -> Tensor:
    return (2 * torch.randn(*shape, generator=torch.Generator().manual_seed(4))).log_softmax(-1)


def test_the_partition_is_the_sum_over_all_paths_and_its_gradient_their_posteriors() -> None:
    lengths = torch.tensor([3, 5, 1, 4])  # not in order, and not all as long as the minibatch
    scores = random_scores(4, 5, OUTPUTS).requires_grad_()
    found = log_partition(scores, lengths, TRIGRAM)
    expected = torch.stack([enumerated(row[:length].double()) for row, length in zip(scores, lengths, strict=True)])
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)
    weights = torch.tensor([1.0, -2.0, 0.5, 3.0])
    [gradient] = torch.autograd.grad((found * weights).sum(), scores)
    [exact] = torch.autograd.grad((expected * weights).sum(), scores)
    torch.testing.assert_close(gradient, exact.float(), rtol=1e-5, atol=1e-6)


def test_the_probabilities_of_all_label_sequences_sum_to_one() -> None:
    """Those without labels, which the loss leaves out, are counted by hand."""
    frames, scores = 3, random_scores(1, 3, OUTPUTS)
    sequences = {labels_of(path) for path in itertools.product(range(OUTPUTS), repeat=frames)}
    empty = float(scores[0, :, 0].sum() + log_prior(()) - log_partition(scores, torch.tensor([frames]), TRIGRAM))
    total = math.exp(empty)
    for labels in sequences - {()}:
        loss = ctc_crf_loss(
            scores, torch.tensor([labels]), torch.tensor([frames]), torch.tensor([len(labels)]), TRIGRAM
        )
        assert float(loss) > 0
        total += math.exp(-float(loss))
    assert total == pytest.approx(1, abs=1e-5)


def test_many_frames_of_sharp_scores_stay_finite() -> None:
    """A thousand frames whose best output is e^80 times as likely as the others."""
    best = torch.randint(OUTPUTS, (2, 1000), generator=torch.Generator().manual_seed(1))
    scores = (80.0 * torch.nn.functional.one_hot(best, OUTPUTS)).log_softmax(2).requires_grad_()
    lengths = torch.tensor([1000, 700])
    partition = log_partition(scores, lengths, TRIGRAM)
    partition.sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert bool(partition.isfinite().all())
    torch.testing.assert_close(scores.grad.sum(2), (torch.arange(1000) < lengths.unsqueeze(1)).float())


@pytest.mark.parametrize("outputs", [2, 5, 41])
def test_kernels_and_matrix_products_agree(outputs: int) -> None:
    """The CPU goes utterance by utterance, a GPU by minibatches; neither knows of the other."""
    generator = torch.Generator().manual_seed(2)
    labels = [torch.randint(1, outputs, (30,), generator=generator).tolist() for _ in range(20)]
    trigram, lengths = Trigram.from_labels(labels, outputs), torch.tensor([40, 33, 7])  # the order of _Paths
    scores = (3 * torch.randn(3, 40, outputs, generator=generator)).log_softmax(2)
    biphones = -torch.rand(3, 40, outputs - 1, outputs - 1, generator=generator)
    for weights in (scores.unsqueeze(2), depending(scores, biphones)):  # of each label, and of each pair of labels
        totals, posteriors = _log_partition_on_cpu(weights, lengths, trigram)
        paths = _Paths(weights.exp(), lengths, trigram)
        torch.testing.assert_close(totals, paths.forward(), rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(posteriors, paths.posteriors(), rtol=1e-4, atol=1e-5)


def depending(scores: Tensor, biphones: Tensor) -> Tensor:
    """(B, T, V), (B, T, V - 1, V - 1) -> (B, T, V, V): scores of labels after labels, by hand."""
    result = scores.unsqueeze(2).repeat(1, 1, scores.shape[2], 1)
    result[:, :, 1:, 1:] += biphones
    result[:, :, 0, 1:] += biphones[:, :, 0]  # the beginning counts as the space, label 1
    return result


def weight_of(path: tuple[int, ...], scores: Tensor) -> Tensor:
    """Log of the weight of a path through (T, V, V) scores."""
    total, before, last, run = scores.new_zeros(()), 0, 0, 0
    for frame, symbol in enumerate(path):
        if symbol and symbol != run:
            before, last = last, symbol
        run = symbol
        total = total + (scores[frame, before, last] if symbol else scores[frame, 0, 0])
    return total


def test_biphones_against_the_enumeration_of_all_paths() -> None:
    """Also where a label comes twice, which needs a blank between."""
    generator = torch.Generator().manual_seed(5)
    logits = random_scores(3, 5, OUTPUTS).requires_grad_()
    biphones = (-3 * torch.rand(3, 5, OUTPUTS - 1, OUTPUTS - 1, generator=generator)).requires_grad_()
    frames, labels = [5, 4, 5], [(2, 2, 1), (1, 3), (3, 3)]
    targets = torch.tensor([[2, 2, 1], [1, 3, 0], [3, 3, 0]])
    scores, expected = depending(logits, biphones).double(), []
    for row, count, right in zip(scores, frames, labels, strict=True):
        paths = list(itertools.product(range(OUTPUTS), repeat=count))
        weights = torch.stack([weight_of(path, row) + log_prior(labels_of(path)) for path in paths])
        of_labels = torch.tensor([labels_of(path) == right for path in paths])
        expected.append(weights.logsumexp(0) - weights[of_labels].logsumexp(0))
    sizes = torch.tensor(frames), torch.tensor([len(row) for row in labels])
    found = ctc_crf_loss(logits, targets, *sizes, TRIGRAM, biphones=biphones)
    torch.testing.assert_close(found, torch.stack(expected).float(), rtol=1e-5, atol=1e-5)
    exact = torch.autograd.grad(torch.stack(expected).sum(), (logits, biphones))
    torch.testing.assert_close(torch.autograd.grad(found.sum(), (logits, biphones)), exact, rtol=1e-5, atol=1e-5)


def test_biphones_of_zero_are_no_biphones() -> None:
    logits, targets = random_scores(2, 30, OUTPUTS), torch.tensor([[1, 1, 2, 3], [3, 0, 0, 0]])
    lengths = torch.tensor([30, 12]), torch.tensor([4, 1])
    plain = ctc_crf_loss(logits, targets, *lengths, TRIGRAM, 0.1)
    none = torch.zeros(2, 30, OUTPUTS - 1, OUTPUTS - 1)
    torch.testing.assert_close(ctc_crf_loss(logits, targets, *lengths, TRIGRAM, 0.1, none), plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sharpness", [1.0, 30.0])
def test_paths_of_labels_by_kernels_and_by_operators_agree(sharpness: float) -> None:
    """With labels that come twice, as many labels as fit and more, and none; sharp scores leave float32's range."""
    generator = torch.Generator().manual_seed(6)
    scores = (sharpness * torch.randn(6, 40, OUTPUTS, OUTPUTS, generator=generator)).requires_grad_()
    targets = torch.randint(1, OUTPUTS, (6, 40), generator=generator)
    targets[3, :20] = torch.tensor([1, 2] * 10)
    lengths, sizes = torch.tensor([40, 40, 17, 20, 5, 1]), torch.tensor([12, 0, 9, 20, 6, 1])
    found = log_weight_of_labels(scores, targets, lengths, sizes)
    before = torch.nn.functional.pad(targets, (1, 0))[:, :-1]
    pairs = (before * OUTPUTS + targets).unsqueeze(1).expand(-1, 40, -1)
    again = torch.nn.functional.pad(targets[:, 1:] == targets[:, :-1], (1, 0), value=True)
    emitted, silent = scores.flatten(2).gather(2, pairs).double(), scores[..., 0, 0].double()
    exact = _log_weight(emitted, silent, again, lengths, sizes)
    assert found[4] == torch.tensor(NEVER)
    torch.testing.assert_close(found, exact.float(), rtol=1e-6, atol=1e-5)
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 0.0, 5.0])  # NEVER has no gradient
    assert not torch.autograd.grad(found[4], scores, retain_graph=True)[0].any()
    [gradient] = torch.autograd.grad((found * weights).sum(), scores)
    [expected] = torch.autograd.grad((exact * weights).sum(), scores)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


def test_labels_that_do_not_fit_and_no_labels_cost_nothing() -> None:
    scores = random_scores(3, 2, OUTPUTS).requires_grad_()
    targets = torch.tensor([[1, 2, 3], [0, 0, 0], [2, 0, 0]])
    losses = ctc_crf_loss(scores, targets, torch.tensor([2, 2, 2]), torch.tensor([3, 0, 1]), TRIGRAM)
    assert losses[:2].tolist() == [0, 0]
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert not scores.grad[:2].any()
    assert scores.grad[2].any()


def test_a_learner_finds_the_labels() -> None:
    logits = torch.zeros(1, 12, OUTPUTS, requires_grad=True)
    targets, lengths = torch.tensor([[1, 1, 3]]), (torch.tensor([12]), torch.tensor([3]))
    optimizer = torch.optim.Adam([logits], 0.1)
    for _ in range(300):
        optimizer.zero_grad()
        ctc_crf_loss(logits, targets, *lengths, TRIGRAM).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert float(ctc_crf_loss(logits.detach(), targets, *lengths, TRIGRAM)) < 0.01


def test_the_trigram_by_hand() -> None:
    """One sequence, 1 2: after (begin, begin) comes 1 once, of one kind.

    Unigrams: (1 + 3 / 3) / (3 + 3) = 1 / 3 for each of end, 1 and 2. Bigram 1 after begin: (1 + 1 / 3) / 2 = 2 / 3, and
    the trigram: (1 + 2 / 3) / 2 = 5 / 6. A history that was never seen has the estimates of the shorter one.
    """
    table = Trigram.from_labels([[1, 2]], 3).table
    torch.testing.assert_close(table.sum(2), torch.ones(3, 3))
    assert float(table[0, 0, 1]) == pytest.approx(5 / 6)
    assert float(table[2, 0, 1]) == pytest.approx(2 / 3)
    scores = Trigram(table).log_probabilities(torch.tensor([[1, 2], [1, 0]]), torch.tensor([2, 1]))
    assert float(scores[0]) == pytest.approx(float(table[0, 0, 1].log() + table[0, 1, 2].log() + table[1, 2, 0].log()))
    assert float(scores[1]) == pytest.approx(float(table[0, 0, 1].log() + table[0, 1, 0].log()))


def test_too_many_outputs_for_a_dense_table() -> None:
    with pytest.raises(ValueError, match="at most 256 outputs, got 257"):
        Trigram.from_labels([[1]], 257)


def test_labels_that_may_not_follow_each_other_have_no_paths() -> None:
    """Of two labels the second may only follow the first: 1 2 or 1 2 1 2, as initials and finals of pinyin."""
    follows = np.array([[True, True, False], [False, False, True], [True, True, False]])
    trigram = Trigram.from_labels([[1, 2], [1, 2, 1, 2]], 3, follows)
    scores = random_scores(1, 5, 3).requires_grad_()
    found = log_partition(scores, torch.tensor([5]), trigram)
    weights = []
    for path in itertools.product(range(3), repeat=5):
        row = (0, 0, *labels_of(path), 0)
        prior = math.prod(float(trigram.table[row[i : i + 3]]) for i in range(len(row) - 2))
        allowed = all(follows[pair] for pair in itertools.pairwise(row[1:]))
        assert (prior > 0) == allowed
        if allowed:
            weights.append(sum(scores[0, t, symbol].double() for t, symbol in enumerate(path)) + math.log(prior))
    expected = torch.stack(weights).logsumexp(0)
    torch.testing.assert_close(found[0], expected.float(), rtol=1e-5, atol=1e-5)
    [gradient] = torch.autograd.grad(found.sum(), scores)
    [exact] = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(gradient, exact.float(), rtol=1e-5, atol=1e-6)
    loss = ctc_crf_loss(scores.detach(), torch.tensor([[1, 2, 0]]), torch.tensor([5]), torch.tensor([2]), trigram)
    assert 0 < float(loss) < math.inf
