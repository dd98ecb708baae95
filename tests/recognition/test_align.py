"""Alignment of real recordings, whose joins are known, by the bundled model."""

import dataclasses
import itertools
import json
import operator
import random
import shutil
import statistics
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from conftest import DIGITS

from ds2.bundle import Bundle
from ds2.recognition.align import align
from ds2.recognition.calibration import calibration_error
from ds2.recognition.confidence import is_doubtful
from ds2.recognition.recognizer import Recognizer
from ds2.utils.errors import InputError
from ds2.utils.model_names import locate

RATE = 8000
Span = tuple[float, float]


@pytest.fixture(scope="module")
def recognizer() -> Recognizer:
    return Recognizer.load("digits", "cpu")


def write_words(path: Path, seed: int, count: int = 6) -> tuple[list[str], list[Span]]:
    """Words of one FSDD speaker, test takes, with pauses in weak noise: what was said, and when (seconds)."""
    rng = random.Random(seed)
    rows = [json.loads(line) for line in (DIGITS / "utterances.jsonl").read_text().splitlines()]
    speaker = rng.choice(sorted({row["speaker"] for row in rows if row["source"] == "fsdd"}))
    rows = rng.sample(
        [row for row in rows if row["speaker"] == speaker and row["audio_filepath"].endswith(".flac")], count
    )
    parts, spans, position = [], [], 0
    for row in rows:
        pause = round(rng.uniform(0.1, 0.3) * RATE)
        start, frames = round(row["offset"] * RATE), round(row["duration"] * RATE)
        samples, _ = soundfile.read(DIGITS / row["audio_filepath"], start=start, frames=frames)
        parts += [np.zeros(pause), samples]
        position += pause + frames
        spans.append(((position - frames) / RATE, position / RATE))
    samples = np.concatenate([*parts, np.zeros(RATE // 5)])
    soundfile.write(path, samples + np.random.default_rng(seed).normal(0, 1e-3, len(samples)), RATE)
    return [row["text"] for row in rows], spans


def test_joins_of_connected_digits_are_found(recognizer: Recognizer, tmp_path: Path) -> None:
    """Median error of starts and ends below 40 ms, over 120 words of six speakers."""
    errors = []
    for seed in range(20):
        texts, spans = write_words(tmp_path / "string.wav", seed)
        words = align(recognizer, tmp_path / "string.wav", " ".join(texts)).transcript.words
        assert [word.text for word in words] == texts
        for word, (start, end) in zip(words, spans, strict=True):
            errors += [abs(word.start - start), abs(word.end - end)]
    assert statistics.median(errors) < 0.04


PHONES = {"zero": 4, "one": 3, "two": 2, "three": 3, "four": 3, "five": 3, "six": 4, "seven": 5, "eight": 2, "nine": 3}


@pytest.mark.skipif(shutil.which("flite") is None, reason="the speech synthesiser flite is not installed")
def test_a_model_with_damaged_weights_is_refused(tmp_path: Path) -> None:
    bundle = Bundle.load(locate("digits"))
    weights = {name: torch.full_like(weight, torch.nan) for name, weight in bundle.weights.items() if "output" in name}
    damaged = dataclasses.replace(bundle, weights=dict(bundle.weights) | weights)
    texts, _ = write_words(tmp_path / "string.wav", 0)
    with pytest.raises(InputError, match=r"string.wav: .* hold NaN"):
        align(Recognizer.from_bundle(damaged, "damaged"), tmp_path / "string.wav", " ".join(texts))


def test_a_synthesiser_agrees_on_when_it_spoke(recognizer: Recognizer, tmp_path: Path) -> None:
    """flite tells when each phone ends: median error of starts and ends below 40 ms, in voices it has."""
    rng, errors = random.Random(0), []
    for voice in ("kal", "slt", "rms", "awb"):
        for _ in range(10):
            texts = rng.sample(sorted(PHONES), 5)
            path = tmp_path / "string.wav"
            command = ["flite", "-voice", voice, "-psdur", "-t", " ".join(texts), "-o", str(path)]
            listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            words = align(recognizer, path, " ".join(texts)).transcript.words
            for word, (start, end) in zip(words, spoken(listing, texts), strict=True):
                errors += [abs(word.start - start), abs(word.end - end)]
    assert statistics.median(errors) < 0.04


def spoken(listing: list[str], texts: list[str]) -> list[Span]:
    """Spans of words from flite's list of phones and the time at which each ends."""
    spans, before = [], 0.0
    phones = []
    for entry in listing:
        phone, _, end = entry.partition(":")
        if phone != "pau":
            phones.append((before, float(end)))
        before = float(end)
    for text in texts:
        own, phones = phones[: PHONES[text]], phones[PHONES[text] :]
        spans.append((own[0][0], own[-1][1]))
    assert not phones
    return spans


def test_prose_and_lines_are_normalised(recognizer: Recognizer, tmp_path: Path) -> None:
    texts, _ = write_words(tmp_path / "string.wav", 1)
    prose = f"{texts[0].title()}, {texts[1]}!\n\n{' '.join(texts[2:])}."
    aligned = align(recognizer, tmp_path / "string.wav", prose)
    assert aligned.transcript.text == " ".join(texts)
    assert aligned.transcript.model == recognizer.name
    assert aligned.transcript.display == " ".join(prose.split())
    assert aligned.transcript.line_starts == (2,)
    assert not aligned.doubtful
    assert len(aligned.tokens) == len(aligned.starts) == len(" ".join(texts))


def test_confidence_is_the_probability_that_a_word_is_said_there(recognizer: Recognizer, tmp_path: Path) -> None:
    """Of 120 words ten are others than those in the recording: these are doubtful, and hardly any other word is."""
    confidences, right, doubtful = [], [], []
    for seed in range(20):
        texts, _ = write_words(tmp_path / "string.wav", seed)
        other = random.Random(seed).choice(sorted(set(PHONES) - set(texts)))
        given = [other if place == seed % 12 else text for place, text in enumerate(texts)]
        words = align(recognizer, tmp_path / "string.wav", " ".join(given)).transcript.words
        confidences += [word.confidence for word in words]
        right += [text == word for text, word in zip(texts, given, strict=True)]
        doubtful += [is_doubtful(word) for word in words]
    assert calibration_error(confidences, right) < 0.04
    assert sum(each and wrong for each, wrong in zip(doubtful, map(operator.not_, right), strict=True)) >= 8
    assert sum(each and said for each, said in zip(doubtful, right, strict=True)) <= 2


def test_progress_is_told_in_seconds_of_audio(recognizer: Recognizer, tmp_path: Path) -> None:
    texts, _ = write_words(tmp_path / "string.wav", 1)
    heard: list[float] = []
    aligned = align(recognizer, tmp_path / "string.wav", " ".join(texts), on_audio=heard.append)
    assert sum(heard) == pytest.approx(aligned.transcript.duration)


def test_untranscribed_speech_is_skipped_when_marked_or_asked(recognizer: Recognizer, tmp_path: Path) -> None:
    texts, spans = write_words(tmp_path / "string.wav", 2)
    for text, skip in ((f"{texts[0]} * {texts[-1]}", False), (f"{texts[0]}\n{texts[-1]}", True)):
        words = align(recognizer, tmp_path / "string.wav", text, skip).transcript.words
        assert [word.text for word in words] == [texts[0], texts[-1]]
        assert words[-1].start == pytest.approx(spans[-1][0], abs=0.15)


def test_a_text_of_another_recording_is_refused(recognizer: Recognizer, tmp_path: Path) -> None:
    write_words(tmp_path / "string.wav", 3)
    with pytest.raises(InputError, match=r"string\.wav: the transcript does not fit.* noise .* the option skip"):
        align(recognizer, tmp_path / "string.wav", "zero " * 3)
    with pytest.raises(InputError, match="does not fit: 4,000,000 characters for"):
        align(recognizer, tmp_path / "string.wav", "one " * 1_000_000)
    with pytest.raises(InputError, match=r"string\.wav: the transcript does not fit: .* tokens need at least"):
        align(recognizer, tmp_path / "string.wav", "seven " * 200)


@pytest.mark.parametrize(
    ("text", "message"), [("", "no words"), ("* *", "no words"), ("one\n\nten ж", "line 3 of the text: .ж.")]
)
def test_texts_that_cannot_be_aligned(recognizer: Recognizer, tmp_path: Path, text: str, message: str) -> None:
    write_words(tmp_path / "string.wav", 4)
    with pytest.raises(InputError, match=message):
        align(recognizer, tmp_path / "string.wav", text)


def test_log_probs_of_a_file_are_those_of_its_samples(recognizer: Recognizer, tmp_path: Path) -> None:
    """A long recording goes through the model in windows that overlap."""
    parts = []
    for seed in range(14):
        write_words(tmp_path / "string.wav", seed)
        parts.append(soundfile.read(tmp_path / "string.wav")[0])
    soundfile.write(tmp_path / "long.wav", np.concatenate(parts), RATE, subtype="FLOAT")
    windows = list(recognizer.iter_log_probs(tmp_path / "long.wav"))
    log_probs, samples = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*windows, strict=True))
    duration = sum(map(len, parts)) / RATE
    assert len(log_probs) == pytest.approx(duration / recognizer.model.config.frame_seconds, abs=2)
    assert torch.allclose(samples, torch.from_numpy(np.concatenate(parts)).float(), atol=1e-4)
    assert torch.allclose(log_probs.exp().sum(1), torch.ones(len(log_probs)), atol=1e-4)


def test_a_recording_faster_than_speech_is_asked_for_its_sample_rate(recognizer: Recognizer, tmp_path: Path) -> None:
    texts, _ = write_words(tmp_path / "string.wav", 6, 12)
    samples, _ = soundfile.read(tmp_path / "string.wav")
    soundfile.write(tmp_path / "fast.wav", samples, 3 * RATE)
    with pytest.raises(InputError, match=r"characters a second: is the sample rate in its header right"):
        align(recognizer, tmp_path / "fast.wav", " ".join(texts))


def test_characters_fill_their_word(recognizer: Recognizer, tmp_path: Path) -> None:
    texts, _ = write_words(tmp_path / "string.wav", 0)
    transcript = align(recognizer, tmp_path / "string.wav", " ".join(texts)).transcript
    left = list(transcript.characters)
    for word in transcript.words:
        own, left = left[: len(word.text)], left[len(word.text) :]
        assert "".join(character.text for character in own) == word.text
        assert (own[0].start, own[-1].end) == (word.start, word.end)
        assert all(a.end == b.start for a, b in itertools.pairwise(own))
        assert all(character.start <= character.end for character in own)
    assert not left


def test_numbers_are_read_in_the_language_of_the_model(recognizer: Recognizer, tmp_path: Path) -> None:
    """English for a model of the package unless a language is named; "" leaves figures as they are."""
    texts, _ = write_words(tmp_path / "string.wav", 1)
    figures = " ".join(str(list(PHONES).index(text)) for text in texts)
    assert align(recognizer, tmp_path / "string.wav", figures).transcript.text == " ".join(texts)
    with pytest.raises(InputError, match="name the language"):
        align(recognizer, tmp_path / "string.wav", figures, language="")


def test_speech_that_the_text_lacks_is_found(recognizer: Recognizer, tmp_path: Path) -> None:
    """Two of six digits are left out of the text: that is reported; with a star in their place, nothing is."""
    for seed in range(6):
        texts, spans = write_words(tmp_path / "string.wav", seed)
        assert not align(recognizer, tmp_path / "string.wav", " ".join(texts)).others
        lacking = align(recognizer, tmp_path / "string.wav", " ".join(texts[:2] + texts[4:])).transcript
        assert lacking.untranscribed
        assert all(spans[0][1] < start < end < spans[-1][0] for start, end in lacking.untranscribed)
        marked = align(recognizer, tmp_path / "string.wav", " ".join([*texts[:2], "*", *texts[4:]]))
        assert [speech.is_marked for speech in marked.others] == [True]
        assert not marked.transcript.untranscribed
        lines = f"{' '.join(texts[:2])}\n{' '.join(texts[4:])}"
        skipped = align(recognizer, tmp_path / "string.wav", lines, skip=True)
        assert skipped.transcript.untranscribed == tuple((speech.start, speech.end) for speech in marked.others)


def test_a_word_before_a_star_ends_where_it_was_said(recognizer: Recognizer, tmp_path: Path) -> None:
    """Other words follow after 0.1 to 0.3 s; they belong to the star."""
    for seed in range(6):
        texts, spans = write_words(tmp_path / "string.wav", seed)
        before, after = align(recognizer, tmp_path / "string.wav", f"{texts[0]} * {texts[-1]}").transcript.words
        assert before.end < spans[1][0]
        assert after.start > spans[-2][1] - 0.1
