"""The linear classifier of segments: six features in, log odds that the transcript is bad out."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ds2.curation.score import FEATURES

ALONE = "CTC cost / character"
SURE = 10.0  # log odds
OUTLIER = 3.0  # deviations above the median: a cost per character beyond it is that of a wrong text
DEVIATION = 1.4826  # standard deviation of a normal distribution, in medians of its distances from the median


@dataclass(frozen=True)
class Classifier:
    """Log odds that a transcript is bad: bias + weights . (features - mean) / deviation."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    weights: tuple[float, ...]
    bias: float

    @classmethod
    def fit(cls, examples: Tensor, bad: Tensor, ridge: float) -> "Classifier":
        """(N, 6) features, (N,) booleans -> logistic regression by cross entropy; some are good and some bad."""
        mean, deviation = _moments(examples)
        inputs, targets = (examples - mean) / deviation, bad.double()
        weights = torch.zeros(examples.shape[1] + 1, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([weights], max_iter=500, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            odds = inputs @ weights[:-1] + weights[-1]
            loss = torch.nn.functional.binary_cross_entropy_with_logits(odds, targets)
            loss = loss + ridge * weights.square().sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found = weights.detach().tolist()
        return cls(tuple(mean.tolist()), tuple(deviation.tolist()), tuple(found[:-1]), found[-1])

    @classmethod
    def by_cost(cls, examples: Tensor, bad: Tensor) -> "Classifier":
        """(N, 6) features, (N,) booleans, nearly all of them equal -> the CTC cost per character alone decides."""
        mean, deviation = _moments(examples)
        alone = tuple(float(name == ALONE) for name in FEATURES)
        return cls(tuple(mean.tolist()), tuple(deviation.tolist()), alone, SURE if bad.double().mean() > 0.5 else -SURE)

    @classmethod
    def of_outliers(cls, examples: Tensor) -> "Classifier":
        """(N, 6) features -> the deviations by which the CTC cost per character exceeds that of an OUTLIER.

        The median and the median distance from it stay what they are until half of the texts are wrong.
        """
        median = examples.median(0).values
        deviation = DEVIATION * (examples - median).abs().median(0).values.clamp(min=1e-6)
        alone = tuple(float(name == ALONE) for name in FEATURES)
        return cls(tuple(median.tolist()), tuple(deviation.tolist()), alone, -OUTLIER)

    def __call__(self, examples: Tensor) -> Tensor:
        """(N, 6) -> (N,) log odds."""
        mean, deviation, weights = (
            torch.tensor(values, dtype=torch.float64) for values in (self.mean, self.deviation, self.weights)
        )
        return (examples - mean) / deviation @ weights + self.bias


def _moments(examples: Tensor) -> tuple[Tensor, Tensor]:
    """(N, 6) -> the mean and the deviation of each feature."""
    return examples.mean(0), examples.std(0).clamp(min=1e-6)
