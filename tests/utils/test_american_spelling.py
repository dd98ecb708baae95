"""British and American spellings."""

import pytest

from ds2.utils.american_spelling import in_american


@pytest.mark.parametrize(
    ("british", "american"),
    [
        ("colour", "color"), ("favourite", "favorite"), ("dishonourable", "dishonorable"), ("neighbours", "neighbors"),
        ("theatre", "theater"), ("metres", "meters"), ("kilometre", "kilometer"), ("travelling", "traveling"),
        ("cancelled", "canceled"), ("organise", "organize"), ("realising", "realizing"), ("analysed", "analyzed"),
        ("civilisation", "civilization"), ("greys", "grays"), ("programme", "program"), ("okay", "ok"),
    ],
)  # fmt: skip
def test_a_british_word_is_spelt_as_an_american_one(british: str, american: str) -> None:
    assert in_american(british) == american
    assert in_american(american) == american


@pytest.mark.parametrize(
    "word", ["four", "hour", "your", "rise", "wise", "raise", "more", "there", "filling", "calling", ""]
)
def test_other_words_stay(word: str) -> None:
    assert in_american(word) == word
