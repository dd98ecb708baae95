"""Whoever names a language model that shares few words with the model is told so."""

import dataclasses
from pathlib import Path

import pytest

from ds2.bundle import Bundle
from ds2.decoder.config import BeamConfig
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.recognition.bundled_search import with_decoder
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tune_decoder import candidate_bundle


def model(*sentences: str) -> NGram:
    return NGram.from_orders(*estimate([sentence.split() for sentence in sentences], EstimateConfig(2)))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A language model of words that an alphabet of a, b and c spells in part."""
    path = tmp_path / "other.lm"
    model("ab cab", "ab bac xa ya za", "xy").save(path)
    return path


def test_a_search_model_that_is_spelt_in_part(
    tiny_bundle: Path, saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Recognizer.load(tiny_bundle, options=DecoderOptions(lm=saved))
    [line] = caplog.messages
    assert line == "lm: the model can spell 3 of its 7 words, but not xa, xy, ya and 1 more"
    caplog.clear()
    model("ab cab", "ab xa").save(tmp_path / "mine.lm")
    Recognizer.load(tiny_bundle, options=DecoderOptions(lm=tmp_path / "mine.lm"))
    assert caplog.messages == []


def test_a_search_model_over_other_letters(tiny_bundle: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model("x y z a").save(tmp_path / "letters.lm")
    Recognizer.load(tiny_bundle, options=DecoderOptions(lm=tmp_path / "letters.lm"))
    assert [line.split(",")[0] for line in caplog.messages] == ["lm: the model can spell 1 of its 4 words"]


@pytest.mark.parametrize("bundled", [True, False])
def test_a_search_model_of_words_that_were_not_learnt(
    tiny_bundle: Path, saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, bundled: bool
) -> None:
    bundle = dataclasses.replace(Bundle.load(tiny_bundle), vocabulary=None if bundled else ["ab", "aab", "aac"])
    bundle = with_decoder(bundle, BeamConfig(), model("ab aab aac")) if bundled else bundle
    bundle.save(tmp_path / "knowing.safetensors")
    Recognizer.load(tmp_path / "knowing.safetensors", options=DecoderOptions(lm=saved))
    assert caplog.messages[-1] == ("lm: the model knows 1 of its 7 words, but not bac, cab, xa and 3 more")


def test_a_search_model_to_tune(tiny_bundle: Path, saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    candidate_bundle(Bundle.load(tiny_bundle), NGram.load(saved), None)
    assert caplog.messages == ["lm: the model can spell 3 of its 7 words, but not xa, xy, ya and 1 more"]


@pytest.mark.parametrize("bundled", [True, False])
def test_a_second_pass_that_lacks_the_words_of_the_search(
    tiny_bundle: Path, saved: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, bundled: bool
) -> None:
    bundle = dataclasses.replace(Bundle.load(tiny_bundle), vocabulary=None if bundled else ["ab", "aab", "aac"])
    bundle = with_decoder(bundle, BeamConfig(), model("ab aab", "aac", "aab aac")) if bundled else bundle
    bundle.save(tmp_path / "knowing.safetensors")
    Recognizer.load(tmp_path / "knowing.safetensors", options=DecoderOptions(rescore=saved))
    assert caplog.messages[-1] == ("rescore: it knows 1 of the search's 3 words, but not aab, aac")
    caplog.clear()
    model("ab aab", "x y z xx yy zz").save(tmp_path / "larger.lm")
    Recognizer.load(tmp_path / "knowing.safetensors", options=DecoderOptions(rescore=tmp_path / "larger.lm"))
    assert "rescore" not in caplog.text
