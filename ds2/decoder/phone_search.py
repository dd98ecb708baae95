"""Search over phones: finds words by their pronunciations and distinguishes homophones.

The beam search distinguishes words by their tokens, which are the same for homophones. So every phone gets a few copies
with the same probability, and the copy that a word uses as its last phone says which of the homophones it is:

    to  T UW      two  T UW'      too  T UW''      tune  T UW N

Hypotheses come back as letters, on the frames of the word's phones: callers of the decoder never see a phone.
"""

import copy
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ds2.decoder.beam import PARALLEL_FRAMES, BeamDecoder, BeamStream
from ds2.decoder.config import BeamConfig
from ds2.decoder.hot_phrases import with_possessives, words_of
from ds2.decoder.hypothesis import Hypothesis, frame_counts
from ds2.decoder.lexicon import NO_WORD, Lexicon
from ds2.decoder.pronunciations import Phones, Pronunciations
from ds2.decoder.reads import Reading
from ds2.lm.ngram import NGram
from ds2.utils.devices import cpu_threads

if TYPE_CHECKING:
    from torch import Tensor

SPACE = 1  # the output between words
FIRST = 2  # the first output that is a phone
BLOCK = 5000  # frames that are searched at once
READ_MORE = 210  # hypotheses that are read beyond the n-best: many are one text in several pronunciations
COPIES = 6  # copies of each phone, itself included; rarer homophones beyond this number are not found
IDEOGRAPHS = 64  # the same in a script without spaces, whose words are characters: many sound alike


class PronouncingDecoder:
    """A `BeamDecoder` over phones that returns hypotheses in letters, offline or by begin / step / finish."""

    def __init__(
        self,
        config: BeamConfig,
        pronunciations: Pronunciations,
        lm: NGram,
        letters: Mapping[str, int],
        boosts: Mapping[str, float] | None = None,
        outputs: int | None = None,
    ):
        """Words without a pronunciation are not found.

        Args:
            pronunciations: the pronunciations of the words that can be found.
            letters: the token of each letter, and of the space where words have one between them; the phones' outputs
                follow those of these tokens.
            boosts: nats for hot words, and for each word of hot phrases.
            outputs: P of the model, whose scores of biphones follow them; by default as many as are pronounced.
        """
        phones = 1 + int(pronunciations.phones.max(initial=1))
        listed = pronunciations.words
        numbers = np.fromiter(map(lm.index.get, listed, itertools.repeat(0)), np.int32, len(listed))
        frequency = lm.single_log_probs[numbers]
        copies = COPIES if " " in letters else IDEOGRAPHS
        places, tokens, lengths = homophones_apart(pronunciations, frequency, phones, copies)
        self.words = list(map(listed.__getitem__, places.tolist()))
        self.texts = places.astype(np.int32)  # pronunciations of one word are one text
        self.spelt: dict[str, Spelling | None] = {}  # of phones that were found, see `_pieces`
        self.letters = letters
        # The column of a copy is that of its phone: [blank, space, phones, phones, ...]
        copied = np.array([0, SPACE] + copies * list(range(FIRST, phones)))
        if " " not in letters:  # few syllables have so many copies: only those are searched
            kept = np.union1d(np.arange(phones), tokens)
            copied, tokens = copied[kept], np.searchsorted(kept, tokens)
        self.columns, self.outputs = len(letters) + copied, outputs or phones
        lexicon = self._hot(Lexicon.from_arrays(tokens, lengths, SPACE), boosts or {})
        self.beam = BeamDecoder(config, lexicon, lm, numbers[places], np.maximum(copied - SPACE, 0))

    @property
    def config(self) -> BeamConfig:
        """The configuration of the search."""
        return self.beam.config

    def with_nbest(self, nbest: int) -> "PronouncingDecoder":
        """The same search, with at least so many hypotheses of each utterance."""
        other = copy.copy(self)
        other.beam = self.beam.with_nbest(nbest)
        return other

    def with_boosts(self, boosts: Mapping[str, float]) -> "PronouncingDecoder":
        """The same search with more hot words and phrases; words without a pronunciation are not found."""
        other, lexicon = copy.copy(self), self.beam.space.lexicon
        assert lexicon is not None
        other.beam = BeamDecoder(*self.beam.space._replace(lexicon=self._hot(lexicon, boosts)))
        return other

    def without_hot(self) -> "PronouncingDecoder":
        """The same search, in which no word is preferred or avoided."""
        other = copy.copy(self)
        other.beam = self.beam.without_hot()
        return other

    def _hot(self, lexicon: Lexicon, boosts: Mapping[str, float]) -> Lexicon:
        if not boosts:
            return lexicon
        boosts = with_possessives(boosts)
        numbers: dict[str, list[int]] = {word: [] for word in words_of({**lexicon.phrases, **boosts})}
        for number, word in enumerate(self.words):
            if word in numbers:
                numbers[word].append(number)
        return lexicon.with_hot(boosts, numbers)

    @property
    def lm(self) -> NGram | None:
        """The language model of the search."""
        return self.beam.lm

    def __call__(self, log_probs: "Tensor | np.ndarray", lengths: "Tensor | np.ndarray") -> list[list[Hypothesis]]:
        """(B, T, V + P) log-probabilities of letters and phones, (B,) frames -> n-best hypotheses of each utterance.

        Scores of biphones may follow them: (B, T, V + P + Q), as the model gives them (ds2/model/acoustic.py).
        """
        counts = frame_counts(log_probs, lengths)
        return self.search([row[:count] for row, count in zip(log_probs, counts, strict=True)])

    def search(self, log_probs: "Sequence[Tensor | np.ndarray]") -> list[list[Hypothesis]]:
        """Like `__call__`, for (T, V + P) or (T, V + P + Q) of each utterance, as many at once as there are threads."""
        threads = min(cpu_threads(), len(log_probs))
        if threads < 2 or sum(map(len, log_probs)) < PARALLEL_FRAMES:
            return list(map(self._found, log_probs, itertools.count()))
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self._found, log_probs, itertools.count()))

    def _found(self, rows: "Tensor | np.ndarray", number: int) -> list[Hypothesis]:
        """(T, V + P) or (T, V + P + Q) of an utterance and its number, for errors -> its n-best hypotheses.

        Block by block, because the copies of the phones would take 110 MB for an hour of sound.
        """
        stream = self.begin()
        for start in range(0, len(rows), BLOCK):
            self.step([stream], [rows[start : start + BLOCK]], number)
        return self.finish(stream)

    def begin(self) -> BeamStream:
        """Begins the search of a live stream."""
        return self.beam.begin()

    def step(self, streams: list[BeamStream], log_probs: "Sequence[Tensor | np.ndarray]", number: int = 0) -> None:
        """Like `BeamDecoder.step`, with (T, V + P) log-probabilities, or (T, V + P + Q) with scores of biphones."""
        first, labels = len(self.letters) + self.outputs, self.outputs - 1
        paired = [rows[:, first:].reshape(len(rows), labels, labels) for rows in log_probs if rows.shape[1] > first]
        self.beam.step(streams, [rows[:, self.columns] for rows in log_probs], paired or None, number)

    def finish(self, stream: BeamStream) -> list[Hypothesis]:
        """Like `BeamDecoder.finish`; of the pronunciations of a text only the best one is among the n-best."""
        lexicon = self.beam.space.lexicon
        assert lexicon is not None
        reading = Reading(self.config.nbest + READ_MORE, lexicon.trie, self.texts, SPACE)
        found = itertools.islice(self.beam.hypotheses(stream, reading), self.config.nbest)
        return [self._spelt(each, self._words(each.tokens)) for each in found] or [Hypothesis(score=-math.inf)]

    def partial(self, stream: BeamStream) -> Hypothesis:
        """The best hypothesis so far, up to its last complete word: one that may go on counts if no longer word is as
        frequent."""
        partial = self.beam.partial(stream)
        words = self._words(partial.tokens)
        if words and " " in self.letters and self._hopes_for_longer(partial.tokens[words[-1][0] :]):
            words.pop()
        return self._spelt(partial, words)

    def _hopes_for_longer(self, phones: Phones) -> bool:
        """Whether a longer word that begins with these phones is as frequent as the word that they are; never where
        they say that the word has ended."""
        tables, lexicon = self.beam.tables, self.beam.space.lexicon
        assert lexicon is not None
        if (node := lexicon.node(phones)) is None:
            return False
        first, past = tables.lexicon.first[node : node + 2]
        return bool(tables.ahead[tables.lexicon.children[first:past]].max(initial=-math.inf) >= tables.ahead[node])

    def stable(self, stream: BeamStream) -> int:
        """How many of the first letters of `partial` all hypotheses share: those of whole words."""
        partial = self.beam.partial(stream)
        certain = partial.tokens[: self.beam.stable(stream)]
        whole = len(certain) - certain[::-1].index(SPACE) if SPACE in certain else 0
        words = self._words(partial.tokens[:whole])
        spaces = max(0, len(words) - 1) if " " in self.letters else 0
        return sum(len(word.tokens) for _, word in words) + spaces

    def _words(self, phones: Phones) -> list[tuple[int, "Spelling"]]:
        """The words of (L,) phones and spaces: where each begins, and how it is spelt; no incomplete one."""
        found, first = [], 0
        for piece in _pieces(phones):
            if word := self._spelling(piece):
                found.append((first, word))
            first += len(piece) + 1
        return found

    def _spelling(self, piece: str) -> "Spelling | None":
        """How the word with these phones is spelt; None if there is none."""
        if piece not in self.spelt:
            lexicon = self.beam.space.lexicon
            assert lexicon is not None
            number = lexicon.number(tuple(map(ord, piece))) if piece else NO_WORD
            word = "" if number == NO_WORD else self.words[number]
            self.spelt[piece] = Spelling.of([self.letters[letter] for letter in word], len(piece)) if word else None
        return self.spelt[piece]

    def _spelt(self, found: Hypothesis, words: list[tuple[int, "Spelling"]]) -> Hypothesis:
        """The hypothesis in the letters of its words."""
        tokens: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        confidences: list[float] = []
        for first, word in words:
            if tokens and " " in self.letters:
                tokens.append(self.letters[" "])
                starts.append(found.starts[first - 1])
                ends.append(found.ends[first - 1])
                confidences.append(found.confidences[first - 1])
            past = first + word.phones
            tokens += word.tokens
            starts += word.of_firsts(found.starts[first:past])
            ends += word.of_lasts(found.ends[first:past])
            confidences += word.of_firsts(found.confidences[first:past])
        frames = tuple(starts), tuple(ends)
        return Hypothesis(tuple(tokens), *frames, tuple(confidences), found.score, found.gains, found.hot, found.boosts)


def _pieces(phones: Phones) -> list[str]:
    """The phones between spaces, each as the character of its number: strings are cut and looked up fast."""
    return "".join(map(chr, phones)).split(chr(SPACE))


class Spelling(NamedTuple):
    """The letters of a word, and what takes the first and the last of its phones that each has the frames of."""

    tokens: tuple[int, ...]
    phones: int
    of_firsts: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    of_lasts: Callable[[tuple[Any, ...]], tuple[Any, ...]]

    @classmethod
    def of(cls, tokens: Sequence[int], phones: int) -> "Spelling":
        """Letters have no frames of their own: they share those of the word's phones evenly."""
        bounds = [math.floor(number * (phones / len(tokens))) for number in range(len(tokens) + 1)]
        lasts = [max(a, b - 1) for a, b in itertools.pairwise(bounds)]
        return cls(tuple(tokens), phones, _taking(bounds[:-1]), _taking(lasts))


def _taking(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes the values at some places of a tuple."""
    if len(places) == 1:
        return lambda values: (values[places[0]],)
    taken: Callable[[tuple[Any, ...]], tuple[Any, ...]] = operator.itemgetter(*places)
    return taken


def homophones_apart(
    pronunciations: Pronunciations, frequency: np.ndarray, phones: int, most: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Entries of the lexicon in the order of their phones; the last phone of each homophone is a different copy.

    Args:
        frequency: (words,) larger for more frequent words.
        phones: outputs of the model, the copies not among them.
        most: copies of a phone, itself included.

    Returns:
        (entries,) place of each one's word in `pronunciations.words`, the phones of all, (entries,) how many of each.
    """
    table, lengths, words = pronunciations.table(), pronunciations.lengths, pronunciations.pronounced
    # Equal phones come together, the most frequent word first: it keeps the last phone, the others get copies of it.
    keys = np.pad(table, ((0, 0), (0, -table.shape[1] % 8))).view(">u8").astype(np.uint64)  # eight phones are a number
    order = np.lexsort((-frequency[words], *keys.T[::-1]))
    order = order[lengths[order] > 0]
    table, lengths, words, keys = table[order].astype(np.uint16), lengths[order], words[order], keys[order]
    first = np.flatnonzero(np.append(True, (keys[1:] != keys[:-1]).any(1))[: len(keys)])
    copies = np.arange(len(keys)) - np.repeat(first, np.diff(first, append=len(keys)))
    # More homophones than there are copies cannot be told apart: the rarest are left out.
    found = copies < most
    table, lengths, words = table[found], lengths[found], words[found]
    # All copies of 255 phones fit into 16 bits.
    table[np.arange(len(table)), lengths - 1] += (copies[found] * (phones - FIRST)).astype(np.uint16)
    return words, table[np.arange(table.shape[1]) < lengths[:, None]], lengths
