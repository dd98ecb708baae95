"""The second pass of a bundle: where it is used, where it is not, and how its weight is chosen."""

import dataclasses
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from helpers.neural import random_arrays

from ds2.bundle import Bundle
from ds2.cli.describe import describe_bundle
from ds2.cli.main import main
from ds2.data.manifest import read_manifest
from ds2.decoder.config import BeamConfig
from ds2.export.package import export
from ds2.lm.estimate import EstimateConfig, estimate
from ds2.lm.neural import NeuralModel
from ds2.lm.ngram import NGram
from ds2.metrics import ErrorCounts, word_errors
from ds2.model_record import NeuralModelPart
from ds2.recognition.bundled_search import bundled_model, with_decoder
from ds2.recognition.options import DecoderOptions
from ds2.recognition.recognizer import Recognizer
from ds2.recognition.transcript_builder import TranscriptBuilder
from ds2.recognition.tune_second_pass import BONUSES, KEPT, WEIGHTS, tune_second_pass, with_second_pass
from ds2.text import split_words

AUDIO = Path(__file__).parents[2] / "recipes" / "digits" / "audio"
RECORDINGS = [AUDIO / f"so762_{number}.opus" for number in ("000010035", "000010053", "000050028", "000050038")]
LETTERS = "efghinorstuvwxz"
PIECES = [*LETTERS, *(f"_{letter}" for letter in LETTERS)]
ARRAYS = random_arrays(PIECES, 8, 12, seed=3)


DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def with_neural_model(weight: float, bonus: float) -> Bundle:
    """The digits with a search that keeps many texts, and a model of random weights that prefers other words."""
    lm = NGram.from_orders(*estimate([[word] for word in DIGITS], EstimateConfig(1)))
    wide = BeamConfig(64, score_threshold=40.0, cumulative_probability=1.0, closed=True)
    bundle = with_decoder(
        dataclasses.replace(Bundle.load("digits-streaming"), vocabulary=None, confidence=None), wide, lm
    )
    tensors = {key: torch.from_numpy(values) for key, values in ARRAYS.items()}
    return dataclasses.replace(bundle, neural_model=NeuralModelPart(PIECES, weight, bonus, 0.5, tensors))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    with_neural_model(3.0, 0.5).save(path)
    return path


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    texts = {
        row["audio_filepath"]: row["text"]
        for row in map(json.loads, (AUDIO / "utterances.jsonl").read_text().splitlines())
    }
    path = tmp_path / "tuning.jsonl"
    rows = [{"audio_filepath": str(each), "duration": 3.0, "text": texts[each.name]} for each in RECORDINGS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def first_pass(recognizer: Recognizer) -> Recognizer:
    """The same without the second pass."""
    builder: TranscriptBuilder = dataclasses.replace(recognizer.builder, rescorer=None)
    return Recognizer(recognizer.model, recognizer.tokenizer, recognizer.beam, builder)


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_transcripts_hold_the_text_of_the_best_sum(path: Path, engine: str) -> None:
    recognizer = Recognizer.load(path, engine=engine)  # type: ignore[arg-type]
    neural, decode, changed = NeuralModel(PIECES, ARRAYS), recognizer.tokenizer.decode, 0
    for recording in RECORDINGS:
        [(_, _, rows)] = recognizer.log_probs_of_files([recording])
        assert isinstance(rows, np.ndarray)
        [nbest] = first_pass(recognizer).nbest([rows])
        scores: dict[str, float] = {}
        for each in nbest:
            words = split_words(decode(each.tokens))
            scores.setdefault(
                " ".join(words), each.score - 0.5 * each.gains + 3.0 * neural.score(words) + 0.5 * len(words)
            )
        best = max(scores, key=lambda text: scores[text])
        assert recognizer.transcribe(recording).text == best
        changed += best != " ".join(split_words(decode(nbest[0].tokens)))
    assert changed  # else this test would not see whether the model is used


def test_live_streams_weigh_anew_too(path: Path) -> None:
    recognizer = Recognizer.load(path)
    for recording in RECORDINGS:
        samples, rate = soundfile.read(recording, dtype="float32")
        found = []
        for each in (recognizer, first_pass(recognizer)):
            stream = each.stream()
            stream.accept(samples, rate)
            found.append(" ".join(transcript.text for transcript in stream.finish()))
        if found[0] != found[1]:
            return
    pytest.fail("the second pass changed nothing")


def test_a_model_of_most_of_the_words_keeps_it(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    NGram.from_orders(*estimate([[*DIGITS[:6], "ten"]], EstimateConfig(1))).save(tmp_path / "lm")
    own, other = (Recognizer.load(path, options=DecoderOptions(lm=lm)).builder for lm in (None, tmp_path / "lm"))
    assert own.rescorer is not None
    assert other.rescorer is not None
    assert (other.rescorer.weight, other.rescorer.kept) == (own.rescorer.weight, own.rescorer.kept) == (3.0, 0.5)
    assert "neural language model" not in caplog.text


def test_what_english_has_fitted_stays_beside_its_own_words_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The confidence of words, and with it what is left out as noise and the warning of another language."""
    lm = bundled_model(Bundle.load("english", "numpy"))
    assert lm is not None
    lm.save(tmp_path / "lm")
    builder = Recognizer.load("english", options=DecoderOptions(lm=tmp_path / "lm")).builder
    assert builder.judge is not None
    assert builder.rescorer is not None
    assert not caplog.messages
    NGram.from_orders(*estimate([["one", "two"]], EstimateConfig(1))).save(tmp_path / "lm")
    assert Recognizer.load("english", options=DecoderOptions(lm=tmp_path / "lm")).builder.judge is None
    assert "lm: the confidence of words is not fitted to it, and words in noise are not left out" in caplog.messages


def test_a_model_of_other_words_leaves_it_out(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    NGram.from_orders(*estimate([["one", "two"]], EstimateConfig(1))).save(tmp_path / "lm")
    assert Recognizer.load(path, options=DecoderOptions(lm=tmp_path / "lm")).builder.rescorer is None
    assert "lm: it also takes the place of the model's own neural language model" in caplog.text
    assert Recognizer.load(path, options=DecoderOptions(beam=0)).builder.rescorer is None
    own = Recognizer.load(path, options=DecoderOptions(rescore=tmp_path / "lm")).builder.rescorer
    assert own is not None
    assert isinstance(own.lm, NGram)


def test_it_stays_in_the_bundle_and_is_named(path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.safetensors"
    Bundle.load(path).save(again)
    assert again.read_bytes() == path.read_bytes()
    assert "second pass: neural language model, 30 pieces, weight 3" in describe_bundle(path)


def test_an_exported_model_leaves_it_out(path: Path, tmp_path: Path) -> None:
    export(str(path), tmp_path / "exported")
    Recognizer.load(tmp_path / "exported" / "model.onnx")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_a_type_that_numpy_lacks_is_refused(path: Path, dtype: torch.dtype) -> None:
    bundle = Bundle.load(path)
    assert bundle.neural_model is not None
    arrays = {**bundle.neural_model.arrays, "gate_bias": torch.zeros(48, dtype=dtype)}
    damaged = dataclasses.replace(bundle, neural_model=dataclasses.replace(bundle.neural_model, arrays=arrays))
    with pytest.raises(ValueError, match="neural language model is damaged"):
        Recognizer.from_bundle(damaged, "model")


def test_the_chosen_weight_gives_the_rate_that_it_promises(path: Path, manifest: Path) -> None:
    """Both rates are those of transcripts; no point of the grids does better than the chosen one's neighbours."""
    bundle, utterances = Bundle.load(path), read_manifest(manifest)
    recognizer = Recognizer.from_bundle(bundle, "model")
    heard: list[None] = []
    chosen = tune_second_pass(recognizer, utterances, lambda: heard.append(None))
    assert len(heard) == len(utterances)
    assert chosen.after <= chosen.before
    tuned = Recognizer.from_bundle(with_second_pass(bundle, chosen), "model")
    for each, promised in ((first_pass(recognizer), chosen.before), (tuned, chosen.after)):
        texts = [each.transcribe(utterance.span.path).text for utterance in utterances]
        errors = (word_errors(utterance.text, text) for utterance, text in zip(utterances, texts, strict=True))
        assert sum(errors, ErrorCounts()).rate == pytest.approx(promised)
    for grid, value in ((KEPT, chosen.kept), (WEIGHTS, chosen.weight), (BONUSES, chosen.bonus)):
        assert any(np.isclose(grid, value))


def test_tune_decoder_chooses_it_after_the_search(
    path: Path, manifest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "tuned.safetensors"
    assert main(["tune-decoder", str(manifest), "--model", str(path), "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    before, after = re.findall(r"^WER (.*) before, (.*) after", printed, re.MULTILINE)[0]
    for each, shown in ((path, before), (output, after)):
        assert main(["eval", str(manifest), "--model", str(each)]) == 0
        assert f"WER {shown} " in capsys.readouterr().out
    tuned = Bundle.load(output).neural_model
    assert tuned is not None
    assert (tuned.weight, tuned.bonus) != (3.0, 0.5)


def test_recordings_that_cannot_be_read_are_named(path: Path, tmp_path: Path) -> None:
    shutil.copy(RECORDINGS[0], tmp_path / "good.opus")
    (tmp_path / "bad.opus").write_bytes(b"no sound")
    manifest = tmp_path / "two.jsonl"
    rows = [{"audio_filepath": name, "duration": 1.0, "text": "one"} for name in ("good.opus", "bad.opus")]
    manifest.write_text("".join(json.dumps(row) + "\n" for row in rows))
    recognizer = Recognizer.load(path)
    chosen = tune_second_pass(recognizer, read_manifest(manifest))
    [line] = chosen.skipped
    assert "bad.opus" in line
    (tmp_path / "good.opus").write_bytes(b"none either")
    with pytest.raises(ValueError, match="none of 2 utterances can be read"):
        tune_second_pass(recognizer, read_manifest(manifest))


def test_another_model_in_place_of_the_neural_one_is_told(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be far worse: the neural one belongs to the search."""
    words, orders = estimate([["ab"], ["aab", "ab"]], EstimateConfig(2))
    NGram.from_orders(words, orders).save(tmp_path / "other.lm")
    Recognizer.load(path, options=DecoderOptions(rescore=tmp_path / "other.lm"))
    assert "rescore: it takes the place of the model's own neural language model" in caplog.messages
