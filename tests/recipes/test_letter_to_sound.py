"""Letter-to-sound, learned from a handful of words."""

import importlib
from pathlib import Path
from typing import Any

import pytest

from ds2.data.cmudict import INDEX, TOKENS

RECIPE = Path(__file__).parents[2] / "recipes" / "english"
DICTIONARY = {
    "cat": "K AE T", "cats": "K AE T S", "tack": "T AE K", "sack": "S AE K", "sat": "S AE T", "at": "AE T",
    "tax": "T AE K S", "ax": "AE K S", "sax": "S AE K S", "back": "B AE K", "bat": "B AE T", "city": "S IH T IY",
    "cite": "S AY T", "bite": "B AY T", "kit": "K IH T", "bit": "B IH T", "sit": "S IH T",
    "mat": "M AE T", "mask": "M AE S K",
}  # fmt: skip


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(RECIPE)  # as for its scripts: the cache of machine code knows the module by this name
    known = {word: [tuple(INDEX[each] for each in phones.split())] for word, phones in DICTIONARY.items()}
    return importlib.import_module("letter_to_sound").LetterToSound(known)


def spoken(learner: Any, word: str) -> str:
    return " ".join(TOKENS[phone] for phone in learner.pronounce(word))


def test_letters_stand_for_none_one_or_two_phones(learner: Any) -> None:
    """A new word is put together from letters in the contexts that were seen: silent e, x of two phones, hard c."""
    assert spoken(learner, "site") == "S AY T"
    assert spoken(learner, "bax") == "B AE K S"
    assert spoken(learner, "cab") == "K AE B"
    assert spoken(learner, "mack") == "M AE K"


def test_known_words_come_out_as_they_were(learner: Any) -> None:
    assert {word: spoken(learner, word) for word in DICTIONARY} == DICTIONARY


def test_what_is_no_letter_is_silent(learner: Any) -> None:
    assert learner.pronounce("é1") == ()
