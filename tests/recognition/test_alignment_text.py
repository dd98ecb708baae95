"""The words of a text, as the model aligns them and as the user wrote them."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2.ctc.array_alignment import STAR
from ds2.recognition.alignment_text import read_lines, to_tokens
from ds2.text import Tokenizer, normalize, split_words
from ds2.utils.errors import InputError

LATIN = Tokenizer(["<blank>", " ", "'", *"abcdefghijklmnopqrstuvwxyz"])
HAN = Tokenizer(["<blank>", *"今天气很好二十岁"])


@pytest.mark.parametrize(
    ("line", "words", "forms"),
    [
        ("“Hello,” said Mr. O'Neil.", "hello said mister o'neil", ["“Hello,”", "said", "Mr.", "O'Neil."]),
        ("— Wait — go !", "wait go", ["— Wait —", "go !"]),
        ("Twenty-one, two", "twenty one two", ["Twenty-one,", "", "two"]),
        ("It cost 21 then .", "it cost twenty one then", ["It", "cost", "21", "", "then ."]),
        ("So 3 % fell", "so three percent fell", ["So", "3 %", "", "fell"]),
        ("Open 9 am to 5:30 PM.", "open nine a m to five thirty p m", "Open/9/am//to/5:30//PM./".split("/")),
        ("On May 5, he left", "on may fifth he left", ["On", "May", "5,", "he", "left"]),
        ("3 % fell", "three percent fell", ["3 %", "", "fell"]),
        ("One * * Two", "one * * two", ["One", "Two"]),
        ("The naïve café,", "the naive cafe", ["The", "naïve", "café,"]),
    ],
)
def test_words_keep_the_form_that_the_user_gave_them(line: str, words: str, forms: list[str]) -> None:
    """A number is shown by its first word, as is what parts give together, in "3 %" or "May 5,"."""
    [found] = read_lines(LATIN, line, "en")
    assert found.words == words.split()
    assert found.forms == forms


PARTS = "one May 5, 2021 9 am PM. 3 % $5 – Dr. Smith's (R&D) 1,000 it".split()


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=12))
def test_no_part_of_a_line_is_lost(parts: list[str]) -> None:
    line = " ".join(parts)
    if not (words := normalize(line, "en").split()):
        return
    [found] = read_lines(LATIN, line, "en")
    assert len(found.forms) == len(words)
    shown = " ".join(form for form in found.forms if form)
    assert Counter(shown.split()) >= Counter(parts)


def test_ideographs_keep_their_punctuation() -> None:
    [line] = read_lines(HAN, "「今天，20岁天气很好。」", "zh")
    assert line.forms == ["「今", "天，", "20", "", "岁", "天", "气", "很", "好。」"]
    assert len(line.forms) == len(split_words("".join(line.words)))


def test_lines_end_where_the_user_ends_them_unless_an_editor_did() -> None:
    """Verses end; prose that fills its lines up to a width ends where a line stays empty."""
    verses = "From fairest creatures we desire increase,\nThat thereby beauty's rose might never die,\nBut as the riper"
    assert [line.ends for line in read_lines(LATIN, verses, "")] == [True, True, True]
    prose = (
        "the little house stood at the end of a lane and nobody had lived in it for as long as anyone could "
        "remember so they were surprised to see that there was smoke rising from its chimney that day"
    ).split()
    lines = [""]
    for word in prose:
        if len(lines[-1]) + len(word) >= 70:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    text = "\n".join([*lines, "", "And then it rained."])
    assert [line.ends for line in read_lines(LATIN, text, "")] == [False, False, True, True]


def test_tokens_have_spaces_between_words_and_stars_between_lines() -> None:
    lines = read_lines(LATIN, "A b\n\n*\nc", "")
    assert to_tokens(LATIN, lines, skip=False) == [*LATIN.encode("a b"), STAR, *LATIN.encode("c")]
    with_stars = to_tokens(LATIN, lines, skip=True)
    runs = [len(list(group)) for are_stars, group in itertools.groupby(with_stars, STAR.__eq__) if are_stars]
    assert runs == [1, 3, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "no words"), ("* *\n—", "no words"), ("one\n\nten 12", "line 3 of the text: .12.*name the language")],
)
def test_texts_without_words_or_with_strange_characters_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_lines(LATIN, text, "")


def test_a_text_in_another_script_wants_another_model() -> None:
    with pytest.raises(InputError, match=r"does not know '设定'; take a model of its language"):
        read_lines(LATIN, "设定", "en")


@pytest.mark.parametrize(
    ("line", "words", "forms"),
    [
        ("II", "two", ["II"]),
        (" XXIV.", "twenty four", ["XXIV.", ""]),
        ("Chapter XC", "chapter ninety", ["Chapter", "XC"]),
        ("I", "one", ["I"]),
        ("I am", "i am", ["I", "am"]),
        ("IIX", "iix", ["IIX"]),
        ("mix", "mix", ["mix"]),
    ],
)
def test_roman_numerals_that_are_headings_are_numbers(line: str, words: str, forms: list[str]) -> None:
    [found] = read_lines(LATIN, line, "en")
    assert (" ".join(found.words), found.forms) == (words, forms)
