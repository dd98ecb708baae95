"""The trie of a lexicon against nested dictionaries."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.decoder.lexicon import NO_WORD, Lexicon, look_ahead

WORDS = st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=30)


def test_two_words_by_hand() -> None:
    first, tokens, children, words = Lexicon([(2, 1), (2,), (0, 1)], 9).trie
    assert first.tolist() == [0, 2, 3, 4, 4, 4]
    assert tokens.tolist() == [0, 2, 1, 1]
    assert children.tolist() == [1, 2, 3, 4]
    assert words.tolist() == [NO_WORD, NO_WORD, 1, 2, 0]


def test_words_are_found_by_their_tokens() -> None:
    lexicon = Lexicon([(2, 1), (2,), (0, 1)], 9)
    assert [lexicon.number(tokens) for tokens in [(2, 1), (2,), (0, 1)]] == [0, 1, 2]
    assert {lexicon.number(tokens) for tokens in [(), (0,), (1,), (2, 0), (2, 1, 1)]} == {NO_WORD}


@given(WORDS)
def test_every_word_and_no_other_ends_where_its_tokens_lead(words: list[list[int]]) -> None:
    """The last of several equal words owns the node; an empty word has no node."""
    first, tokens, children, ends = Lexicon(words, 9).trie
    number = {tuple(word): place for place, word in enumerate(words) if word}
    found, open_ = {}, [((), 0)]
    while open_:
        spelling, node = open_.pop()
        if ends[node] != NO_WORD:
            found[spelling] = ends[node]
        arcs = range(first[node], first[node + 1])
        assert list(tokens[arcs]) == sorted(set(tokens[arcs]))
        assert all(children[arc] > node for arc in arcs)
        open_ += [((*spelling, int(tokens[arc])), int(children[arc])) for arc in arcs]
    assert found == number
    assert len(ends) == len({word[:length] for word in number for length in range(1, len(word) + 1)}) + 1


@settings(deadline=None)  # the kernel may be compiled first
@given(WORDS, st.randoms())
def test_a_beginning_hopes_for_its_best_word(words: list[list[int]], rng: random.Random) -> None:
    gains = np.array([rng.uniform(-9, 3) for _ in words])
    trie = Lexicon(words, 9).trie
    first, tokens, children, _ = trie
    ahead, open_ = look_ahead(trie, gains), [((), 0)]
    number = {tuple(word): place for place, word in enumerate(words) if word}
    assert ahead[0] == 0
    while open_:
        spelling, node = open_.pop()
        if node:
            assert ahead[node] == max(gains[n] for word, n in number.items() if word[: len(spelling)] == spelling)
        arcs = range(first[node], first[node + 1])
        open_ += [((*spelling, int(tokens[arc])), int(children[arc])) for arc in arcs]
