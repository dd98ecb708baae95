"""Batch normalisation: sequence-wise, over utterances AND frames (Deep Speech 2, section 3.2); and per time step."""

from typing import Any

import torch
from torch import Tensor, nn

Moments = tuple[Tensor, Tensor, Tensor]  # of a layer's input: mean (D,), covariance (D, D), count ()

CLIP = 20.0  # clipped ReLU: min(max(x, 0), 20)
EPSILON = 1e-5
MOMENTUM = 0.1  # share of the newest minibatch in the running statistics
STEPS = 200  # time steps that have statistics of their own in a BN-LSTM; later ones use those of the last
STEP_GAMMA = 0.1  # 1 saturates tanh and kills the gradient (Cooijmans et al. 2016, section 4)


def clipped_relu(x: Tensor) -> Tensor:
    return nn.functional.hardtanh(x, 0.0, CLIP)


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
    """BN and clipped ReLU of convolution outputs: statistics of each channel over utterances, bins and valid frames."""

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """(B, C, F, T), in training 0 behind each utterance, (B, T) boolean -> (B, C, F, T), 0 there as well."""
        x = x.to(self.gamma.dtype)  # statistics in full precision under autocast
        mask = valid[:, None, None, :].to(x.dtype)
        if not self.training:
            scale, shift = self.scale_and_shift(self.mean, self.variance)
            return torch.addcmul(shift[:, None, None], x, scale[:, None, None]).clamp(0.0, CLIP) * mask
        count = (valid.sum() * x.shape[2]).to(self.gamma.dtype)
        result, mean, variance = _MaskedNorm.apply(x, mask, count, self.gamma, self.beta)
        self.update(mean, variance, count)
        return result


class _MaskedNorm(torch.autograd.Function):
    """clamp(gamma (x - mean) / deviation + beta, 0, CLIP) of valid frames, in as few passes over memory as can be.

    Convolution outputs are by far the largest tensors of the network: each pass over them costs as much as a layer.
    """

    @staticmethod
    def forward(x: Tensor, mask: Tensor, count: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, C, F, T) masked, (B, 1, 1, T) of 0 and 1, () how many of a channel count -> result, (C,) statistics."""
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)  # zeros included: taken out again
        ratio = x.numel() / x.shape[1] / count.clamp(min=1)
        variance = (ratio * (variance - mean.square() * (ratio - 1))).clamp(min=0)
        mean = ratio * mean
        scale = gamma * torch.rsqrt(variance + EPSILON)
        shift = beta - scale * mean
        result = torch.addcmul(shift[:, None, None], x, scale[:, None, None]).clamp_(0.0, CLIP).mul_(mask)
        return result, mean, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        x, _, count, gamma, _ = inputs
        result, mean, variance = output
        ctx.mark_non_differentiable(mean, variance)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, count, gamma, result, mean, variance)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        x, count, gamma, result, mean, variance = ctx.saved_tensors
        grad = torch.ops.aten.hardtanh_backward(grad, result, 0.0, CLIP)  # 0 in padding, where the result is
        inverse = torch.rsqrt(variance + EPSILON)
        grad_beta = grad.sum((0, 2, 3))
        rows = (x.shape[0] * x.shape[1], -1)
        products = torch.bmm(grad.reshape(rows).unsqueeze(1), x.reshape(rows).unsqueeze(2))
        grad_gamma = inverse * (products.view(x.shape[:2]).sum(0) - mean * grad_beta)
        scale = gamma * inverse
        slope = -scale * inverse * grad_gamma / count
        offset = -scale * grad_beta / count - slope * mean
        grad_x = torch.addcmul(offset[:, None, None], x, slope[:, None, None])
        return grad_x.addcmul_(grad, scale[:, None, None]), None, None, grad_gamma, grad_beta


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
    return mean, _Gram.apply(centred) / count, count


class _Gram(torch.autograd.Function):
    """(N, D) -> (D, D) X^T X, with one product in the backward pass, not two: dX = X (G + G^T)."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.T @ x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return torch.as_tensor(x @ (grad + grad.T))
