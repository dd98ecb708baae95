"""Pronunciations of words that a dictionary lacks, learned from those that it has.

Every letter stands for no phone, one or two. Expectation maximisation on the dictionary finds which:

    k  n  i  g  h  t  s          a letter then gets the phones that it most often had between the same letters, with
    -  N  AY -  -  T  S          as wide a context as the dictionary has, up to four letters on each side

Only one letter and its context are used, as in the decision trees of Black, Lenzo and Pagel 1998, "Issues in
building general letter to sound rules".
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ds2.decoder.pronunciations import Phones, Pronunciations
from ds2.utils.jit import njit

ROUNDS = 5  # iterations of expectation maximisation
WINDOWS = ((4, 4), (3, 3), (2, 3), (3, 2), (1, 3), (2, 2), (1, 2), (0, 2), (2, 1), (1, 1), (0, 1), (1, 0), (0, 0))
PADDING = "#" * 4
NEIGHBOURS = 500  # words of the dictionary that are learned from for three letters of a word
OTHERS = 2000  # words that are learned from whatever their letters
MOST = 20_000  # words that are learned from: 4 s of a core


def guess_pronunciations(words: Iterable[str], known: Mapping[str, Sequence[Phones]]) -> dict[str, Phones]:
    """The phones of each of `words`, learned from the first pronunciation of each known word.

    Characters that no known word has are silent.
    """
    pairs = [(word, spoken[0]) for word, spoken in known.items()]
    phones = 1 + max((phone for _, spoken in pairs for phone in spoken), default=0)
    places = [(word, contexts(word, place)) for word in words for place in range(len(word))]
    needed = {context for _, found in places for context in found}
    counts: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for (word, _), chunks in zip(pairs, _align(pairs, phones), strict=True):
        for place, chunk in enumerate(chunks):
            for context in needed.intersection(contexts(word, place)):
                counts[context][chunk] += 1
    likely = {context: seen.most_common(1)[0][0] for context, seen in counts.items()}
    guessed: dict[str, Phones] = {}
    for word, found in places:
        chunk = next((likely[context] for context in found if context in likely), 0)
        guessed[word] = (*guessed.get(word, ()), *_phones_of(chunk, phones))
    return guessed


def with_guesses(pronunciations: Pronunciations, words: Iterable[str]) -> Pronunciations:
    """Those of these words as well: of a word without one it is guessed from words with the same letters in a row.

    A word of other letters gets none.
    """
    lacking = set(words) - pronunciations.known()
    if not lacking:
        return pronunciations
    spoken = pronunciations.to_dict()
    guessed = guess_pronunciations(sorted(lacking), {word: spoken[word] for word in _similar_words(lacking, spoken)})
    more = Pronunciations.of({word: [phones] for word, phones in guessed.items() if phones})
    numbers = more.pronounced + len(pronunciations.words)
    return Pronunciations(
        [*pronunciations.words, *more.words],
        np.concatenate([pronunciations.pronounced, numbers]).astype(np.int32),
        np.concatenate([pronunciations.phones, more.phones]).astype(np.uint8),
    )


def _similar_words(words: Iterable[str], known: Iterable[str]) -> list[str]:
    """OTHERS of the known words, and NEIGHBOURS for each three letters in a row of one of `words`; MOST in all."""
    threes = {f"#{word}#"[start : start + 3] for word in words for start in range(len(word))}
    seen: Counter[str] = Counter()
    found = []
    for number, word in enumerate(known):
        shared = threes.intersection(f"#{word}#"[start : start + 3] for start in range(len(word)))
        if number < OTHERS or any(seen[three] < NEIGHBOURS for three in shared):
            seen.update(shared)
            found.append(word)
        if len(found) == MOST:
            break
    return found


def contexts(word: str, place: int) -> list[str]:
    """A letter between its neighbours, the widest window first; a mark for the letter makes windows differ."""
    padded, at = PADDING + word + PADDING, place + len(PADDING)
    return [f"{padded[at - before : at]}.{padded[at : at + after + 1]}" for before, after in WINDOWS]


def _align(pairs: Sequence[tuple[str, Phones]], phones: int) -> list[list[int]]:
    """The chunk of phones of each letter of each word; an empty list for words that cannot be divided this way.

    A chunk is 0 for no phone, 1 + p for one, and 1 + phones + p * phones + q for two.
    """
    letters = sorted(set().union(*(word for word, _ in pairs)))
    places = {letter: place for place, letter in enumerate(letters)}
    words = [np.array([places[letter] for letter in word]) for word, _ in pairs]
    spoken = [np.array(each) for _, each in pairs]
    chances = np.full((len(letters), 1 + phones + phones * phones), 1.0 / (1 + phones + phones * phones))
    chances[:, 1 + phones :] /= phones
    for _ in range(ROUNDS):
        counts = np.full_like(chances, 1e-6)
        for word, said in zip(words, spoken, strict=True):
            _expect(word, said, phones, chances, counts)
        chances = counts / counts.sum(1, keepdims=True)
    return [
        _best_division(word, said, phones, np.log(chances)).tolist() for word, said in zip(words, spoken, strict=True)
    ]


def _phones_of(chunk: int, phones: int) -> tuple[int, ...]:
    """What a number of `_align` stands for."""
    if chunk <= phones:
        return (chunk - 1,) if chunk else ()
    return divmod(chunk - 1 - phones, phones)


@njit()
def _chunk(spoken, end, size, phones):  # type: ignore[no-untyped-def]
    """The number of the chunk of `size` phones that ends before `end`."""
    if size == 0:
        return 0
    if size == 1:
        return 1 + spoken[end - 1]
    return 1 + phones + spoken[end - 2] * phones + spoken[end - 1]


@njit()
def _expect(letters, spoken, phones, chances, counts):  # type: ignore[no-untyped-def]
    """Adds the expected number of each (letter, chunk) over all ways to divide the phones among the letters."""
    n, m = len(letters), len(spoken)
    forward, backward = np.zeros((n + 1, m + 1)), np.zeros((n + 1, m + 1))
    forward[0, 0] = backward[n, m] = 1.0
    for i in range(1, n + 1):
        for j in range(m + 1):
            for size in range(min(2, j) + 1):
                forward[i, j] += forward[i - 1, j - size] * chances[letters[i - 1], _chunk(spoken, j, size, phones)]
    for i in range(n - 1, -1, -1):
        for j in range(m + 1):
            for size in range(min(2, m - j) + 1):
                backward[i, j] += (
                    backward[i + 1, j + size] * chances[letters[i], _chunk(spoken, j + size, size, phones)]
                )
    total = forward[n, m]
    if total <= 0.0:
        return
    for i in range(n):
        for j in range(m + 1):
            for size in range(min(2, m - j) + 1):
                chunk = _chunk(spoken, j + size, size, phones)
                way = forward[i, j] * chances[letters[i], chunk] * backward[i + 1, j + size]
                counts[letters[i], chunk] += way / total


@njit()
def _best_division(letters, spoken, phones, scores):  # type: ignore[no-untyped-def]
    """(n,) chunks of the best division, (0,) if there is none."""
    n, m = len(letters), len(spoken)
    best, sizes = np.full((n + 1, m + 1), -math.inf), np.zeros((n + 1, m + 1), np.int64)
    best[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(m + 1):
            for size in range(min(2, j) + 1):
                score = best[i - 1, j - size] + scores[letters[i - 1], _chunk(spoken, j, size, phones)]
                if score > best[i, j]:
                    best[i, j], sizes[i, j] = score, size
    if best[n, m] == -math.inf:
        return np.zeros(0, np.int64)
    chunks, j = np.zeros(n, np.int64), m
    for i in range(n, 0, -1):
        chunks[i - 1] = _chunk(spoken, j, sizes[i, j], phones)
        j -= sizes[i, j]
    return chunks
