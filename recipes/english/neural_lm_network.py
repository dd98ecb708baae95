"""The network of the neural language model in torch, for its training; `ds2.lm.neural` computes it without."""

import numpy as np
import torch
from torch import Tensor, nn

from ds2.utils.int8_linear import Int8Weight

WIDTH, CELLS = 256, 1024
DROPOUT = 0.1
SPREAD = WIDTH**0.5  # brings embeddings, which also score the pieces, to a variance of 1


class Network(nn.Module):
    """Embedded pieces -> an LSTM with a projection -> its output, normalised, against all embeddings."""

    def __init__(self, pieces: int):
        super().__init__()
        self.embedding = nn.Embedding(pieces, WIDTH)
        nn.init.normal_(self.embedding.weight, std=1 / SPREAD)
        self.lstm = nn.LSTM(WIDTH, CELLS, proj_size=WIDTH)
        for name, bias in self.lstm.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(bias)
        nn.init.ones_(self.lstm.bias_ih_l0[CELLS : 2 * CELLS])  # of the gates that keep what a cell holds
        self.norm = nn.LayerNorm(WIDTH)
        self.bias = nn.Parameter(torch.zeros(pieces))
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, pieces: Tensor) -> Tensor:
        """(T, B) pieces -> (T, B, V) scores of the next one."""
        hidden, _ = self.lstm(self.drop(self.embedding(pieces) * SPREAD))
        hidden = self.drop(self.norm(hidden.float()))
        return nn.functional.linear(hidden, self.embedding.weight, self.bias)

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights as `ds2.lm.neural` has them."""
        lstm = self.lstm
        matrices = {
            "embedding": self.embedding.weight, "input": lstm.weight_ih_l0, "recurrent": lstm.weight_hh_l0,
            "projection": lstm.weight_hr_l0,
        }  # fmt: skip
        vectors = {
            "gate_bias": lstm.bias_ih_l0 + lstm.bias_hh_l0, "norm_scale": self.norm.weight, "norm_bias": self.norm.bias,
            "output_bias": self.bias,
        }  # fmt: skip
        found = {name: values.detach().numpy() for name, values in vectors.items()}
        for name, matrix in matrices.items():
            levels, found[f"{name}_scales"] = Int8Weight.of(matrix.detach().numpy())
            found[name] = levels[:, : matrix.shape[1]]
        return found
