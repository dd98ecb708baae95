"""Hot words with letters that a model lacks."""

from pathlib import Path

import pytest

import ds2
from ds2.recognition.hot_spelling import hot_spelt_by, spelt_by
from ds2.text import Tokenizer

TOKENIZER = Tokenizer(["<blank>", " ", *"abcdefghijklmnopqrstuvwxyz'"])
READING = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "cv_00139.opus"


@pytest.mark.parametrize(
    ("word", "spelt"),
    [("zürich", "zurich"), ("łódź straße", "lodz strasse"), ("renée's", "renee's"), ("ǿ", "o"), ("привет", "привет")],
)
def test_letters_lose_the_marks_that_a_model_lacks(word: str, spelt: str) -> None:
    assert spelt_by(TOKENIZER, word) == spelt
    assert hot_spelt_by(TOKENIZER, {word: 2.0}) == {spelt: 2.0}


def test_letters_that_a_model_knows_stay() -> None:
    assert spelt_by(Tokenizer(["<blank>", *"zürich"]), "zürich") == "zürich"


def test_a_hot_word_with_marks_is_found_and_written_so() -> None:
    recognizer = ds2.load("english", "cpu", hot=["Résided=8", "cöuntry=8", "Привет", "aд"])
    found = recognizer.transcribe(READING)
    assert found.text == ds2.load("english", "cpu").transcribe(READING).text
    assert "Résided" in found.display
