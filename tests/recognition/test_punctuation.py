"""Punctuation: display forms of words, and the tagger in a bundle."""

from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle
from ds2.recognition.formats import to_json, to_srt
from ds2.recognition.options import DecoderOptions
from ds2.recognition.punctuation import MARKS, Punctuator, Tagger, TaggerConfig
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, Word
from ds2.utils.errors import InputError, ParameterError


@pytest.fixture
def punctuator() -> Punctuator:
    """A tagger that has learnt three words by heart: a comma follows `well`, a stop `end`; `john` has a capital."""
    words = ["well", "end", "john", "other"]
    torch.manual_seed(0)
    tagger = Tagger(TaggerConfig(len(words), 8, 16, 2))
    texts = torch.randint(4, (64, 20))
    marks, capitals = torch.tensor([1, 2, 0, 0])[texts], (texts == 2).float()
    optimizer = torch.optim.Adam(tagger.parameters(), 0.02)
    for _ in range(60):
        scores, odds = tagger(texts)
        loss = torch.nn.functional.cross_entropy(scores.flatten(0, 1), marks.flatten())
        loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(odds, capitals)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return Punctuator(words, tagger)


def test_words_get_marks_and_capitals(punctuator: Punctuator) -> None:
    assert punctuator("well other john end other other".split()) == "Well, other John end. Other other.".split()
    assert punctuator([]) == []
    [shown] = punctuator(["unheard"])
    assert shown[0] == "U"
    assert shown[-1] in (MARKS[2], MARKS[3])  # the last word ends a sentence


def test_a_bundle_carries_it(punctuator: Punctuator, tiny_bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "with.safetensors"
    punctuator.added_to(Bundle.load(tiny_bundle), {"f1": {"comma": 0.5}}).save(path)
    again = Punctuator.from_bundle(Bundle.load(path))
    assert again is not None
    assert again("well other".split()) == ["Well,", "other."]
    assert Punctuator.from_bundle(Bundle.load(tiny_bundle)) is None
    noise = torch.randn(8000, generator=torch.Generator().manual_seed(0))
    transcript = Recognizer.load(path, "cpu").transcribe(noise, 8000)
    assert transcript.words
    assert transcript.display[-1] in ".?"
    assert transcript.text == transcript.text.lower()
    asked = Recognizer.load(path, "cpu", DecoderOptions(punctuate=True)).transcribe(noise, 8000)
    assert asked.text == transcript.display
    with pytest.raises(ParameterError, match="has no punctuation"):
        Recognizer.load(tiny_bundle, "cpu", DecoderOptions(punctuate=True))


def test_a_damaged_tagger_is_refused(punctuator: Punctuator, tiny_bundle: Path) -> None:
    bundle = punctuator.added_to(Bundle.load(tiny_bundle), {})
    bundle.punctuation.pop("first.weight")
    with pytest.raises(InputError, match="punctuation is damaged"):
        Punctuator.from_bundle(bundle)
    bundle = punctuator.added_to(Bundle.load(tiny_bundle), {})
    bundle.metadata["punctuation"]["words"] = ["a", "b"]
    with pytest.raises(InputError, match="punctuation is damaged"):
        Punctuator.from_bundle(bundle)


def test_subtitles_and_json_show_the_display_form() -> None:
    words = (Word("where", 0.0, 0.4, 1.0, "Where"), Word("now", 0.5, 0.9, 1.0, "now?"))
    transcript = Transcript("where now", words, 1.0)
    assert "\nWhere now?\n" in to_srt(transcript, "")
    assert '"text": "where now"' in to_json(transcript, "")
    assert '"display": "Where now?"' in to_json(transcript, "")
    assert "display" not in to_json(Transcript("a", (Word("a", 0.0, 0.1, 1.0),), 1.0), "")
    assert transcript.punctuated.to_txt() == "Where now?\n"
