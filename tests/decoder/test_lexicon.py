"""The trie of a lexicon: against dictionaries of dictionaries."""

from hypothesis import given
from hypothesis import strategies as st

from ds2.decoder.lexicon import NO_WORD, Lexicon

WORDS = st.lists(st.lists(st.integers(0, 4), max_size=6), max_size=30)


def test_two_words_by_hand() -> None:
    first, tokens, children, words = Lexicon([(2, 1), (2,), (0, 1)], 9).arrays
    assert first.tolist() == [0, 2, 3, 4, 4, 4]
    assert tokens.tolist() == [0, 2, 1, 1]
    assert children.tolist() == [1, 2, 3, 4]
    assert words.tolist() == [NO_WORD, NO_WORD, 1, 2, 0]


@given(WORDS)
def test_every_word_and_no_other_ends_where_its_tokens_lead(words: list[list[int]]) -> None:
    """The last of equal words has the node; an empty word has none."""
    first, tokens, children, ends = Lexicon(words, 9).arrays
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
