"""The network of the punctuation in torch, for its training; `ds2.recognition.punctuation` computes it without."""

import torch
from torch import Tensor

from ds2.recognition.punctuation import DILATIONS, ENDINGS, MARKS

WIDTH, CHANNELS, HIDDEN = 64, 192, 128  # of the embedding, the convolutions, the LSTM in each direction


class Tagger(torch.nn.Module):
    """Embedded words, convolutions over them, each but the first added to its input, and an LSTM in both directions."""

    def __init__(self, words: int):
        super().__init__()
        self.embedding = torch.nn.Embedding(words + ENDINGS, WIDTH)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)  # rare words move little from where they begin
        self.convolutions = torch.nn.ModuleList(
            torch.nn.Conv1d(CHANNELS if number else WIDTH, CHANNELS, 3, padding=dilation, dilation=dilation)
            for number, dilation in enumerate(DILATIONS)
        )
        self.lstm = torch.nn.LSTM(CHANNELS, HIDDEN, bidirectional=True, batch_first=True)
        self.dropout = torch.nn.Dropout(0.1)
        self.output = torch.nn.Linear(CHANNELS + 2 * HIDDEN, len(MARKS) + 1)

    def forward(self, words: Tensor) -> Tensor:
        """(B, N) numbers of words -> (B, N, MARKS + 1) scores of the mark after each, log-odds of a capital."""
        first, *others = self.convolutions
        hidden = first(self.dropout(self.embedding(words)).transpose(1, 2)).relu()
        for convolution in others:
            hidden = hidden + convolution(hidden).relu()
        hidden = self.dropout(hidden.transpose(1, 2))
        scores: Tensor = self.output(torch.cat([hidden, self.dropout(self.lstm(hidden)[0])], 2))
        return scores
