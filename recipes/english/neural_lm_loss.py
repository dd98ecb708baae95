"""Cross-entropy of a wide output layer, whose scores are never held all at once.

The scores of 8,192 pieces take 134 MB: reading them again for the maximum, the sum and the gradient costs more than the
products that give them. Here a block of rows stays in the cache until its share of all gradients is computed.
"""

from typing import Any

import torch
from torch import Tensor

from ds2.utils.processor import has_bfloat16

BLOCK = 512  # rows whose scores are held
NO_PIECE = -1  # wanted of a row that does not count


def cross_entropy(hidden: Tensor, matrix: Tensor, bias: Tensor, wanted: Tensor) -> Tensor:
    """(N, P) hidden @ (P, V) matrix.T + (V,) bias are the scores of (N,) wanted outputs -> their mean loss, in nats."""
    counts = wanted != NO_PIECE
    return _CrossEntropy.apply(hidden[counts], matrix, bias, wanted[counts])  # type: ignore[no-any-return, no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, matrix: Tensor, bias: Tensor, wanted: Tensor) -> Tensor:
        kind = torch.bfloat16 if has_bfloat16() else torch.float32
        rows, weight, offset, total = hidden.to(kind), matrix.to(kind), bias.to(kind), hidden.new_zeros(())
        of_rows, of_matrix, of_bias = torch.empty_like(rows), torch.zeros_like(matrix), torch.zeros_like(bias)
        columns = weight.t().contiguous()
        for block, own, of_block in zip(rows.split(BLOCK), wanted.split(BLOCK), of_rows.split(BLOCK), strict=True):
            scores, own = torch.addmm(offset, block, columns).float(), own[:, None]
            scores -= scores.amax(1, keepdim=True)
            chosen = scores.gather(1, own)
            sums = scores.exp_().sum(1, keepdim=True)
            total += (sums.log() - chosen).sum()
            # The gradient of the scores: the probabilities, less 1 at the wanted output.
            scores /= sums
            scores.scatter_add_(1, own, -torch.ones_like(chosen))
            gradient = scores.to(kind)
            torch.mm(gradient, weight, out=of_block)
            of_matrix += torch.mm(gradient.t(), block)
            of_bias += scores.sum(0)
        ctx.save_for_backward(of_rows, of_matrix, of_bias)
        return total / len(wanted)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, matrix, bias = ctx.saved_tensors
        scale = gradient / len(rows)
        return rows.float() * scale, matrix * scale, bias * scale, None
