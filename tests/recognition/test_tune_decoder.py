"""ds2 tune-decoder: from a manifest to weights in the bundle."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ds2
from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.data.cmudict import read_pronunciations
from ds2.data.manifest import read_manifest
from ds2.data.phone_sets import CMUDICT
from ds2.data.utterance import RecordingSpan
from ds2.decoder.beam import BeamDecoder
from ds2.decoder.config import BeamConfig
from ds2.decoder.phone_search import PronouncingDecoder
from ds2.decoder.pronunciations import Pronunciations
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.ngram import NGram
from ds2.recognition.bundled_search import bundled_pronunciations, with_decoder
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.tune_decoder import THRESHOLDS, Tuning, candidate_bundle, log_prior, tune, tuned_bundle

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
STRINGS = ("so762_000010035", "so762_000010053", "so762_000050028", "so762_000050038")


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    rows = map(json.loads, (AUDIO / "utterances.jsonl").read_text().splitlines())
    texts = {row["audio_filepath"]: row["text"] for row in rows}
    lines = [
        json.dumps({"audio_filepath": str(AUDIO / f"{name}.opus"), "duration": 3.0, "text": texts[f"{name}.opus"]})
        for name in STRINGS
    ]
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def lm(tmp_path: Path) -> Path:
    digits = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    NGram.from_orders(*estimate([[word] for word in digits], EstimateConfig(1))).save(tmp_path / "lm")
    return tmp_path / "lm"


def test_weights_and_model_are_written_and_used(
    dev: Path, lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, picture = tmp_path / "tuned.safetensors", tmp_path / "surface.png"
    source = Path(ds2.__file__).parent / "models" / "digits.safetensors"
    arguments = [str(dev), "--model", str(source), "--lm", str(lm), "--output", str(bundle), "--picture", str(picture)]
    assert main(["tune-decoder", *arguments]) == 0
    printed, warnings = capsys.readouterr()
    line, weights, search = printed.splitlines()
    assert "characters of text are few, chance decides: take 20,000 or more" in warnings
    assert line.startswith("WER ")
    assert str(bundle) in line
    assert re.fullmatch(r"search: lm_weight .*, word_bonus .*, beam \d+, threshold \d+", weights)
    assert re.fullmatch(r"search by itself: WER [\d.]+% before, [\d.]+% after; no search at all: [\d.]+%", search)
    assert picture.read_bytes().startswith(b"\x89PNG")
    chosen = Bundle.load(bundle).decoder
    recognizer = ds2.load(bundle)
    assert recognizer.beam is not None
    assert recognizer.beam.config.lm_weight == chosen["lm_weight"]
    assert recognizer.transcribe(AUDIO / f"{STRINGS[0]}.opus").text


def test_a_bundle_without_a_language_model_needs_one(dev: Path, tiny_bundle: Path) -> None:
    before = tiny_bundle.read_bytes()
    assert main(["tune-decoder", str(dev), "--model", str(tiny_bundle)]) == 2
    assert tiny_bundle.read_bytes() == before


def test_a_packaged_model_is_not_written_over(dev: Path, lm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune-decoder", str(dev), "--model", "digits", "--lm", str(lm)]) == 2
    assert "--output" in capsys.readouterr().err
    assert not Path("digits").exists()


def test_references_beyond_the_alphabet_are_told(
    dev: Path, lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in dev.read_text().splitlines()]
    rows[0]["text"] += " Ein\u00f8"
    dev.write_text("\n".join(map(json.dumps, rows)))
    arguments = [str(dev), "--model", "digits"]
    assert main(["tune-decoder", *arguments, "--lm", str(lm), "--output", str(tmp_path / "b.safetensors")]) == 0
    assert main(["eval", *arguments]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len([line for line in lines if "references hold characters" in line and "'\u00f8'" in line]) == 2


DIGITS = "zero Z IH R OW\none W AH N\ntwo T UW\nfour F AO R\nfour(2) F R\n"


@pytest.fixture
def hears_phones(tmp_path: Path) -> Path:
    """The packaged model of digits, with a second output layer that says any phone."""
    source = Bundle.load("digits")
    hidden, phones = source.config["hidden"], len(CMUDICT.tokens)
    generator = torch.Generator().manual_seed(1)
    layer = {"phone_output.weight": torch.randn(phones, hidden, generator=generator)}
    layer["phone_output.bias"] = torch.zeros(phones)
    whole = replace(source, weights=source.weights | layer, config={**source.config, "phones": phones})
    replace(whole, vocabulary=None).save(tmp_path / "phones.safetensors")
    return tmp_path / "phones.safetensors"


def test_with_a_lexicon_the_search_is_by_phones(
    dev: Path, lm: Path, hears_phones: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The bundle keeps the pronunciations; letters remain for greedy decoding, other models and words without any."""
    lexicon, tuned, clip = tmp_path / "lexicon.txt", tmp_path / "tuned.safetensors", AUDIO / f"{STRINGS[0]}.opus"
    lexicon.write_text(DIGITS)
    greedy = ds2.load(hears_phones).transcribe(clip).text
    bundle, spoken = Bundle.load(hears_phones), Pronunciations.of(read_pronunciations(lexicon))
    candidate = candidate_bundle(bundle, NGram.load(lm), spoken)
    tuning = tune(Recognizer.load(hears_phones), bundle, candidate, read_manifest(dev))
    tuned_bundle(candidate, tuning).save(tuned)
    assert tuning.config.score_threshold in THRESHOLDS
    found = bundled_pronunciations(Bundle.load(tuned))
    assert found is not None
    assert found.to_dict() == read_pronunciations(lexicon)
    recognizer = ds2.load(tuned)
    assert isinstance(recognizer.beam, PronouncingDecoder)
    transcript = recognizer.transcribe(clip)
    assert transcript.text != greedy
    assert {word.text for word in transcript.words} <= {"zero", "one", "two", "four"}
    assert Recognizer.load(tuned, options=DecoderOptions(beam=0)).transcribe(clip).text == greedy
    assert isinstance(Recognizer.load(tuned, options=DecoderOptions(hot=("two",))).beam, PronouncingDecoder)
    assert "lm: without a pronunciation, and not found unless hot, are 6 of its 10 words: " in caplog.text
    assert "ds2 tune-decoder takes pronunciations from a lexicon" in caplog.text
    caplog.clear()
    for options in (
        DecoderOptions(hot=("fort", "tenor iii", "25")),
        DecoderOptions(lm=lm),
    ):  # letters alone would be no words
        assert isinstance(Recognizer.load(tuned, options=options).beam, PronouncingDecoder)
    assert "hot: fort, tenor: unknown to the model; how that sounds is guessed from the letters" in caplog.text
    assert "hot: 25, iii: without a pronunciation, and not found; write numbers as words" in caplog.text
    assert "lm: it knows 10 words, and besides hot words no other is found" in caplog.text
    NGram.from_orders(*estimate([list("one"), list("two")], EstimateConfig(1))).save(tmp_path / "letters")
    options = DecoderOptions(lm=tmp_path / "letters")
    assert isinstance(Recognizer.load(tuned, options=options).beam, BeamDecoder)


def test_a_lexicon_adds_to_the_pronunciations_of_the_bundle(lm: Path, hears_phones: Path, tmp_path: Path) -> None:
    """Its own words stay, also with another language model; of a word in both the added pronunciations count."""
    (tmp_path / "own.txt").write_text(DIGITS)
    (tmp_path / "more.txt").write_text("four F AO\nfive F AY V\n")
    bundle, model = Bundle.load(hears_phones), NGram.load(lm)
    first, second = (read_pronunciations(tmp_path / name) for name in ("own.txt", "more.txt"))
    bundle = candidate_bundle(bundle, model, Pronunciations.of(first))
    for other in (None, model):
        found = bundled_pronunciations(candidate_bundle(bundle, other, Pronunciations.of(second)))
        assert found is not None
        assert found.to_dict() == first | second


def test_what_is_worse_than_before_is_not_written(
    dev: Path, lm: Path, hears_phones: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its letters are right, its phones know nothing."""
    (tmp_path / "lexicon.txt").write_text(DIGITS)
    before = hears_phones.read_bytes()
    options = ["--model", str(hears_phones), "--lm", str(lm), "--lexicon", str(tmp_path / "lexicon.txt")]
    assert main(["tune-decoder", str(dev), *options]) == 1
    assert re.search(r"^WER 6.25% before, [\d.]+% after: .* nothing is written", capsys.readouterr().out)
    assert hears_phones.read_bytes() == before


def test_tuning_again_is_not_worse(dev: Path, lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A search of the bundle's own that is closed remains closed; what was found before takes part."""
    bundle = Bundle.load("digits-streaming")
    path = tmp_path / "model.safetensors"
    own = BeamConfig(beam_width=7, score_threshold=5.5, lm_weight=0.123, word_bonus=0.456, closed=True)
    with_decoder(bundle, own, NGram.load(lm)).save(path)
    assert main(["tune-decoder", str(dev), "--model", str(path)]) == 0
    before, after = re.findall(r"^WER ([\d.]+)% before, ([\d.]+)% after", capsys.readouterr().out)[0]
    assert float(after) <= float(before)
    tuned = Bundle.load(path)
    assert tuned.decoder is not None
    assert tuned.decoder["closed"]
    assert tuned.vocabulary == bundle.vocabulary


def test_priors_are_the_means_of_the_phones_alone() -> None:
    """Two letters, two phones of p (0.9, 0.1) and (0.6, 0.4), a biphone of any score, in two utterances."""
    rows = [torch.tensor([[0.5, 0.5, 0.9, 0.1, 0.3]]).log(), torch.tensor([[0.2, 0.8, 0.6, 0.4, 1.0]]).log()]
    torch.testing.assert_close(log_prior(rows, 2, 2).exp(), torch.tensor([1.0, 1.0, 0.75, 0.25, 1.0]))


def test_a_prior_in_the_bias_is_one_taken_off_the_scores(hears_phones: Path) -> None:
    """What is found by the tuned bundle has the log-probabilities less the priors, normalised again."""
    before, prior = Bundle.load(hears_phones), torch.linspace(-3, 0, len(CMUDICT.tokens))
    tuning = Tuning(BeamConfig(), 1.0, 1.0, {}, {}, "WER", 1.0, [], prior)
    tuned_bundle(before, tuning).save(hears_phones.with_name("tuned.safetensors"))
    [first, second] = [
        torch.from_numpy(
            next(Recognizer.load(path).log_probs_of_files([RecordingSpan(AUDIO / f"{STRINGS[0]}.opus")]))[2]
        )
        for path in (hears_phones, hears_phones.with_name("tuned.safetensors"))
    ]
    tokens = len(before.tokens)
    torch.testing.assert_close(second[:, :tokens], first[:, :tokens])
    torch.testing.assert_close(second[:, tokens:], (first[:, tokens:] - prior).log_softmax(1), atol=1e-5, rtol=1e-4)


def test_a_lexicon_needs_a_model_that_knows_phones(
    dev: Path, lm: Path, tiny_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lexicon.txt").write_text(DIGITS)
    options = ["--model", str(tiny_bundle), "--lm", str(lm), "--lexicon", str(tmp_path / "lexicon.txt")]
    assert main(["tune-decoder", str(dev), *options]) == 2
    assert "no outputs for phones" in capsys.readouterr().err


def test_a_lexicon_of_another_language_is_refused(
    dev: Path, lm: Path, hears_phones: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its phones have numbers, too."""
    (tmp_path / "lexicon.txt").write_text("one uan4\n")
    options = ["--model", str(hears_phones), "--lm", str(lm), "--lexicon", str(tmp_path / "lexicon.txt")]
    assert main(["tune-decoder", str(dev), *options]) == 2
    assert "lexicon.txt:1: uan4 is no phone of CMUdict" in capsys.readouterr().err


def test_prose_is_compared_in_the_form_of_the_model(
    dev: Path, lm: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in dev.read_text().splitlines()]
    dev.write_text("".join(json.dumps(row | {"text": row["text"].title()}) + "\n" for row in rows))
    bundle = tmp_path / "b.safetensors"
    command = ["tune-decoder", str(dev), "--model", "digits", "--lm", str(lm), "--output", str(bundle)]
    assert main(command) == 0
    printed, warned = capsys.readouterr()
    assert float(re.findall(r"WER ([\d.]+)% before", printed)[0]) < 50
    assert f"the model has no capitals: {len(rows)} references are compared in lower case" in warned
