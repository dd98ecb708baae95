"""Alphabets and the normal form of transcripts."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ds2.errors import InputError
from ds2.text import BLANK, Tokenizer, normalize


def test_alphabet_of_a_corpus_is_sorted_behind_the_blank() -> None:
    tokenizer = Tokenizer.from_texts(["b a", "cab"])
    assert tokenizer.tokens == (BLANK, " ", "a", "b", "c")
    assert len(tokenizer) == 5
    assert tokenizer.encode("cab b") == [4, 2, 3, 1, 3]
    assert tokenizer.decode([4, 2, 3]) == "cab"


@given(st.text())
def test_encoding_loses_nothing(text: str) -> None:
    tokenizer = Tokenizer.from_texts([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert 0 not in tokenizer.encode(text)


def test_unknown_characters_are_refused_by_name() -> None:
    tokenizer = Tokenizer.from_texts(["ab"])
    assert tokenizer.unknown("a?b!") == {"?", "!"}
    with pytest.raises(InputError, match=r"'!\?'"):
        tokenizer.encode("a?b!")


@pytest.mark.parametrize("tokens", [[], ["a", BLANK], [BLANK, "a", "a"]])
def test_impossible_alphabets_are_refused(tokens: list[str]) -> None:
    with pytest.raises(InputError):
        Tokenizer(tokens)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", "hello world"),
        ("don’t  'quote' me", "don't quote me"),
        ("ＡＢＣ１２", "abc12"),
        ("你好，世界。", "你好 世界"),
        ("Grüße — Straße", "grüße straße"),
        ("...", ""),
        ("rock-and-roll", "rock and roll"),
        ("don´t don`t don‘t", "don't don't don't"),
        ("ŉ", "n"),
        ("co\u00adoperate", "cooperate"),
        ("\ufeffone\u200btwo", "one two"),
        ("H\u0331", "\u1e96"),
        ("'", ""),
    ],
)
def test_normal_form_by_example(text: str, expected: str) -> None:
    assert normalize(text) == expected


@given(st.text())
@example("H\u0331")  # composes only in lower case
@example("ŉ´a")
def test_normal_form_is_its_own_normal_form(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)


@given(st.text())
def test_normal_form_has_single_inner_spaces_and_no_capitals(text: str) -> None:
    form = normalize(text)
    assert form == " ".join(form.split())
    assert form == form.lower()
    assert not any(character in ',.!?;:"()' for character in form)
