"""Error rates."""

import functools
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2.metrics import Edit, ErrorCounts, align_texts, cer, character_errors, error_listing, wer, word_errors

words = st.lists(st.sampled_from("abc"), max_size=6)


def distance(reference: list[str], hypothesis: list[str]) -> int:
    """Levenshtein's definition, by recursion."""

    @functools.cache
    def from_here(i: int, j: int) -> int:
        if i == len(reference) or j == len(hypothesis):
            return len(reference) - i + len(hypothesis) - j
        swap = from_here(i + 1, j + 1) + (reference[i] != hypothesis[j])
        return min(swap, from_here(i + 1, j) + 1, from_here(i, j + 1) + 1)

    return from_here(0, 0)


def test_counts_by_hand() -> None:
    assert word_errors("the cat sat", "the bat sat on") == ErrorCounts(1, 0, 1, 3)
    assert word_errors("one two", "two") == ErrorCounts(0, 1, 0, 2)
    assert character_errors("abc", "axc") == ErrorCounts(1, 0, 0, 3)
    assert word_errors("我去吃饭", "我去 吃面") == ErrorCounts(1, 0, 0, 4)


@given(words, words)
def test_alignment_is_shortest_and_rebuilds_both_sides(reference: list[str], hypothesis: list[str]) -> None:
    edits = align_texts(reference, hypothesis)
    assert sum(edit.kind != "equal" for edit in edits) == distance(reference, hypothesis)
    assert [edit.reference for edit in edits if edit.reference is not None] == reference
    assert [edit.hypothesis for edit in edits if edit.hypothesis is not None] == hypothesis
    assert all((edit.kind == "equal") == (edit.reference == edit.hypothesis) for edit in edits)


def test_ties_are_always_resolved_alike() -> None:
    assert [edit.kind for edit in align_texts("ab", "bc")] == ["substitute", "substitute"]  # not delete, equal, insert
    assert align_texts("ab", "c") == [Edit("substitute", "a", "c"), Edit("delete", "b", None)]
    assert [edit.kind for edit in align_texts("aba", "bab")] == ["insert", "equal", "equal", "delete"]


@given(words, words)
def test_counts_are_those_of_the_alignment(reference: list[str], hypothesis: list[str]) -> None:
    kinds = [edit.kind for edit in align_texts(reference, hypothesis)]
    counts = word_errors(" ".join(reference), " ".join(hypothesis))
    assert (counts.substitutions, counts.deletions) == (kinds.count("substitute"), kinds.count("delete"))
    assert (counts.insertions, counts.reference_length) == (kinds.count("insert"), len(reference))


def test_long_texts_are_counted_in_little_memory() -> None:
    """100,000 characters on each side: a matrix of their distances would take 10**10 cells."""
    reference = " ".join(f"{number:05}" for number in range(17_000))
    counts = character_errors(reference, reference.replace("7", "x", 500)[:-600])
    assert counts == ErrorCounts(500, 600, 0, len(reference))


def test_corpus_rate_is_errors_over_words_not_a_mean_of_rates() -> None:
    assert wer(["a", "a b c"], ["b", "a b c"]) == 0.25
    assert cer(["ab", "cd"], ["ab", "ce"]) == 0.25


def test_rates_at_the_edges() -> None:
    assert wer([], []) == 0.0
    assert wer([""], [""]) == 0.0
    assert wer([""], ["a b"]) == 2.0
    assert wer(["a"], [""]) == 1.0
    assert cer(["a  b "], ["a b"]) == 0.0


@pytest.mark.parametrize("rate", [wer, cer])
def test_rates_refuse_unequal_lists(rate: Callable[[list[str], list[str]], float]) -> None:
    with pytest.raises(ValueError, match="zip"):
        rate(["a", "b"], ["a"])


@given(st.lists(st.tuples(words, words), max_size=4))
def test_counts_add_up(pairs: list[tuple[list[str], list[str]]]) -> None:
    counts = [word_errors(" ".join(reference), " ".join(hypothesis)) for reference, hypothesis in pairs]
    total = sum(counts, ErrorCounts())
    assert total.errors == sum(count.errors for count in counts)
    assert total.reference_length == sum(len(reference) for reference, _ in pairs)


def test_listing_shows_wrong_utterances_aligned() -> None:
    listing = error_listing(["one two three", "four"], ["one three", "four"], ["a.wav", "b.wav"])
    assert "WER 25.00%: 0 substitutions, 1 deletions, 0 insertions in 4 words; 1 of 2 utterances wrong" in listing
    assert "     1  two -> (nothing)" in listing
    assert "a.wav\n  REF one two three\n  HYP one     three\n          D" in listing
    assert "b.wav" not in listing


def test_listing_counts_wide_characters_as_two_columns() -> None:
    listing = error_listing(["你好 a b"], ["a c"], ["x"])
    assert "  REF 你 好 a b\n  HYP       a c" in listing


def test_listing_gives_marks_upon_letters_no_column() -> None:
    listing = error_listing(["e\u0301 が\u3099 a"], ["x y b"], ["x"])
    assert "  HYP x y  b\n      S S  S\n" in listing


def test_listing_has_no_trailing_spaces() -> None:
    listing = error_listing(["a long", "b"], ["a", "b word"], ["x", "y"])
    assert all(line == line.rstrip() for line in listing.splitlines())


def test_most_frequent_confusions_come_first() -> None:
    listing = error_listing(["a", "a", "b"], ["x", "x", "y"], ["1", "2", "3"])
    assert listing.index("2  a -> x") < listing.index("1  b -> y")


def test_listing_refuses_unequal_lists() -> None:
    with pytest.raises(ValueError, match="zip"):
        error_listing(["a"], [], [])
