"""Scores of biphones: how much less probable a phone is after one phone than after another.

A phone sounds different after each phone, so a score of its own for each pair tells more than the phone's alone. A
pair's score is added to the phone's log-probability; it is 0 after the phone that suits best, below 0 after the others:

    score(b after a) = log p(b) + z[a, b] - max over a' of z[a', b]

z begins with zeros. `ds2/ctc/crf.py` trains the scores, `ds2/decoder/search.py` adds them up; all else may take the
phones alone. The first phone follows the space between words, and so does that of an utterance.
"""

import math

from torch import Tensor, nn

from ds2.model.initial_weights import draw_normal


class Biphones(nn.Module):
    """Scores of every phone, and of the space, after every other one."""

    def __init__(self, width: int, units: int, phones: int):
        """`units` below the scores; `phones`: outputs for phones, the blank among them."""
        super().__init__()
        self.labels = phones - 1
        self.narrow = nn.Linear(width, units, bias=False)
        self.output = nn.Linear(units, self.labels**2)
        draw_normal(self.narrow.weight, 1 / math.sqrt(width))
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, H) -> (B, T, P - 1, P - 1) nats, at most 0: [a, b] of label b + 1 after label a + 1."""
        scores = self.output(self.narrow(x)).unflatten(2, (self.labels, self.labels)).float()
        return scores - scores.amax(2, keepdim=True)
