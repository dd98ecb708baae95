"""ds2 align."""

import json
import re
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import textgrid
from helpers.commands import Outcome, assert_refused, write_noise

RECORDING = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "cv_00139.opus"


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
    words, characters = textgrid.TextGrid.fromFile(str(output / "0.TextGrid"))
    code, printed, _ = run("align", audio, tmp_path / "text.txt", "--model", "digits", "-o", tmp_path / "one.textgrid")
    assert (code, printed) == (0, f"{tmp_path / 'one.textgrid'}\n")
    assert (tmp_path / "one.textgrid").read_text() == (output / "0.TextGrid").read_text()
    assert [tier.name for tier in (words, characters)] == ["words", "characters"]
    assert "".join(interval.mark for interval in characters) == "".join(interval.mark for interval in words)


def test_the_json_of_an_alignment_says_what_standard_error_says(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    manifest = spoken_digits(1)
    said = json.loads(manifest.read_text())["text"]
    samples, rate = soundfile.read(manifest.parent / "0.wav")
    soundfile.write(tmp_path / "twice.wav", np.concatenate([samples, np.zeros(rate), samples]), rate)
    found = []
    for text in (f"{said} {said}", said, f"{said} nine {said}"):
        (tmp_path / "text.txt").write_text(text)
        command = "align", tmp_path / "twice.wav", tmp_path / "text.txt", "--model", "digits", "--format", "json"
        code, _, errors = run(*command, "-o", tmp_path)
        assert code == 0
        found.append(json.loads((tmp_path / "twice.json").read_text()))
        doubtful = [word["text"] for word in found[-1]["words"] if word["doubtful"]]
        assert [line.split("'")[1] for line in errors.splitlines() if "doubtful" in line] == doubtful
        spans = [f"ds2: {each['start']:.2f}-{each['end']:.2f} s" for each in found[-1]["untranscribed"]]
        assert [line.rpartition(": ")[0] for line in errors.splitlines() if "the text lacks" in line] == spans
    right, short, long = found
    assert right["untranscribed"] == []
    assert [word["doubtful"] for word in right["words"]] == [False, False]
    assert len(short["untranscribed"]) == 1
    assert [word["doubtful"] for word in long["words"]] == [False, True, False]


def test_align_draws_nothing_without_matplotlib(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = spoken_digits(1)
    (tmp_path / "text.txt").write_text(json.loads(manifest.read_text())["text"])
    arguments = "align", manifest.parent / "0.wav", tmp_path / "text.txt", "--model", "digits", "--output", tmp_path
    monkeypatch.setattr("ds2.utils.extras.find_spec", lambda name: None if name == "matplotlib" else find_spec(name))
    code, printed, errors = run(*arguments)
    assert (code, printed.split()) == (0, [str(tmp_path / f"0.{name}") for name in ("TextGrid", "json", "ctm")])
    assert "matplotlib" not in errors
    asked = "matplotlib is not installed; in ds2's checkout, pip install"
    assert_refused(run(*arguments, "--format", "png"), asked)


def test_align_takes_subtitles_for_their_text(run: Callable[..., Outcome], tmp_path: Path) -> None:
    audio, text = tmp_path / "a.opus", "Applicants must have resided in the country\nfor five years."
    shutil.copy(RECORDING, audio)
    first, second = text.split("\n")
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "a.srt").write_text(
        f"1\n00:00:01,000 --> 00:00:02,000\n{first}\n\n2\n00:00:02,000 --> 0\n<i>{second}</i>\n"
    )
    (tmp_path / "a.vtt").write_text(f"WEBVTT\n\nNOTE for\nyou\n\n00:01.000 --> 00:02.000\r\n{first}\n{second}\n")
    found = []
    for suffix in ("txt", "srt", "vtt"):
        assert run("align", audio, tmp_path / f"a.{suffix}", "-o", tmp_path / suffix, "--format", "ctm")[0] == 0
        found.append((tmp_path / suffix / "a.ctm").read_text())
    assert found[1:] == found[:1] * 2
    assert "years" in found[0]


SUBTITLES = [  # the recording says: applicants must have resided in the country for five years
    "[music]", "", "{\\an8}<i>Applicants</i>", "NARRATOR: Must  have\nresided (coughs) in-",
    ">> MARY: the country (R&B) for five", "...", "years. [door slams]\n\u266a",
]  # fmt: skip


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_the_cues_of_subtitles_remain(run: Callable[..., Outcome], tmp_path: Path, suffix: str) -> None:
    """As they are, with their markup, also those without words; and what is no speech has no part in their times."""
    texts = (
        [text.replace("&", "&amp;").replace(">>", "&gt;&gt;") for text in SUBTITLES] if suffix == "vtt" else SUBTITLES
    )
    settings, point = (" align:start", ".") if suffix == "vtt" else ("", ",")
    times = f"00:00:00{point}000 --> 00:00:01{point}000{settings}"
    blocks = [f"{number}\n{times}\n{text}\n" for number, text in enumerate(texts, 1)]
    begin = "WEBVTT\n\nNOTE of\nmine\n\n" if suffix == "vtt" else ""
    (tmp_path / f"a.{suffix}").write_text(begin + "\n".join(blocks))
    assert run("align", RECORDING, tmp_path / f"a.{suffix}", "-o", tmp_path / f"timed.{suffix}")[0] == 0
    written = (tmp_path / f"timed.{suffix}").read_text().removeprefix("WEBVTT\n\n").strip()
    timed = re.split(r"\n\n+", written)
    if suffix == "vtt":
        assert timed.pop(0) == "NOTE of\nmine"
    assert [block.split("\n")[0] for block in timed] == [str(number) for number in range(1, len(texts) + 1)]
    found = ["\n".join(block.split("\n")[2:]) for block in timed]
    spans = [next(line for line in block.split("\n") if "-->" in line) for block in timed]
    assert found == texts
    assert all(span.endswith(settings) for span in spans)
    seconds = [float(span[6:12].replace(",", ".")) for span in spans]
    assert seconds == sorted(seconds)
    (tmp_path / "plain.txt").write_text("Applicants\nmust have resided in\nthe country for five\nyears.")
    assert run("align", RECORDING, tmp_path / "plain.txt", "-o", tmp_path / "plain.json")[0] == 0
    words = {word["text"]: word["start"] for word in json.loads((tmp_path / "plain.json").read_text())["words"]}
    begins = [words[word] for word in ("applicants", "must", "the", "years")]
    assert [seconds[place] for place in (2, 3, 4, 6)] == pytest.approx(begins, abs=2e-3)
    assert run("align", RECORDING, tmp_path / f"a.{suffix}", "-o", tmp_path / "rows.tsv")[0] == 0
    rows = [line.split("\t") for line in (tmp_path / "rows.tsv").read_text().splitlines()[1:]]
    assert [float(start) / 1000 for start, _, _ in rows] == pytest.approx(begins, abs=2e-3)


def test_a_text_of_lines_keeps_them_in_each_format(run: Callable[..., Outcome], tmp_path: Path) -> None:
    lines = ["Applicants", "must have resided in", "the country for", "five years."]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    assert run("align", RECORDING, tmp_path / "lines.txt", "-o", tmp_path, "--format", "txt,tsv,json")[0] == 0
    name = RECORDING.stem
    assert (tmp_path / f"{name}.txt").read_text().splitlines() == lines
    rows = [line.split("\t") for line in (tmp_path / f"{name}.tsv").read_text().splitlines()[1:]]
    assert [text for _, _, text in rows] == lines
    segments = json.loads((tmp_path / f"{name}.json").read_text())["segments"]
    assert [each["display"] for each in segments] == lines
    assert [round(1000 * each["start"]) for each in segments] == [int(start) for start, _, _ in rows]


def test_align_refuses_in_one_line(run: Callable[..., Outcome], tmp_path: Path) -> None:
    audio = write_noise(tmp_path / "noise.wav")
    (tmp_path / "text.txt").write_text("one two three four five six seven eight nine")
    (tmp_path / "latin.txt").write_bytes(b"\xe9t\xe9")
    assert_refused(run("align", audio, tmp_path / "text.txt"), "noise.wav", "does not fit")
    assert_refused(run("align", tmp_path / "text.txt", audio), "text.txt is a text; name the recording first")
    assert_refused(run("align", audio, audio), "noise.wav is a recording; name the recording first, then its text")
    assert_refused(run("align", audio, tmp_path / "none.txt"), "none.txt", "cannot be read")
    assert_refused(run("align", audio, tmp_path / "latin.txt"), "latin.txt", "UTF-8")
    assert_refused(run("align", audio, tmp_path / "text.txt", "--format", "doc"), "doc", "TextGrid")


def test_align_takes_a_folder_with_texts_beside_the_recordings_or_in_another_folder(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    manifest = spoken_digits(4)
    corpus, texts = manifest.parent, tmp_path / "texts"
    texts.mkdir()
    spoken = [json.loads(line)["text"] for line in manifest.read_text().splitlines()]
    for number, suffix in enumerate((".txt", ".lab", ".txt")):
        (corpus / f"{number}{suffix}").write_text(spoken[number] if number < 2 else "привет")
        (texts / f"{number}{suffix}").write_text(spoken[number])
    arguments = "--model", "digits", "--format", "json"
    code, printed, errors = run("align", corpus, "--output", tmp_path / "a", *arguments)
    assert code == 1
    assert printed.split() == [str(tmp_path / "a" / f"{number}.json") for number in range(2)]
    assert json.loads((tmp_path / "a" / "1.json").read_text())["text"] == spoken[1]
    assert "2 aligned, 2 failed" in errors
    assert "line 1 of the text: 'привет': the model does not know" in errors
    assert "3.wav: no transcript for it: no 3.txt or 3.lab\n" in (tmp_path / "a" / "failed.txt").read_text()
    assert_refused(run("align", tmp_path / "none"), "none: no such recording")
    assert "ds2: no text NAME.txt or NAME.lab for " in errors
    assert errors.count("3.wav") == 1
    (corpus / "3.wav").unlink()
    code, printed, _ = run("align", corpus, texts, "--output", tmp_path / "b", *arguments)
    assert code == 0
    assert len(printed.split()) == 3
    assert not (tmp_path / "b" / "failed.txt").exists()
    assert_refused(run("align", corpus, texts / "0.txt"), "a folder of transcripts")
    assert_refused(run("align", corpus / "2.wav"), "2.wav: line 1 of the text: 'привет'", "spell it")


def test_align_reads_numbers_in_english_with_the_models_of_the_package(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    manifest = spoken_digits(1)
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    spoken = json.loads(manifest.read_text())["text"].split()
    figures = [str(names.index(word)) if word in names else word for word in spoken]
    assert figures != spoken
    (manifest.parent / "0.txt").write_text(" ".join(figures))
    arguments = "--model", "digits", "--format", "json", "--output", tmp_path
    assert run("align", manifest.parent / "0.wav", *arguments)[0] == 0
    assert json.loads((tmp_path / "0.json").read_text())["text"].split() == spoken
