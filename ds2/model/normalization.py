"""Batch normalisation: sequence-wise, over utterances AND frames (Deep Speech 2, section 3.2); and per time step."""

import torch
from torch import Tensor, nn

Moments = tuple[Tensor, Tensor, Tensor]  # of a layer's input: mean (D,), covariance (D, D), count ()

EPSILON = 1e-5
MOMENTUM = 0.1  # share of the newest minibatch in the running statistics
STEPS = 200  # time steps that have statistics of their own in a BN-LSTM; later ones use those of the last
STEP_GAMMA = 0.1  # 1 saturates tanh and kills the gradient (Cooijmans et al. 2016, section 4)


class RunningStatistics(nn.Module):
    """Mean and variance for deployment: running averages of the minibatches' over training; gamma and beta beside."""

    mean: Tensor
    variance: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(size))
        self.beta = nn.Parameter(torch.zeros(size))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))

    @torch.no_grad()
    def update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Moves the running averages towards a minibatch's; `count` samples give the unbiased variance."""
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.mean.lerp_(mean, MOMENTUM)
        self.variance.lerp_(unbiased, MOMENTUM)

    def scale_and_shift(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """(a, b) such that gamma * (z - mean) / sqrt(variance + epsilon) + beta = a * z + b."""
        scale = self.gamma * torch.rsqrt(variance + EPSILON)
        return scale, self.beta - scale * mean


class ChannelBatchNorm(RunningStatistics):
    """BN of convolution outputs: one mean and variance per channel over utterances, frequencies and valid frames."""

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """(B, C, F, T), (B, T) boolean -> (B, C, F, T); what lies behind an utterance is not counted."""
        mean, variance = self.mean, self.variance
        if self.training:
            weight = valid[:, None, None, :].to(x.dtype)
            count = valid.sum() * x.shape[2]
            mean = (x * weight).sum((0, 2, 3)) / count
            variance = ((x - mean[:, None, None]).square() * weight).sum((0, 2, 3)) / count
            self.update(mean, variance, count)
        scale, shift = self.scale_and_shift(mean, variance)
        return x * scale[:, None, None] + shift[:, None, None]


class FoldedBatchNorm(RunningStatistics):
    """BN of a linear term, BN(W x), folded into the weights: BN(W x) = W' x + b'.

    The mean of W x is W mean(x) and its variance is diag(W cov(x) W^T), so that neither W x nor its normalised form
    is ever stored, and W', b' go straight into torch's fused recurrent kernels. This is the same function as
    normalising W x, with the same gradients; it costs one D x D covariance per layer, shared by both directions.
    """

    def forward(self, weight: Tensor, moments: Moments | None) -> tuple[Tensor, Tensor]:
        """(H, D) weight, `input_moments` of x (None in deployment: running statistics) -> (H, D) W', (H,) b'."""
        mean, variance = self.mean, self.variance
        if moments is not None:
            input_mean, covariance, count = moments
            mean = weight @ input_mean
            variance = ((weight @ covariance) * weight).sum(1).clamp(min=0)
            self.update(mean, variance, count)
        scale, shift = self.scale_and_shift(mean, variance)
        return weight * scale.unsqueeze(1), shift


class Unnormalized(nn.Module):
    """In place of FoldedBatchNorm where a model goes without BN: W as it is, and a bias."""

    def __init__(self, size: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, weight: Tensor, moments: Moments | None) -> tuple[Tensor, Tensor]:
        return weight, self.bias


class StepBatchNorm(nn.Module):
    """BN with statistics of each time step, over the utterances that reach it; one gamma for all steps, no beta."""

    means: Tensor
    variances: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((size,), STEP_GAMMA))
        self.register_buffer("means", torch.zeros(STEPS, size))
        self.register_buffer("variances", torch.ones(STEPS, size))

    def forward(self, x: Tensor, valid: Tensor, steps: Tensor) -> Tensor:
        """(B, H) at time steps (B,), of which those `valid` (B,) count -> (B, H); in training all steps are equal."""
        steps = steps.clamp(max=STEPS - 1)
        if not self.training:
            return self.gamma * (x - self.means[steps]) * torch.rsqrt(self.variances[steps] + EPSILON)
        weight = valid.to(x.dtype).unsqueeze(1)
        count = weight.sum().clamp(min=1)
        mean = (x * weight).sum(0) / count
        variance = ((x - mean).square() * weight).sum(0) / count
        with torch.no_grad():
            step = int(steps[0])
            self.means[step].lerp_(mean, MOMENTUM)
            self.variances[step].lerp_(variance * count / (count - 1).clamp(min=1), MOMENTUM)
        return self.gamma * (x - mean) * torch.rsqrt(variance + EPSILON)


def input_moments(x: Tensor, valid: Tensor) -> Moments:
    """(B, T, D), (B, T) boolean -> mean (D,), covariance (D, D), count () over all valid frames of the minibatch."""
    weight = valid.unsqueeze(2).to(x.dtype)
    count = valid.sum()
    mean = (x * weight).sum((0, 1)) / count
    centred = ((x - mean) * weight).flatten(0, 1)
    return mean, centred.T @ centred / count, count
