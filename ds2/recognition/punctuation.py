"""Punctuation and capitals for recognised words: a small network tags each word from the words around it.

words    it   was   late   said   john   where   is   he
tags     C    -     ,      -      C .    C       -    ?        C: capital; the mark follows the word
display  It   was   late,  said   John.  Where   is   he?
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ds2.bundle import Bundle
from ds2.utils.errors import InputError

MARKS = ("", ",", ".", "?")
STOPS = (2, 3)  # the marks that end a sentence
ENDINGS = 2000  # numbers for words beyond the list, by the hash of their last letters
ENDING_LETTERS = 3
KERNEL = 5  # words that a layer looks at


@dataclass(frozen=True)
class TaggerConfig:
    """The sizes of a tagger."""

    words: int  # in the list
    width: int = 64  # of the embedding
    channels: int = 128
    layers: int = 3


class Tagger(torch.nn.Module):
    """Embedded words, then convolutions over them, each added to its input."""

    def __init__(self, config: TaggerConfig):
        super().__init__()
        weight = torch.empty(config.words + ENDINGS, config.width)
        if not weight.is_meta:  # there the layer's own drawing would import torch's compiler, a second of start-up
            weight.normal_()
        self.embedding = torch.nn.Embedding.from_pretrained(weight, freeze=False)
        self.first = torch.nn.Conv1d(config.width, config.channels, KERNEL, padding="same")
        self.layers = torch.nn.ModuleList(
            torch.nn.Conv1d(config.channels, config.channels, KERNEL, padding="same") for _ in range(config.layers - 1)
        )
        self.dropout = torch.nn.Dropout(0.1)
        self.output = torch.nn.Linear(config.channels, len(MARKS) + 1)

    def forward(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) numbers of words -> (B, N, MARKS) scores of the mark after each, (B, N) log-odds of a capital."""
        hidden = self.first(self.dropout(self.embedding(words)).transpose(1, 2)).relu()
        for layer in self.layers:
            hidden = hidden + layer(self.dropout(hidden)).relu()
        scores = self.output(hidden.transpose(1, 2))
        return scores[..., : len(MARKS)], scores[..., len(MARKS)]


class Punctuator:
    """Words in, display forms out."""

    def __init__(self, words: Sequence[str], tagger: Tagger):
        """`words`: the list, in the order of their numbers."""
        self.index = {word: number for number, word in enumerate(words)}
        self.tagger = tagger.eval()

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> "Punctuator | None":
        """The punctuator of a bundle, if it has one.

        Raises:
            InputError: it is damaged.
        """
        if not bundle.punctuation:
            return None
        damaged = InputError("the bundle's punctuation is damaged; add it again")
        words = bundle.metadata.get("punctuation", {}).get("words")
        tensors = {name: torch.as_tensor(values).float() for name, values in bundle.punctuation.items()}
        try:
            layers = 1 + len({name.split(".")[1] for name in tensors if name.startswith("layers.")})
            channels, width, _ = tensors["first.weight"].shape
            with torch.device("meta"):
                tagger = Tagger(TaggerConfig(len(words), width, channels, layers))
            tagger.load_state_dict(tensors, assign=True)
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise damaged from error
        if not all(isinstance(word, str) for word in words):
            raise damaged
        return cls(words, tagger)

    def added_to(self, bundle: Bundle, about: dict[str, Any]) -> Bundle:
        """The bundle with this punctuator in float16; `about`: facts for its metadata, such as F1."""
        tensors = {name: tensor.half() for name, tensor in self.tagger.state_dict().items()}
        metadata = {**bundle.metadata, "punctuation": {**about, "words": list(self.index)}}
        return Bundle(bundle.weights, metadata, bundle.language_model, tensors)

    def number(self, word: str) -> int:
        """The number of a word; words beyond the list share those of their endings."""
        known = self.index.get(word)
        ending = word[-ENDING_LETTERS:].encode()
        return known if known is not None else len(self.index) + zlib.crc32(ending) % ENDINGS

    @torch.inference_mode()
    def tags(self, words: Sequence[str]) -> list[tuple[int, bool]]:
        """The mark after each word, and whether it has a capital; a sentence ends at the last one."""
        if not words:
            return []
        marks, capitals = self.tagger(torch.tensor([[self.number(word) for word in words]]))
        marks[0, -1, : STOPS[0]] = -math.inf
        return list(zip(marks[0].argmax(1).tolist(), (capitals[0] > 0).tolist(), strict=True))

    def __call__(self, words: Sequence[str]) -> list[str]:
        """The display form of each word: with a capital where one is due, and with the mark after it."""
        shown, begins = [], True
        for word, (mark, capital) in zip(words, self.tags(words), strict=True):
            shown.append((word[:1].upper() + word[1:] if capital or begins else word) + MARKS[mark])
            begins = mark in STOPS
        return shown
