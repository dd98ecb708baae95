"""The words of a text, as the model aligns them and as the user wrote them."""

import itertools

import pytest

from ds2.ctc.alignment import STAR
from ds2.recognition.alignment_text import read_lines, to_tokens
from ds2.text import Tokenizer, split_words
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
        ("So 3 % fell", "so three percent fell", ["so", "three", "percent", "fell"]),
        ("One * * Two", "one * * two", ["One", "Two"]),
        ("The naïve café,", "the naive cafe", ["The", "naïve", "café,"]),
    ],
)
def test_words_keep_the_form_that_the_user_gave_them(line: str, words: str, forms: list[str]) -> None:
    """A number is shown by its first word; where parts are not words, as in "3 %", the words show themselves."""
    [found] = read_lines(LATIN, line, "en")
    assert found.words == words.split()
    assert found.forms == forms


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
