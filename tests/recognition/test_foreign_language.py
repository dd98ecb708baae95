"""A recording in another language is said to be one, by the confidence of its words."""

import dataclasses

from ds2.recognition.foreign_language import foreign_warning
from ds2.recognition.formats import FORMATS
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.recognition.words import Word


def words(count: int, confidence: float, start: float = 0.0) -> tuple[Word, ...]:
    return tuple(Word("word", start + number, start + number + 0.5, confidence) for number in range(count))


def test_few_words_must_be_less_likely_than_many() -> None:
    warned = [foreign_warning(words(count, 0.3), 0, "own.safetensors") for count in (0, 4, 5, 6, 100)]
    expected = "does not sound like the speech that the model has learnt: 30% of the words are likely to be right"
    assert warned == ["", "", "", expected, expected]
    assert foreign_warning(words(10_000, 0.65), 0, "own.safetensors") == ""
    assert foreign_warning(words(20, 0.3), 0, "english").startswith("does not sound like English: ")
    assert foreign_warning(words(20, 0.3), 0, "mandarin").startswith("does not sound like Mandarin: ")


def test_speech_of_which_all_words_are_doubtful_is_no_silence() -> None:
    expected = "nothing sounds like English: 12 doubtful words were left out"
    assert Transcript("", (), 14.0, "english", calibrated=True, dropped=12).warning == expected
    assert Transcript("", (), 14.0, "english", calibrated=True, dropped=2).warning == ""


def test_only_calibrated_confidence_warns_in_json_and_of_channels() -> None:
    transcript, plain = (Transcript("", words(100, 0.2), 100.0, calibrated=calibrated) for calibrated in (True, False))
    assert "20% of the words" in transcript.warning
    assert f'"warning": "{transcript.warning}"' in FORMATS["json"](transcript, "a.wav")
    assert plain.warning == ""
    assert "warning" not in FORMATS["json"](plain, "a.wav")
    assert merge_channels([transcript, transcript]).warning
    others = dataclasses.replace(plain, words=words(100, 0.2, 200.0))
    assert not merge_channels([transcript, others]).warning
