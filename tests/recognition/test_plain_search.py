"""A hot word that is found where other words are said hides no speech."""

import numpy as np
import pytest

from ds2.decoder.config import BeamConfig
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.recognition.calibration import WEIGHTS, Calibration, Judge
from ds2.recognition.decoding import make_beam_decoder, search_phones
from ds2.recognition.evidence import FEATURES
from ds2.recognition.plain_search import PlainSearch, with_hidden_words
from ds2.recognition.stream_hot_words import with_hot
from ds2.recognition.transcript import Transcript
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.recognition.words import Word
from ds2.text import Tokenizer

TOKENIZER = Tokenizer.from_texts(["a b c"])  # blank, space, a, b, c
SAID = [2, 0, 1, 0, 3, 0]  # "a b"
PLAIN = make_beam_decoder(TOKENIZER, BeamConfig(nbest=5), None, ["a", "b", "c"])
# A word that its frames do not spell is certainly wrong, and wrong words are no speech.
SPELLING = tuple(float(place == FEATURES.index("spelling")) for place in range(WEIGHTS))
JUDGE = Judge(Calibration(SPELLING, 4.0, least=0.5), TOKENIZER, 0, None)
BUILDER = TranscriptBuilder(TOKENIZER, 0.1, JUDGE, plain=PlainSearch(PLAIN, len(TOKENIZER)))


def said(certainty: float = 0.996) -> np.ndarray:
    """(T, V) log-probabilities of "a b"."""
    rows = np.full((len(SAID), len(TOKENIZER)), (1 - certainty) / (len(TOKENIZER) - 1), np.float32)
    rows[np.arange(len(SAID)), SAID] = certainty
    return np.log(rows)


def heard(hot: dict[str, float], rows: np.ndarray, builder: TranscriptBuilder = BUILDER) -> Transcript:
    beam = with_hot(PLAIN, TOKENIZER, hot)
    return builder(beam(rows[None], np.array([len(rows)]))[0], [rows], 1.0)


@pytest.mark.parametrize("hot", [{}, {"c": 1.0}, {"c": 20.0}, {"c c": 20.0}, {"c": 20.0, "b": 1.0}])
def test_a_hot_word_never_removes_speech(hot: dict[str, float]) -> None:
    found = heard(hot, said())
    assert found.text == "a b"
    assert [word.start for word in found.words] == [0.0, pytest.approx(0.4)]


def test_without_speech_a_hot_word_is_not_heard() -> None:
    noise = said(0.3)
    noise[:, 2:] = np.log(1e-4)
    assert heard({"c": 20.0}, noise).text == ""


def test_a_word_that_is_avoided_does_not_come_back() -> None:
    assert "b" not in heard({"b": -50.0}, said()).text.split()
    assert "b" not in heard({"b": -50.0, "c": 20.0}, said()).text.split()


def test_words_are_hidden_where_no_other_word_is_heard() -> None:
    heard = Transcript("c", (Word("c", 1.0, 1.6, 0.9),), 3.0)
    plain = Transcript("a b a", (Word("a", 0.2, 0.4, 0.8), Word("b", 1.5, 1.9, 0.7), Word("a", 2.0, 2.2, 0.6)), 3.0)
    found = with_hidden_words(heard, plain)
    assert (found.text, found.words) == ("a c a", (plain.words[0], heard.words[0], plain.words[2]))
    assert with_hidden_words(heard, Transcript("", (), 3.0)) == heard


@pytest.mark.parametrize(
    ("hot", "prefers"),
    [({}, False), ({"a": 1.0}, True), ({"a b": 1.0}, True), ({"a": -1.0}, False), ({"a": 1.0, "a b": -1.0}, False)],
)
def test_every_search_says_whether_it_prefers_words(hot: dict[str, float], prefers: bool) -> None:
    lm = NGram.from_orders(*estimate([["a", "b"], ["b"]], EstimateConfig(2)))
    phones = search_phones(TOKENIZER, BeamConfig(), lm, Pronunciations.of({"a": [(2, 3)], "b": [(3,)]}))
    rows = np.log(np.full((1, 4, len(TOKENIZER) + 4), 0.1, np.float32))
    plain, lengths = with_hot(PLAIN, TOKENIZER, hot), np.array([4])
    letters = rows[:, :, : len(TOKENIZER)]
    for found in (plain(letters, lengths), with_hot(phones, TOKENIZER, hot)(rows, lengths)):
        assert {each.hot for each in found[0]} == {prefers}
    assert not plain.without_hot()(letters, lengths)[0][0].hot
    assert not with_hot(phones, TOKENIZER, hot).without_hot()(rows, lengths)[0][0].hot
