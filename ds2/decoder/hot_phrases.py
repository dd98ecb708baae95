"""Phrases to prefer: each of their words gains nats as it is found, which are taken back where a phrase breaks off.

A phrase to avoid pays for all of its words with the last one. If it paid before, every other word would give that back,
and a search that looks ahead would hope for it everywhere.

The state of a hypothesis is the longest beginning of a phrase that its last words are (Aho and Corasick, 1975):

    "deep speech=5"   () -- deep +5 --> (deep) -- speech +5 --> ()      found: the 10 nats stay
                                        (deep) -- blue -5 ----> ()      broken off: 5 are taken back
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ds2.text import possessives


class PhraseTables(NamedTuple):
    """What S states gain by the words of a lexicon. The words of the phrases have a column each, all others the first.

    In sum a hypothesis has gained the nats of all phrases in it, and those that its state holds.
    """

    columns: np.ndarray  # (words,) of the lexicon
    next: np.ndarray  # (S, K) states
    gains: np.ndarray  # (S, K) nats
    held: np.ndarray  # (S,) nats that are taken back if the utterance ends


NO_PHRASES = PhraseTables(np.zeros(0, np.int32), np.zeros((1, 1), np.int32), np.zeros((1, 1)), np.zeros(1))


def split_hot(hot: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """The words with their nats, and the phrases with the nats of each of their words."""
    phrases = {text: nats for text, nats in hot.items() if " " in text}
    return {text: nats for text, nats in hot.items() if text not in phrases}, phrases


def words_of(hot: Mapping[str, float]) -> list[str]:
    """The words of words and phrases, each once."""
    return list(dict.fromkeys(word for text in hot for word in text.split()))


def with_possessives(hot: Mapping[str, float]) -> dict[str, float]:
    """The same, and the possessives of single words, which gain as much: Anita, Anita's."""
    return {own: hot[word] for word, own in possessives(hot).items()} | dict(hot)


def phrase_tables(phrases: Mapping[str, float], numbers: Mapping[str, Sequence[int]], words: int) -> PhraseTables:
    """The tables of phrases and the nats of each of their words, for a lexicon of so many `words`.

    Args:
        numbers: those of each word in the lexicon, one for each pronunciation. Without any, its phrases are not found.
    """
    if not phrases:
        return NO_PHRASES
    nats = {tuple(text.split()): value for text, value in phrases.items()}
    column = {word: place for place, word in enumerate(words_of(phrases), 1)}
    begun = sorted(
        {phrase[:end] for phrase in nats for end in range(len(phrase))}, key=lambda words: (len(words), words)
    )
    state = {words: number for number, words in enumerate(begun)}
    longer = [[phrase for phrase in nats if phrase[: len(words)] == words != phrase] for words in begun]
    held = np.array(
        [len(words) * max(0.0, *(nats[phrase] for phrase in found)) for words, found in zip(begun, longer, strict=True)]
    )
    after, kept = np.zeros((len(state), 1 + len(column)), np.int32), np.zeros((len(state), 1 + len(column)))
    for words_before, number in state.items():
        # What the last words but the first lead to, unless a phrase goes on with all of them.
        if words_before:
            ends = (words_before[first:] for first in range(1, len(words_before) + 1))
            shorter = next(state[end] for end in ends if end in state)
            after[number], kept[number] = after[shorter], kept[shorter]
        for phrase in longer[number]:
            next_words = phrase[: len(words_before) + 1]
            if next_words in state:
                after[number, column[next_words[-1]]] = state[next_words]
            if next_words == phrase:
                kept[number, column[phrase[-1]]] += len(phrase) * nats[phrase]
    columns = np.zeros(words, np.int32)
    for word, place in column.items():
        columns[list(numbers.get(word, ()))] = place
    return PhraseTables(columns, after, kept + held[after] - held[:, None], held)
