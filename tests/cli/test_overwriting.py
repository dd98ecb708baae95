"""No command writes over what it reads."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused

from ds2.utils.model_names import MODELS
from ds2.utils.own_files import is_own

RECORDING = Path(__file__).parents[2] / "recipes" / "english" / "audio" / "libri_00088.opus"
REFUSED = "is an input and would be overwritten"
COMMANDS = (
    "lm build {file} -o {file} --language en",
    "lm mix {other} {file} --weights 0.5 0.5 -o {file}",
    "lm prune {file} -o {file} --threshold 1e-4",
    "lm compile {file} -o {file}",
    "eval {file} --listing {file}",
    "eval {file} --page {file}",
    "eval {other} --against {file} --calibration {file}",
    "segment {other} {file} -o {file}",
    "data stats {file} --picture {file}",
    "data merge {other} {file} -o {file}",
    "average {other} {file} -o {file}",
    "tune-decoder {file} --model {other} -o {file}",
    "transcribe {file} -o {file}",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_that_is_an_input_is_refused(run: Callable[..., Outcome], tmp_path: Path, command: str) -> None:
    file, other = tmp_path / "file.txt", tmp_path / "other.txt"
    for path in (file, other):
        path.write_text("my own text\n")
    link = tmp_path / "link.txt"  # another name of the same file
    link.symlink_to(file)
    first, last = command.rsplit("{file}", 1)
    arguments = f"{first.format(file=file, other=other)}{link}{last.format(file=file)}".split()
    assert_refused(run(*arguments), REFUSED)
    assert file.read_text() == other.read_text() == "my own text\n"


def test_a_model_may_be_tuned_in_place(run: Callable[..., Outcome], tmp_path: Path) -> None:
    model = shutil.copy(MODELS / "digits.safetensors", tmp_path)
    outcome = run("tune-decoder", tmp_path / "none.jsonl", "--model", model, "-o", model)
    assert_refused(outcome, "none.jsonl")


def test_the_text_beside_a_recording_is_kept(run: Callable[..., Outcome], tmp_path: Path) -> None:
    audio, text = tmp_path / "talk.opus", tmp_path / "talk.txt"
    shutil.copy(RECORDING, audio)
    text.write_text("my own text\n")
    assert_refused(run("transcribe", audio, "--output", tmp_path), "talk.txt: lies beside its recording")
    assert_refused(run("align", audio, text, "--output", tmp_path, "--format", "txt,srt"), REFUSED)
    other = tmp_path / "other.lab"
    other.write_text("some text\n")
    beside = run("align", audio, other, "--output", tmp_path, "--format", "txt,srt")
    assert_refused(beside, "talk.txt: lies beside its recording")
    assert text.read_text() == "my own text\n"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["other.lab", "talk.opus", "talk.txt"]


@pytest.mark.parametrize("suffix", ["txt", "srt", "vtt"])
def test_texts_of_ones_own_beside_a_recording_are_kept(
    run: Callable[..., Outcome], tmp_path: Path, suffix: str
) -> None:
    audio, text = tmp_path / "talk.opus", tmp_path / f"talk.{suffix}"
    shutil.copy(RECORDING, audio)
    text.write_text("my own text\n")
    command = "transcribe", audio, "--model", "digits"
    assert_refused(run(*command, "-o", tmp_path, "--format", suffix), f"talk.{suffix}: lies beside its recording")
    assert_refused(run(*command, "-o", text), f"talk.{suffix}: lies beside its recording")
    assert run(*command, "-o", tmp_path, "--format", f"{suffix},json", "--skip-existing")[0] == 0
    assert text.read_text() == "my own text\n"
    assert (tmp_path / "talk.json").exists()
    assert run(*command, "-o", tmp_path / f"other.{suffix}")[0] == 0  # named on purpose
    assert run(*command, "-o", tmp_path / f"other.{suffix}")[0] == 0


def test_a_text_that_ds2_wrote_is_replaced_until_somebody_changes_it(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    audio, text = tmp_path / "talk.opus", tmp_path / "talk.txt"
    shutil.copy(RECORDING, audio)
    command = "transcribe", audio, "--model", "digits", "-o", tmp_path
    assert run(*command)[0] == 0
    if not is_own(text):
        pytest.skip("no extended attributes on this file system")
    assert run(*command)[0] == 0
    text.write_text(text.read_text().replace("one", "two"))
    assert_refused(run(*command), "talk.txt: lies beside its recording")


@pytest.mark.parametrize("suffix", ["json", "srt", "vtt", "TextGrid"])
def test_a_recording_named_like_a_transcript_is_kept(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    audio, link, text = tmp_path / f"talk.{suffix}", Path("found", f"talk.{suffix}"), tmp_path / "text.txt"
    shutil.copy(RECORDING, audio)
    link.parent.mkdir()
    link.symlink_to(audio)
    text.write_text("my own text\n")
    for output in (".", "found"):
        for command in (["transcribe", audio], ["align", audio, text]):
            outcome = run(*command, "--format", suffix, "--output", output, "--model", "digits")
            assert_refused(outcome, f"talk.{suffix}: {REFUSED}")
    assert_refused(run("transcribe", "talk.*", "--output", audio, "--model", "digits"), REFUSED)
    assert audio.read_bytes() == RECORDING.read_bytes()
    assert sorted(tmp_path.rglob("*")) == sorted([audio, text, link.parent.absolute(), link.absolute()])


def test_a_recording_in_place_of_a_picture_is_kept(run: Callable[..., Outcome], tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("my own text\n")
    audio = tmp_path / "talk.png"
    shutil.copy(RECORDING, audio)
    assert_refused(run("align", audio, text, "--output", tmp_path, "--model", "digits"), f"talk.png: {REFUSED}")
    page = tmp_path / "talk_at_30s.png"  # of the recording named here
    shutil.copy(RECORDING, tmp_path / "talk.opus")
    page.symlink_to(text)
    outcome = run("align", tmp_path / "talk.opus", text, "--output", tmp_path, "--model", "digits")
    assert_refused(outcome, f"talk_at_30s.png: {REFUSED}")
    assert audio.read_bytes() == RECORDING.read_bytes()
    assert text.read_text() == "my own text\n"


def test_a_manifest_in_place_of_a_transcript_is_kept(
    run: Callable[..., Outcome], tmp_path: Path, spoken_digits: Callable[[int], Path]
) -> None:
    manifest = spoken_digits(1)
    lines = manifest.read_bytes()
    (tmp_path / "found").mkdir()
    (tmp_path / "found" / "0.json").symlink_to(manifest)
    command = "transcribe", manifest, "--output", tmp_path / "found", "--model", "digits", "--format", "json"
    assert_refused(run(*command), f"0.json: {REFUSED}")
    assert manifest.read_bytes() == lines
    assert run(*command, "--skip-existing", "--quiet")[0] == 0  # nothing is written over


def test_the_texts_of_other_recordings_of_a_folder_are_kept(run: Callable[..., Outcome], tmp_path: Path) -> None:
    """The text of one recording has the name that the output of another one gets."""
    recordings = [tmp_path / "x" / "a.opus", tmp_path / "y" / "a.opus", tmp_path / "z" / "x_a.opus.opus"]
    for audio in recordings:
        audio.parent.mkdir()
        shutil.copy(RECORDING, audio)
        audio.with_suffix(".txt").write_text("my own text\n")
    outcome = run("align", tmp_path, "--output", tmp_path / "z", "--format", "txt", "--model", "digits")
    assert_refused(outcome, f"x_a.opus.txt: {REFUSED}")
    assert all(audio.with_suffix(".txt").read_text() == "my own text\n" for audio in recordings)
    assert len(list(tmp_path.rglob("*.*"))) == 2 * len(recordings)


def test_a_text_in_place_of_the_list_of_failures_is_kept(run: Callable[..., Outcome], tmp_path: Path) -> None:
    for name in ("failed", "good"):
        shutil.copy(RECORDING, tmp_path / f"{name}.opus")
        (tmp_path / f"{name}.txt").write_text("my own text\n")
    outcome = run("align", tmp_path, "--output", tmp_path, "--format", "json", "--model", "digits")
    assert_refused(outcome, f"failed.txt: {REFUSED}")
    assert (tmp_path / "failed.txt").read_text() == "my own text\n"


@pytest.mark.parametrize("name", ["kept.jsonl", "rejected.jsonl", "filter.json", "filter.png"])
def test_filter_keeps_the_manifest_and_the_checked_texts(
    run: Callable[..., Outcome], tmp_path: Path, spoken_digits: Callable[[int], Path], name: str
) -> None:
    manifest = spoken_digits(20)
    taken = manifest.rename(manifest.with_name(name))
    lines = taken.read_bytes()
    arguments = "--output", taken.parent, "--model", "digits"
    assert_refused(run("filter", taken, *arguments, "--keep", "0.5"), f"{name}: {REFUSED}")
    other = tmp_path / "other.jsonl"
    other.write_text(taken.read_text())
    assert_refused(run("filter", other, *arguments, "--checked", taken), f"{name}: {REFUSED}")
    assert taken.read_bytes() == lines
    assert len(list(taken.parent.iterdir())) == 21


def test_earlier_transcripts_are_replaced_aloud(run: Callable[..., Outcome], tmp_path: Path) -> None:
    audio, output = tmp_path / "talk.opus", tmp_path / "found"
    shutil.copy(RECORDING, audio)
    assert run("transcribe", audio, "--output", output) == (0, "", "")
    code, _, said = run("transcribe", audio, "--output", output)
    assert code == 0
    assert said == f"ds2: {output}: earlier transcripts that are replaced: 1\n"


@pytest.mark.parametrize("command", ["tune-decoder", "calibrate"])
def test_a_model_by_name_is_not_written_over(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], command: str
) -> None:
    """A file that is not there is no model of the package."""
    manifest = spoken_digits(1)
    assert_refused(run(command, manifest, "--model", "digits"), "--output: digits is a model of the package")
    assert_refused(run(command, manifest, "--model", "gone.safetensors"), "gone.safetensors: cannot read")


@pytest.mark.parametrize(
    "command", ["average digits digits", "calibrate {file} --model digits", "tune-decoder {file} --model digits"]
)
def test_a_bundle_takes_no_place_of_another_file(run: Callable[..., Outcome], tmp_path: Path, command: str) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text("")
    other = tmp_path / "other.jsonl"
    other.write_text("my own lines\n")
    assert_refused(
        run(*command.format(file=file).split(), "-o", str(other)), "the name of a bundle ends in .safetensors"
    )
    assert other.read_text() == "my own lines\n"
