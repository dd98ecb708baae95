"""Punctuation: display forms of words, and the tagger in a bundle."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ds2.bundle import Bundle
from ds2.model_record import PunctuationPart
from ds2.recognition.formats import to_json, to_srt
from ds2.recognition.options import DecoderOptions
from ds2.recognition.punctuation import AT_ONCE, BLOCK, DILATIONS, ENDINGS, MARKS, Punctuator, number_of, shapes
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.recognition.words import Word
from ds2.text import Tokenizer
from ds2.utils.errors import InputError

WORDS = ["well", "end", "john", "other"]


@pytest.fixture
def weights() -> dict[str, np.ndarray]:
    """A comma follows `well`, a full stop `end`; `john` has a capital. The LSTM's outputs are not looked at."""
    found = {name: np.zeros(shape, np.float32) for name, shape in shapes(len(WORDS), 4, 4, 2).items()}
    found["embedding.weight"][:4] = np.eye(4)
    found["convolutions.0.weight"][:, 4:8] = np.eye(4)  # from the word itself
    found["output.weight"][[1, 2, 4], [0, 1, 2]] = 2.0
    found["output.bias"][:] = [1.0, 0.0, 0.0, 0.0, -1.0]
    return found


@pytest.fixture
def punctuator(weights: dict[str, np.ndarray]) -> Punctuator:
    return Punctuator(WORDS, weights)


def bundled(bundle: Bundle, weights: dict[str, np.ndarray], words: list[str] = WORDS) -> Bundle:
    tensors = {name: torch.from_numpy(values).half() for name, values in weights.items()}
    return replace(bundle, punctuation=PunctuationPart(words, arrays=tensors))


def test_words_get_marks_and_capitals(punctuator: Punctuator) -> None:
    assert punctuator("well other john end other other".split()) == "Well, other John end. Other other.".split()
    assert punctuator("other usa end tv".split())[1:3] == ["USA", "end."]
    assert punctuator("other phd end tv".split())[1] == "PhD"
    assert punctuator([]) == []
    typed = punctuator.with_forms({"well": "WELL", "iphone": "iPhone"})
    assert typed("well iphone tv end".split()) == "WELL, iPhone TV end.".split()
    phrased = punctuator.with_forms({"iphone tv": "iPhone Tv", "end of": "END of"})
    assert phrased("iphone tv iphone end".split()) == "iPhone Tv iphone end.".split()
    # No mark is set within a phrase; one without capitals begins a sentence with one.
    assert punctuator("well end other".split())[:2] == ["Well,", "end."]
    assert punctuator.with_forms({"well end": "well end"})("well end other".split())[:2] == ["Well", "end."]
    [shown] = punctuator(["unheard"])
    assert shown[0] == "U"
    assert shown[-1] in (MARKS[2], MARKS[3])  # the last word ends a sentence


def test_silence_has_the_keys_of_speech_in_json(punctuator: Punctuator) -> None:
    tokenizer = Tokenizer.from_texts(["a b"])
    builder = TranscriptBuilder(tokenizer, 0.02, punctuator=punctuator)
    silent = builder.joined([], 1.0)
    spoken = builder.joined([Transcript("a", (Word("a", 0.0, 0.5, 1.0),), 1.0)], 1.0)
    for transcript in (silent, merge_channels([silent, silent])):
        assert json.loads(transcript.to_json()).keys() == json.loads(spoken.to_json()).keys()
        assert json.loads(transcript.to_json())["display"] == ""
    assert "display" not in TranscriptBuilder(tokenizer, 0.02).joined([], 1.0).to_json()


def test_long_texts_are_tagged_in_blocks(weights: dict[str, np.ndarray]) -> None:
    generator = np.random.default_rng(0)
    random = {name: generator.normal(0, 0.3, values.shape).astype(np.float32) for name, values in weights.items()}
    punctuator, words = Punctuator(WORDS, random), generator.choice(WORDS, (AT_ONCE + 1) * BLOCK + 7).tolist()
    np.testing.assert_allclose(punctuator.scores(words), punctuator._scores([words])[0], atol=1e-5)


def test_the_scores_are_those_of_torchs_layers() -> None:
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(len(WORDS) + ENDINGS, 8)
    convolutions = [
        torch.nn.Conv1d(8 if number == 0 else 12, 12, 3, padding=dilation, dilation=dilation)
        for number, dilation in enumerate(DILATIONS)
    ]
    lstm, output = torch.nn.LSTM(12, 5, bidirectional=True, batch_first=True), torch.nn.Linear(22, len(MARKS) + 1)
    layers = {"embedding": embedding, "lstm": lstm, "output": output}
    layers |= {f"convolutions.{number}": layer for number, layer in enumerate(convolutions)}
    weights = {f"{name}.{key}": value for name, layer in layers.items() for key, value in layer.state_dict().items()}
    for number, layer in enumerate(convolutions):  # the words before, at and after the place, beside each other
        weights[f"convolutions.{number}.weight"] = layer.weight.detach().transpose(1, 2).flatten(1)
    punctuator = Punctuator(WORDS, {name: value.numpy() for name, value in weights.items()})
    words = "well end who knows john and the other other end".split()
    with torch.inference_mode():
        hidden = embedding(torch.tensor([[number_of(word, punctuator.index) for word in words]])).transpose(1, 2)
        for number, layer in enumerate(convolutions):
            hidden = (hidden if number else 0) + layer(hidden).relu()
        hidden = hidden.transpose(1, 2)
        expected = output(torch.cat([hidden, lstm(hidden)[0]], 2))[0]
    np.testing.assert_allclose(punctuator.scores(words), expected.numpy(), atol=1e-5)


def test_a_bundle_carries_it(weights: dict[str, np.ndarray], tiny_bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "with.safetensors"
    bundled(Bundle.load(tiny_bundle), weights).save(path)
    for arrays in ("torch", "numpy"):
        again = Punctuator.from_bundle(Bundle.load(path, arrays))
        assert again is not None
        assert again("well other".split()) == ["Well,", "other."]
    assert Punctuator.from_bundle(Bundle.load(tiny_bundle)) is None
    noise = torch.randn(8000, generator=torch.Generator().manual_seed(0))
    transcript = Recognizer.load(path, "cpu").transcribe(noise, 8000)
    assert transcript.words
    assert transcript.display[-1] in ".?"
    assert transcript.text == transcript.text.lower()
    assert transcript.to_txt() == transcript.display + "\n"
    plain = Recognizer.load(path, "cpu", DecoderOptions(punctuate=False)).transcribe(noise, 8000)
    assert plain.display == plain.text == transcript.text


def test_a_damaged_tagger_is_refused(weights: dict[str, np.ndarray], tiny_bundle: Path) -> None:
    bundle = Bundle.load(tiny_bundle)
    with pytest.raises(InputError, match="punctuation is damaged"):
        Punctuator.from_bundle(bundled(bundle, weights, ["a", "b"]))
    for name in ("output.bias", "embedding.weight", "lstm.weight_hh_l0"):
        fewer = {key: values for key, values in weights.items() if key != name}
        with pytest.raises(InputError, match="punctuation is damaged"):
            Punctuator.from_bundle(bundled(bundle, fewer))
    whole = {name: values.astype(np.int8) if name == "output.bias" else values for name, values in weights.items()}
    with pytest.raises(InputError, match="punctuation is damaged"):  # whole numbers
        Punctuator(WORDS, whole)
    tensors = {name: torch.from_numpy(values).bfloat16() for name, values in weights.items()}
    with pytest.raises(InputError, match="punctuation is damaged"):  # a type that numpy lacks
        Punctuator.from_bundle(replace(bundle, punctuation=PunctuationPart(WORDS, arrays=tensors)))


def test_files_show_the_display_form() -> None:
    words = (Word("where", 0.0, 0.4, 1.0, "Where"), Word("now", 0.5, 0.9, 1.0, "now?"))
    transcript = Transcript("where now", words, 1.0)
    assert "\nWhere now?\n" in to_srt(transcript, "")
    assert '"text": "where now"' in to_json(transcript, "")
    assert '"display": "Where now?"' in to_json(transcript, "")
    assert "display" not in to_json(Transcript("a", (Word("a", 0.0, 0.1, 1.0),), 1.0), "")
    assert transcript.to_txt() == "Where now?\n"
    assert [line.split()[4] for line in transcript.to_ctm().splitlines()] == ["where", "now"]
