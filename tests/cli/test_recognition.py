"""ds2 eval and align."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused, write_noise


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
    assert "1.wav" in errors
    for number in (0, 2):
        (manifest.parent / f"{number}.wav").unlink()
    assert_refused(run("eval", manifest), "none of 3 utterances")


def test_align_writes_every_format_and_a_picture(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    manifest = spoken_digits(1)
    text = json.loads(manifest.read_text())["text"]
    (tmp_path / "text.txt").write_text(f"\ufeff{text.upper()}!\n", encoding="utf-8")
    audio, output = manifest.parent / "0.wav", tmp_path / "aligned" / "here"
    arguments = "--model", "digits", "--output", output
    code, printed, _ = run("align", audio, tmp_path / "text.txt", *arguments)
    assert code == 0
    assert printed.split() == [str(output / f"0.{name}") for name in ("TextGrid", "json", "ctm", "png")]
    assert json.loads((output / "0.json").read_text())["text"] == text
    assert (output / "0.png").read_bytes().startswith(b"\x89PNG")


def test_align_refuses_in_one_line(run: Callable[..., Outcome], tmp_path: Path) -> None:
    audio = write_noise(tmp_path / "noise.wav")
    (tmp_path / "text.txt").write_text("one two three four five six seven eight nine")
    (tmp_path / "latin.txt").write_bytes(b"\xe9t\xe9")
    assert_refused(run("align", audio, tmp_path / "text.txt"), "noise.wav", "does not fit")
    assert_refused(run("align", audio, tmp_path / "none.txt"), "none.txt", "cannot be read")
    assert_refused(run("align", audio, tmp_path / "latin.txt"), "latin.txt", "UTF-8")
    assert_refused(run("align", audio, tmp_path / "text.txt", "--format", "doc"), "doc", "TextGrid")
