"""Pronouncing dictionaries, and the targets that they give."""

import itertools
import lzma
from pathlib import Path

import pytest
import torch

from ds2.data.cmudict import phone_targets, read_pronunciations
from ds2.data.phone_sets import CMUDICT, PHONE_SETS, PINYIN, SPACE, phone_set
from ds2.utils.errors import InputError

DICTIONARY = ";;; a comment\na AH0\na(2) EY1 # the letter\ncat  K AE1 T\ncat(2) K AE0 T\n"


def phones(text: str) -> tuple[int, ...]:
    return CMUDICT.numbers(text.split())


@pytest.mark.parametrize("compressed", [False, True])
def test_stress_comments_and_numbers_are_left_out(tmp_path: Path, compressed: bool) -> None:
    """Pronunciations that differ in stress alone are one."""
    path = tmp_path / ("dictionary.xz" if compressed else "dictionary")
    path.write_bytes(lzma.compress(DICTIONARY.encode()) if compressed else DICTIONARY.encode())
    assert read_pronunciations(path) == {"a": [phones("AH"), phones("EY")], "cat": [phones("K AE T")]}


@pytest.mark.parametrize(("line", "message"), [("cat K Q T", r":1: Q is no phone.*AA"), ("cat", ":1: expected a word")])
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "dictionary"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=message):
        read_pronunciations(path)


def test_damage_is_told(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.xz"
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"dictionary\.xz: cannot be read"):
        read_pronunciations(path)


def test_targets_hold_first_pronunciations_between_spaces(tmp_path: Path) -> None:
    """A text with an unknown word has none."""
    path = tmp_path / "dictionary"
    path.write_text(DICTIONARY)
    targets, lengths = phone_targets(["a cat", "a dog", "cat"], read_pronunciations(path))
    assert lengths.tolist() == [5, 0, 3]
    a_cat = [*phones("AH"), SPACE, *phones("K AE T")]
    assert torch.equal(targets, torch.tensor([a_cat, [0] * 5, [*phones("K AE T"), 0, 0]]))


PINYIN_DICTIONARY = """\
银 in2
行 x ing2
行(2) h ang2
银行 in2 | h ang2
我 uo3
"""


def test_the_phones_of_pinyin_are_initials_and_finals_with_tones(tmp_path: Path) -> None:
    path = tmp_path / "dictionary"
    path.write_text(PINYIN_DICTIONARY)
    found = read_pronunciations(path)
    assert found["行"] == [PINYIN.numbers(["x", "ing2"]), PINYIN.numbers(["h", "ang2"])]
    assert PINYIN.text(found["银行"][0]) == "in2 | h ang2"
    with pytest.raises(InputError, match=r":1: in2 is no phone of CMUdict: AA, AE"):
        read_pronunciations(path, CMUDICT)
    path.write_text("我 uo6\n")
    with pytest.raises(InputError, match=r":1: uo6 is no phone of pinyin: b, p"):
        read_pronunciations(path, PINYIN)


def test_ideographs_are_words_and_longer_words_are_read_as_a_whole(tmp_path: Path) -> None:
    """A word of the dictionary is taken where it stands, the longest one from the left; all syllables have bars."""
    path = tmp_path / "dictionary"
    path.write_text(PINYIN_DICTIONARY)
    targets, lengths = phone_targets(["我银行行", "我 行", "他"], read_pronunciations(path))
    texts = [PINYIN.text(row[:length].tolist()) for row, length in zip(targets, lengths.tolist(), strict=True)]
    assert texts == ["uo3 | in2 | h ang2 | x ing2", "uo3 | x ing2", ""]


def test_a_syllable_is_a_final_alone_or_after_an_initial() -> None:
    follows = PINYIN.follows
    assert follows is not None
    [b, a] = PINYIN.numbers(["b", "a1"])
    allowed = {(0, b), (0, a), (SPACE, b), (SPACE, a), (b, a), (a, SPACE), (a, 0), (0, 0)}
    pairs = itertools.product((0, SPACE, b, a), repeat=2)
    assert {pair for pair in pairs if follows[pair]} == allowed
    assert CMUDICT.follows is None


def test_a_model_with_other_outputs_than_those_of_known_phones_is_refused() -> None:
    assert [phone_set(len(each.tokens)) for each in PHONE_SETS] == list(PHONE_SETS)
    with pytest.raises(InputError, match="40 must be 41, the phones of CMUdict, or 203, the phones of pinyin"):
        phone_set(40)
