"""The beam search as ds2/decoder/README.md describes it ("Scoring"), slow and plain: a prefix is a tuple of labels.

numba and JavaScript each have the search in a form of their own; tests hold both to this one.
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ds2.decoder.beam import BeamDecoder
from ds2.decoder.hot_phrases import words_of
from ds2.decoder.lexicon import Trie

Prefix = tuple[int, ...]


class Gain(NamedTuple):
    """What a prefix has been given, and what its next label depends on."""

    nats: float
    lm: int  # state of the language model after the last whole word, or the last token
    word: Prefix  # labels since the last space
    words: tuple[str, ...] = ()  # whole words so far, "" for those in no phrase


class Found(NamedTuple):
    tokens: Prefix
    score: float  # nats
    gains: float  # nats


class ReferenceSearch:
    """The search of a decoder, with its settings, lexicon and language model."""

    def __init__(self, decoder: BeamDecoder):
        self.config, lexicon, self.lm, numbers, _ = decoder.space
        self.numbers = [] if numbers is None else list(numbers)
        self.start, self.sentence_end = decoder.lm_start, decoder.sentence_end
        self.space = -1 if lexicon is None else lexicon.space
        self.words = {} if lexicon is None else dict(spellings(lexicon.trie))
        self.boosts = [] if lexicon is None else list(lexicon.boosts)
        self.phrases = {} if lexicon is None else {tuple(text.split()): nats for text, nats in lexicon.phrases.items()}
        self.names = (
            [] if lexicon is None else [("", *words_of(lexicon.phrases))[c] for c in lexicon.phrase_tables.columns]
        )
        self.after = functools.cache(self._after)
        self.in_advance = functools.cache(self._in_advance)

    def best(self, log_probs: np.ndarray, ended: bool = True) -> list[Found]:
        """(T, V) -> all prefixes of the last beam, best first; where no word may end, as if none had to."""
        beam: dict[Prefix, tuple[float, float]] = {(): (1.0, 0.0)}
        for frame in np.exp(log_probs.astype(np.float64)):
            beam = self._kept(self._next(beam, frame))
        totals = {prefix: math.log(by_blank + by_label) for prefix, (by_blank, by_label) in beam.items()}
        ends = {prefix: self._at_end(prefix) if ended else 0.0 for prefix in beam}
        broken = all(gain == -math.inf for gain in ends.values())
        if broken:
            ends = dict.fromkeys(beam, 0.0)
        found = [Found(prefix, totals[prefix] + ends[prefix], self._nats(prefix) + ends[prefix]) for prefix in beam]
        ranked = sorted((each for each in found if each.score > -math.inf), key=lambda each: -each.score)
        return self._without_last_words(ranked) if broken and self.config.closed else ranked

    def _without_last_words(self, found: list[Found]) -> list[Found]:
        """Prefixes without their last words, best first, each once."""
        whole: dict[Prefix, Found] = {}
        for each in found:
            tokens = each.tokens
            while tokens and tokens[-1] != self.space:
                tokens = tokens[:-1]
            whole.setdefault(tokens[:-1], each._replace(tokens=tokens[:-1]))
        return list(whole.values())

    def _next(self, beam: dict[Prefix, tuple[float, float]], frame: np.ndarray) -> dict[Prefix, tuple[float, float]]:
        """Probabilities after one more frame, by either ending, of all prefixes that the beam can become."""
        tried = self._tried(frame)
        later = {
            prefix: ((by_blank + by_label) * frame[0], by_label * frame[prefix[-1]] if prefix[-1:] in tried else 0.0)
            for prefix, (by_blank, by_label) in beam.items()
        }
        for prefix, (by_blank, by_label) in beam.items():
            for label in tried:
                longer = prefix + label
                if (gain := self.after(longer)) is None:
                    continue
                before = by_blank if prefix[-1:] == label else by_blank + by_label
                chance = before * frame[label[0]] * math.exp(gain.nats - self._nats(prefix))
                same = later.get(longer, (0.0, 0.0))
                later[longer] = same[0], same[1] + chance
        return later

    def _tried(self, frame: np.ndarray) -> list[Prefix]:
        """The labels that may follow in a frame, the space last."""
        config = self.config
        if config.blank_skip < 1 and frame[0] >= config.blank_skip:
            return []
        chosen: list[int] = []
        reached = 0.0
        for place, symbol in enumerate(sorted(range(len(frame)), key=lambda symbol: (-frame[symbol], symbol))):
            most_reached = config.cumulative_probability < 1 and reached >= config.cumulative_probability
            if symbol != 0 and (place >= config.max_symbols or most_reached):
                break
            reached += frame[symbol]
            if symbol not in (0, self.space):
                chosen.append(symbol)
        return [(symbol,) for symbol in [*chosen, *([self.space] if self.space >= 0 else [])]]

    def _kept(self, beam: dict[Prefix, tuple[float, float]]) -> dict[Prefix, tuple[float, float]]:
        """The best of them, as many as the beam is wide, without those too far below the best one."""
        least = max(map(sum, beam.values())) * math.exp(-self.config.score_threshold)
        good = [prefix for prefix, chances in beam.items() if sum(chances) >= least and sum(chances) > 0]
        if self.config.recombine:
            best: dict[object, Prefix] = {}
            for prefix in good:
                rival = best.setdefault(self._continues(prefix), prefix)
                if sum(beam[prefix]) > sum(beam[rival]):
                    best[self._continues(prefix)] = prefix
            good = [prefix for prefix in good if best[self._continues(prefix)] == prefix]
        ranked = sorted(good, key=lambda prefix: -sum(beam[prefix]))[: self.config.beam_width]
        return {prefix: beam[prefix] for prefix in good if prefix in set(ranked)}

    def _continues(self, prefix: Prefix) -> object:
        """What the continuations of a prefix depend on."""
        gain = self.after(prefix)
        assert gain is not None
        known = not self.words or self._begins(gain.word)
        return gain.lm, self._begun(gain.words), gain.word if known else "outside", prefix[-1:]

    def _nats(self, prefix: Prefix) -> float:
        gain = self.after(prefix)
        assert gain is not None
        return gain.nats

    def _after(self, prefix: Prefix) -> Gain | None:
        """What a prefix has been given; None if it is not allowed."""
        if not prefix:
            return Gain(0.0, self.start, ())
        before, label = self.after(prefix[:-1]), prefix[-1]
        if before is None or (self.lm is None and not self.words):
            return before
        if not self.words:
            return self._after_token(before, label)
        if label == self.space:
            if (ended := self._end_of_word(before)) is None:
                return None
            nats, lm = ended
            return Gain(before.nats - self._given(before) + nats, lm, (), self._words(before))
        word = (*before.word, label)
        if self.config.closed and not self._begins(word):
            return None
        longer = Gain(before.nats, before.lm, word, before.words)
        return longer._replace(nats=before.nats - self._given(before) + self._given(longer))

    def _after_token(self, before: Gain, label: int) -> Gain:
        """The same where the language model is over tokens."""
        if self.lm is None or self.numbers[label] < 0:
            return before
        log_prob, lm = self.lm.advance(before.lm, self.lm.words[self.numbers[label]])
        return before._replace(nats=before.nats + self.config.lm_weight * log_prob + self.config.word_bonus, lm=lm)

    def _end_of_word(self, gain: Gain) -> tuple[float, int] | None:
        """(nats of the whole word, state of the language model after it); None if no word may end here."""
        number = self.words.get(gain.word)
        if number is None and self.config.closed:
            return None
        if not gain.word:
            return 0.0, gain.lm
        boost = self._unknown(gain.word) if number is None else self.boosts[number]
        boost += self._of_phrases(self._words(gain)) - self._of_phrases(gain.words)
        if self.lm is None:
            return boost, gain.lm
        log_prob, lm = self.lm.advance(gain.lm, self.lm.words[0 if number is None else self.numbers[number]])
        return self.config.lm_weight * log_prob + self.config.word_bonus + boost, lm

    def _given(self, gain: Gain) -> float:
        """What the word that has begun was given: in advance, or all of it where an eager search knows it."""
        whole = gain.word in self.words and not any(
            known[: len(gain.word)] == gain.word != known for known in self.words
        )
        if self.config.eager and self.config.closed and whole and (ended := self._end_of_word(gain)) is not None:
            return ended[0]
        return self.in_advance(gain.word)

    def _in_advance(self, word: Prefix) -> float:
        """The gain of the best single word that begins so, of an unknown word what it costs."""
        if not word:
            return 0.0
        if not self._begins(word):
            return self._unknown(word)
        return max(self._alone(number) for known, number in self.words.items() if known[: len(word)] == word)

    def _alone(self, number: int) -> float:
        boost = self.boosts[number]
        if self.phrases:
            begun = {phrase[:end] for phrase in self.phrases for end in range(len(phrase))}
            name = self.names[number]
            boost += max(self._of_phrases((*words, name)) - self._of_phrases(words) for words in begun)
        if self.lm is None:
            return float(boost)
        log_prob, _ = self.lm.advance(0, self.lm.words[self.numbers[number]])
        return float(boost + self.config.lm_weight * log_prob)

    def _words(self, gain: Gain) -> tuple[str, ...]:
        """All words, where the last one ends here."""
        number = self.words.get(gain.word)
        name = self.names[number] if self.names and number is not None else ""
        return (*gain.words, name) if gain.word else gain.words

    def _of_phrases(self, words: tuple[str, ...]) -> float:
        """Nats of the phrases in some words, and of the words that may become one."""
        found = sum(
            len(phrase) * nats * (words[at : at + len(phrase)] == phrase)
            for phrase, nats in self.phrases.items()
            for at in range(len(words))
        )
        return found + self._held(words)

    def _held(self, words: tuple[str, ...]) -> float:
        """Nats of the longest beginning of a phrase at the end of some words; one to avoid pays at its end."""
        last = self._begun(words)
        begun = (nats for phrase, nats in self.phrases.items() if phrase[: len(last)] == last != phrase)
        return len(last) * max([0.0, *begun])

    def _begun(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The longest beginning of a phrase at the end of some words."""
        ends = (words[first:] for first in range(len(words)))
        begun = {phrase[:end] for phrase in self.phrases for end in range(1, len(phrase))}
        return next((end for end in ends if end in begun), ())

    def _unknown(self, word: Prefix) -> float:
        """Of a word outside the lexicon, besides the language model's <unk>."""
        if self.lm is None:
            return 0.0
        outside = sum(not self._begins(word[:end]) for end in range(1, len(word) + 1))
        return self.config.unknown_score + outside * self.config.unknown_letter_score

    def _begins(self, word: Prefix) -> bool:
        return any(known[: len(word)] == word for known in self.words)

    def _at_end(self, prefix: Prefix) -> float:
        """What a prefix gains if the utterance ends here: its last word, and </s>; -inf where no word may end."""
        gain, nats = self.after(prefix), 0.0
        assert gain is not None
        lm = gain.lm
        if gain.word:
            if (ended := self._end_of_word(gain)) is None:
                return -math.inf
            nats, lm = ended[0] - self._given(gain), ended[1]
        nats -= self._held(self._words(gain))
        if self.lm is None or self.sentence_end < 0:
            return nats
        return nats + self.config.lm_weight * self.lm.advance(lm, self.lm.words[self.sentence_end])[0]


def spellings(trie: Trie, node: int = 0, before: Prefix = ()) -> Iterator[tuple[Prefix, int]]:
    """(labels, number) of each word of a lexicon."""
    if trie.words[node] >= 0:
        yield before, int(trie.words[node])
    for arc in range(trie.first[node], trie.first[node + 1]):
        yield from spellings(trie, int(trie.children[arc]), (*before, int(trie.tokens[arc])))
