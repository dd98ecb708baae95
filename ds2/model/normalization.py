"""Batch normalisation: sequence-wise, over utterances AND frames (Deep Speech 2, section 3.2); and per time step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ds2.model.config import CLIP, EPSILON

Total = Callable[[Tensor], Tensor]  # the sum of a tensor over the processes that share a minibatch; differentiable
Moments = tuple[Tensor, Tensor, Tensor]  # of a layer's input: mean (D,), covariance (D, D), count ()

MOMENTUM = 0.1  # weight of the newest minibatch in the running statistics
STEPS = 200  # time steps with separate statistics in a BN-LSTM that no training has measured (`keep_steps`)
STEP_GAMMA = 0.1  # 1 saturates tanh and kills the gradient (Cooijmans et al. 2016, section 4)


@torch.no_grad()
def move(running_mean: Tensor, running_variance: Tensor, mean: Tensor, variance: Tensor, count: Tensor) -> None:
    """Moves running averages (..., H) towards a minibatch's; its (...) `count` of samples makes the variance unbiased.

    Skips a minibatch without samples, and one with a value that is not finite, which the averages would never lose.
    """
    count = count.unsqueeze(-1)
    unbiased = variance * count / (count - 1).clamp(min=1)
    good = (count > 0) & (mean.isfinite() & unbiased.isfinite()).all(-1, keepdim=True)
    running_mean.lerp_(torch.where(good, mean, running_mean), MOMENTUM)
    running_variance.lerp_(torch.where(good, unbiased, running_variance), MOMENTUM)


class MinibatchStatistics(nn.Module):
    """A layer with statistics of the minibatch: of this process's part, or of the whole where `total` is set."""

    total: Total | None = None


class RunningStatistics(MinibatchStatistics):
    """Mean and variance for deployment: running averages of the minibatches' over training; gamma and beta beside."""

    mean: Tensor
    variance: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(size))
        self.beta = nn.Parameter(torch.zeros(size))
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("variance", torch.ones(size))

    def update(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Moves the averages by those of a minibatch, (C,) each, over a scalar `count` of samples."""
        move(self.mean, self.variance, mean, variance, count)

    def scale_and_shift(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """(a, b) such that gamma * (z - mean) / sqrt(variance + epsilon) + beta = a * z + b."""
        scale = self.gamma * torch.rsqrt(variance + EPSILON)
        return scale, self.beta - scale * mean


class ChannelBatchNorm(RunningStatistics):
    """BN and clipped ReLU of convolution outputs: statistics of each channel over utterances, bins and valid frames."""

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        """(B, C, F, T), in training 0 beyond each utterance, (B, T) boolean -> (B, C, F, T), 0 there as well."""
        x = x.to(self.gamma.dtype)  # statistics in full precision under autocast
        mask = valid[:, None, None, :].to(x.dtype)
        if not self.training:
            scale, shift = self.scale_and_shift(self.mean, self.variance)
            return torch.addcmul(shift[:, None, None], x, scale[:, None, None]).clamp(0.0, CLIP) * mask
        own = count = (valid.sum() * x.shape[2]).to(self.gamma.dtype)
        if self.total is not None:
            count = self.total(own)
        result, mean, variance = _MaskedNorm.apply(x, mask, own, count, self.gamma, self.beta, self.total)
        self.update(mean, variance, count)
        return result


class _MaskedNorm(torch.autograd.Function):
    """clamp(gamma (x - mean) / deviation + beta, 0, CLIP) of valid frames, in as few passes over memory as possible.

    Convolution outputs are by far the largest tensors of the network: each pass over them costs as much as a layer.
    """

    @staticmethod
    def forward(
        x: Tensor, mask: Tensor, own: Tensor, count: Tensor, gamma: Tensor, beta: Tensor, total: Total | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, C, F, T) masked, (B, 1, 1, T) of 0 and 1, () samples of a channel here and in all -> result, moments."""
        variance, mean = _channel_moments(x)  # zeros included; corrected below
        ratio = x.numel() / x.shape[1] / own.clamp(min=1)
        variance = (ratio * (variance - mean.square() * (ratio - 1))).clamp(min=0)
        mean = ratio * mean
        if total is not None:  # in double precision, for the squares cancel
            squares = variance.double() + mean.double().square()
            joint = total(torch.stack([mean.double(), squares]) * own) / count.clamp(min=1)
            variance = (joint[1] - joint[0].square()).clamp(min=0).to(x.dtype)
            mean = joint[0].to(x.dtype)
        scale = gamma * torch.rsqrt(variance + EPSILON)
        shift = beta - scale * mean
        result = torch.addcmul(shift[:, None, None], x, scale[:, None, None]).clamp_(0.0, CLIP).mul_(mask)
        return result, mean, variance

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        x, _, _, count, gamma, _, ctx.total = inputs
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
        grad_gamma = inverse * (_channel_products(grad, x) - mean * grad_beta)
        sums = torch.stack([grad_gamma, grad_beta])
        sum_gamma, sum_beta = sums if ctx.total is None else ctx.total(sums)
        scale, count = gamma * inverse, count.clamp(min=1)
        slope = -scale * inverse * sum_gamma / count
        offset = -scale * sum_beta / count - slope * mean
        grad_x = torch.addcmul(offset[:, None, None], x, slope[:, None, None])
        return grad_x.addcmul_(grad, scale[:, None, None]), None, None, None, grad_gamma, grad_beta, None


def _channel_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """(B, C, F, T) -> variance and mean (C,). torch's kernel for both takes ten times as long on a CPU."""
    if x.device.type != "cpu":
        return torch.var_mean(x, dim=(0, 2, 3), correction=0)
    mean = x.mean((0, 2, 3))
    return (x - mean[:, None, None]).square_().mean((0, 2, 3)), mean


def _channel_products(a: Tensor, b: Tensor) -> Tensor:
    """(B, C, F, T), (B, C, F, T) -> (C,) sums of their products. A GPU would first copy layers over one bin, to make
    hundreds of thousands of tiny matrix products of them."""
    if a.device.type != "cpu":
        return (a * b).sum((0, 2, 3))
    rows = (a.shape[0] * a.shape[1], -1)
    return torch.bmm(a.reshape(rows).unsqueeze(1), b.reshape(rows).unsqueeze(1).mT).view(a.shape[:2]).sum(0)


class FoldedBatchNorm(RunningStatistics):
    """BN of a linear term, BN(W x), folded into the weights: BN(W x) = W' x + b'.

    The mean of W x is W mean(x) and its variance is diag(W cov(x) W^T), so that neither W x nor its normalised form
    is ever stored, and W', b' go straight into torch's fused recurrent kernels. This is the same function as
    normalising W x, with the same gradients; it costs one D x D covariance per layer, shared by both directions.
    """

    def forward(self, weight: Tensor, moments: Moments | None) -> tuple[Tensor, Tensor]:
        """(H, D) weight, `input_moments` of x -> (H, D) W', (H,) b'; by running statistics if deployed or frozen."""
        mean, variance = self.mean, self.variance
        if self.training and moments is not None:  # a frozen direction may share a layer with one that learns
            input_mean, covariance, count = moments
            with torch.autocast(weight.device.type, enabled=False):
                mean = weight @ input_mean
                variance = ((weight @ covariance) * weight).sum(1).clamp(min=0)
            self.update(mean, variance, count)
        scale, shift = self.scale_and_shift(mean, variance)
        return weight * scale.unsqueeze(1), shift


class Unnormalized(nn.Module):
    """Replaces FoldedBatchNorm in a model without BN: the weight unchanged, and a bias."""

    def __init__(self, size: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, weight: Tensor, moments: Moments | None) -> tuple[Tensor, Tensor]:
        """(H, D) weight -> the same, (H,) bias."""
        return weight, self.bias


class StepBatchNorm(nn.Module):
    """BN with statistics of each time step, over the utterances that reach it; one gamma for all steps, no beta.

    Steps beyond `last` take its statistics, so that sequences may be longer than in training (Cooijmans et al. 2016,
    section 3). There are as many steps as `keep_steps` or the weights that are loaded say.
    """

    means: Tensor
    variances: Tensor

    def __init__(self, size: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((size,), STEP_GAMMA))
        self.register_buffer("means", torch.zeros(STEPS, size))
        self.register_buffer("variances", torch.ones(STEPS, size))

    def reset(self, steps: int) -> None:
        """Statistics of so many steps, as they are at first."""
        self.means = torch.zeros_like(self.means[:1]).repeat(steps, 1)
        self.variances = torch.ones_like(self.means)

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *arguments: Any) -> None:
        """Takes as many steps as the weights have."""
        means = state_dict.get(prefix + "means")
        if means is not None and len(means) and means.shape[1:] == self.means.shape[1:]:
            self.reset(len(means))
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def forward(self, x: Tensor, valid: Tensor, steps: Tensor) -> Tensor:
        """(B, H) at time steps (B,), of which those `valid` (B,) count -> (B, H); in training all steps are equal."""
        steps = steps.clamp(max=len(self.means) - 1)
        if not self.training:
            return self.gamma * (x - self.means[steps]) * torch.rsqrt(self.variances[steps] + EPSILON)
        weight = valid.to(x.dtype).unsqueeze(1)
        count = weight.sum()
        mean = (x * weight).sum(0) / count.clamp(min=1)
        variance = ((x - mean).square() * weight).sum(0) / count.clamp(min=1)
        step = int(steps[0])
        move(self.means[step], self.variances[step], mean, variance, count)
        return self.gamma * (x - mean) * torch.rsqrt(variance + EPSILON)

    @property
    def last(self) -> Tensor:
        """(): the last step that training has reached; the statistics of later ones are as they were at first."""
        reached = ((self.means != 0) | (self.variances != 1)).any(1)
        return (reached * torch.arange(len(reached), device=reached.device)).amax()

    def update(self, means: Tensor, variances: Tensor, counts: Tensor) -> None:
        """Moves the running statistics by a minibatch's, (T, H), (T, H), of (T,) utterances at each step."""
        own = min(len(means), len(self.means))
        move(self.means[:own], self.variances[:own], means[:own], variances[:own], counts[:own])
        for step in range(own, len(means)):  # later steps share the last statistics, one after the other
            move(self.means[-1], self.variances[-1], means[step], variances[step], counts[step])


class SequenceBatchNorm(StepBatchNorm):
    """BN over utterances and frames, in the form of StepBatchNorm: its statistics are those of every time step.

    In training whole sequences are normalised at once (Cooijmans et al. 2016, section 5.4: BN-e*).
    """

    def over_sequences(self, x: Tensor, valid: Tensor) -> Tensor:
        """(..., H) of a minibatch, of which those `valid` (...) count -> (..., H)."""
        weight = valid.to(x.dtype).unsqueeze(-1)
        count = weight.sum()
        dims = tuple(range(x.ndim - 1))
        mean = (x * weight).sum(dims) / count.clamp(min=1)
        variance = ((x - mean).square() * weight).sum(dims) / count.clamp(min=1)
        move(self.means, self.variances, mean.detach(), variance.detach(), count)
        return self.gamma * (x - mean) * torch.rsqrt(variance + EPSILON)


def keep_steps(model: nn.Module, longest: int) -> None:
    """Separate statistics for each step of the longest sequence of training, T_max of Cooijmans et al. 2016."""
    for norm in model.modules():
        if isinstance(norm, StepBatchNorm):
            norm.reset(max(1, longest))


def input_moments(x: Tensor, valid: Tensor, total: Total | None = None) -> Moments:
    """(B, T, D), (B, T) boolean -> mean (D,), covariance (D, D), count () over all valid frames of the minibatch."""
    with torch.autocast(x.device.type, enabled=False):  # statistics in full precision
        x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        weight = valid.unsqueeze(2).to(x.dtype)
        sums, count = (x * weight).sum((0, 1)), valid.sum()
        if total is not None:
            joint = total(torch.cat([sums, count.to(sums).unsqueeze(0)]))
            sums, count = joint[:-1], joint[-1].detach()
        mean = sums / count.clamp(min=1)
        gram = _Gram.apply(((x - mean) * weight).flatten(0, 1))
        return mean, (gram if total is None else total(gram)) / count.clamp(min=1), count


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
