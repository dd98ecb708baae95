"""The network of the neural language model in torch, for its training; `ds2.lm.neural` computes it without."""

from collections.abc import Mapping

import numpy as np
import torch
from neural_lm_loss import cross_entropy
from neural_lm_lstm import ProjectedLSTM
from torch import Tensor, nn

from ds2.utils.int8_linear import Int8Weight
from ds2.utils.processor import has_bfloat16

WIDTH, CELLS = 256, 1024
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

    def forward(self, pieces: Tensor) -> Tensor:
        """(T, B) pieces -> (T, B, P) outputs, which score the next ones."""
        embedded = self.embedding(pieces) * SPREAD
        if torch.is_autocast_enabled("cpu"):
            lstm = self.lstm
            terms = nn.functional.linear(embedded, lstm.weight_ih_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0)
            hidden = ProjectedLSTM.apply(terms, lstm.weight_hh_l0, lstm.weight_hr_l0)
        else:
            hidden, _ = self.lstm(embedded)
        return self.norm(hidden.float())

    def losses(self, before: Tensor, wanted: Tensor) -> Tensor:
        """(T, B) pieces before, and the (T, B) that follow -> their mean cross-entropy in nats."""
        with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16()):
            hidden = self(before)
        return cross_entropy(hidden.flatten(0, 1), self.embedding.weight, self.bias, wanted.flatten())

    def take(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Takes the weights of `arrays`, to train on from there."""
        with torch.no_grad():
            for name, matrix in self._matrices().items():
                matrix.copy_(torch.from_numpy(arrays[name] * arrays[f"{name}_scales"][:, None]))
            for name, vector in self._vectors().items():
                vector.copy_(torch.from_numpy(arrays[name]))
            self.lstm.bias_hh_l0.zero_()  # the other bias of the gates holds the sum

    def arrays(self) -> dict[str, np.ndarray]:
        """The weights as `ds2.lm.neural` has them."""
        found = {name: vector.detach().numpy() for name, vector in self._vectors().items()}
        found["gate_bias"] = found["gate_bias"] + self.lstm.bias_hh_l0.detach().numpy()
        for name, matrix in self._matrices().items():
            levels, found[f"{name}_scales"] = Int8Weight.of(matrix.detach().numpy())
            found[name] = levels[:, : matrix.shape[1]]
        return found

    def _matrices(self) -> dict[str, Tensor]:
        return {
            "embedding": self.embedding.weight, "input": self.lstm.weight_ih_l0, "recurrent": self.lstm.weight_hh_l0,
            "projection": self.lstm.weight_hr_l0,
        }  # fmt: skip

    def _vectors(self) -> dict[str, Tensor]:
        return {
            "gate_bias": self.lstm.bias_ih_l0, "norm_scale": self.norm.weight, "norm_bias": self.norm.bias,
            "output_bias": self.bias,
        }  # fmt: skip
