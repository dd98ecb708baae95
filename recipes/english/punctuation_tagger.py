"""The network of the punctuation in torch, for its training; `ds2.recognition.punctuation` computes it without."""

import torch
from torch import Tensor

from ds2.recognition.punctuation import DILATIONS, ENDINGS, MARKS

WIDTH, CHANNELS, HIDDEN = 96, 224, 192  # of the embedding, the convolutions, the LSTM in each direction
DROPOUT = 0.1


class Tagger(torch.nn.Module):
    """Embedded words, convolutions over them, each but the first added to its input, and an LSTM in both directions."""

    def __init__(self, words: int):
        super().__init__()
        self.embedding = torch.nn.Embedding(words + ENDINGS, WIDTH)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)  # rare words move little from where they begin
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Linear(3 * (CHANNELS if number else WIDTH), CHANNELS) for number in range(len(DILATIONS))
        )
        self.lstm = torch.nn.LSTM(CHANNELS, HIDDEN, bidirectional=True, batch_first=True)
        self.output = torch.nn.Linear(CHANNELS + 2 * HIDDEN, len(MARKS) + 1)

    def forward(self, words: Tensor) -> Tensor:
        """(B, N) numbers of words -> (B, N, MARKS + 1) scores of the mark after each, log-odds of a capital."""
        hidden = self._drop(self.embedding(words))
        for number, (dilation, convolution) in enumerate(zip(DILATIONS, self.convolutions, strict=True)):
            found = convolution(taps(hidden, dilation)).relu()
            hidden = hidden + found if number else found
        hidden = self._drop(hidden)
        scores: Tensor = self.output(torch.cat([hidden, self._drop(self.lstm(hidden)[0])], 2))
        return scores

    def _drop(self, hidden: Tensor) -> Tensor:
        """(B, N, C): drops the same channels of all words, as is usual between recurrent layers, and cheap."""
        if not self.training:
            return hidden
        return hidden * torch.nn.functional.dropout(hidden.new_ones(len(hidden), 1, hidden.shape[2]), DROPOUT)


def taps(hidden: Tensor, dilation: int) -> Tensor:
    """(B, N, C) -> (B, N, 3 * C): each word beside those `dilation` before and after it; zeros beyond the ends."""
    count = hidden.shape[1]
    padded = torch.nn.functional.pad(hidden, (0, 0, dilation, dilation))
    return torch.cat([padded[:, tap * dilation : tap * dilation + count] for tap in range(3)], 2)
