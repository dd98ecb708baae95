"""Adds a recurrent cell: the minimal gated unit (Zhou et al. 2016), whose only gate forgets and resets.

    f = sigmoid(BN(W x_t) + U h_{t-1} + c);  n = tanh(BN(W_n x_t) + f * (U_n h_{t-1} + c_n))
    h_t = (1 - f) * n + f * h_{t-1}

Within ds2 the two rows would stand in `ds2/model/cells.py` and `ds2/model/cell_kernels.py`, and the name in `Cell`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ds2.ctc import CTCLoss
from ds2.model.acoustic import AcousticModel
from ds2.model.cell_kernels import KERNELS, CellKernels
from ds2.model.cells import CELLS, CellSpec
from ds2.model.config import ConvolutionConfig, FrontendConfig, ModelConfig


def step(term: Tensor, recurrent: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """(B, 2H) BN(W x_t), (B, 2H) U h_{t-1} + c, (B, H) h_{t-1} -> (B, H) h_t: a frame of a live stream."""
    size = h.shape[1]
    f = (term[:, :size] + recurrent[:, :size]).sigmoid()
    n = torch.tanh(term[:, size:] + f * recurrent[:, size:])
    return (torch.lerp(n, h, f),)


def all_frames(x: Tensor, start: Tensor, parameters: tuple[Tensor, ...], *_: Any) -> tuple[Tensor, None]:
    """(B, T, D), (1, B, H) h_0, W, U and their biases -> (B, T, H), as torch.gru is called."""
    weight, recurrent_weight, bias, recurrent_bias = parameters
    h, states = start[0], []
    for term in linear(x, weight, bias).unbind(1):
        (h,) = step(term, linear(h, recurrent_weight, recurrent_bias), h)
        states.append(h)
    return torch.stack(states, dim=1), None


CELLS["mgu"] = CellSpec(("f", "n"))  # type: ignore[index]  # no operator of ONNX, no branch of our kernels
KERNELS["mgu"] = CellKernels(all_frames, step)  # type: ignore[index]


def main() -> None:
    torch.manual_seed(0)
    config = ModelConfig(
        FrontendConfig(8000),
        (ConvolutionConfig(8, (11, 5), (4, 2)),),
        cell="mgu",  # type: ignore[arg-type]
        recurrent_layers=1,
        hidden=32,
        bidirectional=False,
    )
    model, ctc = AcousticModel(config, outputs=5), CTCLoss()
    samples, lengths = torch.randn(4, 4000), torch.full((4,), 4000)
    targets, target_lengths = torch.randint(1, 5, (4, 3)), torch.full((4,), 3)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for number in range(1, 11):
        log_probs, frames = model(samples, lengths)
        loss = ctc(log_probs, targets, frames, target_lengths)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number in (1, 10):
            print(f"update {number}: loss {loss.item():.1f}")


if __name__ == "__main__":
    main()
