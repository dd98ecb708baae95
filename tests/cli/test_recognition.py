"""ds2 eval."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused

from ds2.cli.references import comparable_references
from ds2.data.utterance import Utterance
from ds2.recognition.evaluate import comparable_case
from ds2.text import Tokenizer

DIGITS = Path(__file__).parents[2] / "recipes" / "digits" / "audio"


def test_eval_prints_rates_and_writes_the_listing(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    code, output, _ = run("eval", spoken_digits(20), "--model", "digits", "--listing", tmp_path / "errors.txt")
    assert code == 0
    assert output.startswith("WER ")
    assert "in 20 words): " in output
    assert "CER" in output
    counts = re.findall(r"\((\d+) errors in \d+ \w+\): (\d+) substituted, (\d+) deleted, (\d+) inserted", output)
    assert len(counts) == 2
    for total, *kinds in counts:
        assert int(total) == sum(map(int, kinds))
    seconds, computing, factor = map(
        float, re.findall(r"^(\d+) s of .* in ([\d.]+) s: real-time factor (.+)$", output, re.M)[0]
    )
    assert factor == pytest.approx(computing / seconds, rel=0.1, abs=0.02)  # seconds are printed whole
    assert (tmp_path / "errors.txt").read_text().startswith("WER ")


def test_eval_survives_missing_audio(run: Callable[..., Outcome], spoken_digits: Callable[[int], Path]) -> None:
    manifest = spoken_digits(3)
    (manifest.parent / "1.wav").unlink()
    code, output, errors = run("eval", manifest, "--model", "digits")
    assert code == 1
    assert "in 2 words" in output
    assert f"not measured: 1 of 3 utterances: {manifest.parent / '1.wav'}" in output
    assert "1.wav" in errors
    for number in (0, 2):
        (manifest.parent / f"{number}.wav").unlink()
    assert_refused(run("eval", manifest), "none of 3 utterances")


def test_eval_names_spans_beyond_the_end_of_a_recording(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path]
) -> None:
    manifest = spoken_digits(3)
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    spans = [{}, {"offset": 0.0}, {"offset": 0.05, "duration": 9.0}]
    manifest.write_text("".join(f"{json.dumps(row | span)}\n" for row, span in zip(rows, spans, strict=True)))
    code, _, errors = run("eval", manifest, "--model", "digits")
    assert code == 0
    [line] = [line for line in errors.splitlines() if "recording ends" in line]
    rest = rows[2]["duration"] - 0.05
    assert line == f"ds2: {manifest}:3: the recording ends after {rest:.2f} of the 9.00 s"


def test_eval_brings_references_to_the_normal_form(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path]
) -> None:
    manifest, names = spoken_digits(3), "zero one two three four five six seven eight nine".split()
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    changed = rows[0]["text"].upper(), f"{rows[1]['text']}!", f" {names.index(rows[2]['text'])}."
    rows = [row | {"text": text} for row, text in zip(rows, changed, strict=True)]
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    _, normal, told = run("eval", manifest, "--model", "digits")
    assert "WER 0.00%" in normal
    assert "ds2: the texts are taken in their normal form, as by --normalize en\n" in told
    assert "alphabet" not in told
    _, named, silent = run("eval", manifest, "--model", "digits", "--normalize", "en")
    assert "WER 0.00%" in named
    assert "normal form" not in silent
    _, with_figures, told = run("eval", manifest, "--model", "digits", "--normalize", "other")
    assert "WER 33.33%" in with_figures
    assert "beyond the model's alphabet" in told


def test_eval_takes_texts_of_a_language_in_its_normal_form(run: Callable[..., Outcome], tmp_path: Path) -> None:
    """Of others it says how many errors are the same words in another form."""
    manifest, audio = tmp_path / "dev.jsonl", DIGITS / "so762_000750026.opus"
    row = {"audio_filepath": str(audio), "duration": 2.0, "text": "five five oh six"}
    manifest.write_text(json.dumps(row) + "\n")
    _, plain, told = run("eval", manifest, "--model", "digits")
    assert "WER 25.00% (1 errors in 4 words)" in plain
    assert "ds2: 1 error fewer by --normalize en, which takes the same words in another form" in told
    manifest.write_text(json.dumps(row | {"lang": "en-US", "text": "five f\u00edve oh six"}) + "\n")
    _, normal, told = run("eval", manifest, "--model", "digits")
    assert "WER 0.00%" in normal
    assert "normal form" not in told  # in which they are
    assert "fewer" not in told
    assert "alphabet" not in told
    manifest.write_text(json.dumps(row | {"lang": "en", "text": "5, five oh six"}) + "\n")
    _, normal, told = run("eval", manifest, "--model", "digits")
    assert "WER 0.00%" in normal
    assert "ds2: the texts are taken in their normal form, as by --normalize en\n" in told
    _, output, _ = run("eval", manifest, "--model", "digits", "--against", manifest)
    assert f"against {manifest}: WER 0.00%" in output


def test_eval_compares_capitals_in_lower_case_where_the_model_has_none(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    """Those of a file of other texts, too; it is said in one line."""
    manifest = spoken_digits(3)
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    rows = [row | {"text": row["text"].upper() if number else row["text"]} for number, row in enumerate(rows)]
    manifest.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    _, output, errors = run("eval", manifest, "--model", "digits", "--against", manifest)
    assert "WER 0.00%" in output
    assert f"against {manifest}: WER 0.00%" in output
    assert "ds2: the model has no capitals: 2 references are compared in lower case\n" in errors
    assert "alphabet" not in errors
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text("".join(json.dumps(row | {"text": f"{row['text']}!"}) + "\n" for row in rows))
    _, output, errors = run("eval", manifest, "--model", "digits", "--against", theirs)
    assert f"against {theirs}: WER 0.00%" in output
    assert "ds2: the texts are taken in their normal form, as by --normalize en\n" in errors
    assert_refused(run("eval", manifest, "--normalize", "xx"), "Expected one of ('en', 'zh', 'other')")
    assert_refused(run("eval", manifest, "--normalize", "fr"), "--normalize: fr", "other, which leaves numbers as they")
    capitals = Tokenizer(["<blank>", "a", "Ä"])
    assert comparable_case(capitals)("Äa") == "Äa"


def test_eval_by_a_field(run: Callable[..., Outcome], spoken_digits: Callable[[int], Path]) -> None:
    code, output, _ = run("eval", spoken_digits(4), "--model", "digits", "--by", "duration")
    assert code == 0
    found = re.findall(r"^duration below 2 s: WER .*% \(95% interval .*%\), 4 words in 4 utterances$", output, re.M)
    assert len(found) == 1
    one = spoken_digits(1)
    assert_refused(run("eval", one, "--model", "digits", "--by", "accent"), "--by: no utterance")
    _, output, _ = run("eval", one, "--model", "digits", "--by", "speaker", "--by", "duration")
    assert "speaker theo: WER 0.00% (too few for an interval), 1 word in 1 utterance" in output
    assert "duration below 2 s: WER 0.00% (too few for an interval), 1 word in 1 utterance" in output


def test_eval_says_that_references_are_empty(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    manifest = spoken_digits(2)
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    for texts in (("", ""), ("", rows[1]["text"])):
        changed = [row | {"text": text} for row, text in zip(rows, texts, strict=True)]
        manifest.write_text("".join(f"{json.dumps(row)}\n" for row in changed))
        _, output, errors = run("eval", manifest, "--model", "digits")
        assert f"{texts.count('')} of 2 references are empty" in errors
        whole = "WER unknown: the references are empty, 2 words were recognised"
        assert (whole if not any(texts) else "WER 100.00% (1 errors in 1 words)") in output


def test_eval_against_others(run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path) -> None:
    """A person who is right, and another model; the page is written."""
    manifest = spoken_digits(4)
    options = ("--model", "digits", "--page", tmp_path / "worst.html")
    code, output, _ = run("eval", manifest, *options, "--against", manifest, "--against", "digits-streaming")
    assert code == 0
    assert f"against {manifest}: WER 0.00% (0 errors); difference " in output
    assert "against digits-streaming: WER " in output
    assert "against the best of 2 for each utterance: WER 0.00%" in output
    assert "permutation test by utterances: p = " in output
    assert "WER" in (tmp_path / "worst.html").read_text()
    (tmp_path / "theirs.txt").write_text("0.wav\tzero\n")
    refused = run("eval", manifest, "--model", "digits", "--against", tmp_path / "theirs.txt")
    assert_refused(refused, "theirs.txt", "no transcript of", "3 of 4")


@pytest.mark.parametrize(
    ("alphabet", "text", "hint"),
    [
        (" abcdefinv", "5 cafés", "--normalize en"),
        (" abcdefinv", "naø", ""),  # the normal form keeps it
        ("设定二十九度", "设定29度。", "--normalize zh"),
        (" abcdefinv", "设定二十九度", ""),
    ],
)
def test_a_hint_names_the_language_where_its_normal_form_helps(
    capsys: pytest.CaptureFixture[str], alphabet: str, text: str, hint: str
) -> None:
    comparable_references(Tokenizer(["<blank>", *alphabet]), [Utterance(Path("a.wav"), 1.0, text)], None)
    told = capsys.readouterr().err
    assert "beyond the model's alphabet" in told
    assert told.rstrip().endswith(f"; {hint} brings them to the normal form") == bool(hint)
    assert told.rstrip().endswith("; they are Chinese: take a model that writes it, such as --model mandarin") == (
        text == "设定二十九度"
    )
