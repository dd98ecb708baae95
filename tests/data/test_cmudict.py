"""Pronouncing dictionaries, and the targets that they give."""

import lzma
from pathlib import Path

import pytest
import torch

from ds2.data.cmudict import INDEX, SPACE, phone_targets, read_pronunciations
from ds2.utils.errors import InputError

DICTIONARY = ";;; a comment\na AH0\na(2) EY1 # the letter\ncat  K AE1 T\ncat(2) K AE0 T\n"


def phones(text: str) -> tuple[int, ...]:
    return tuple(INDEX[phone] for phone in text.split())


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
