"""ds2 data ...: each command on real recordings, and how it refuses."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ds2.cli.data import report_skipped
from ds2.cli.main import main
from ds2.data.manifest import read_manifest, write_manifest

DIGITS = Path(__file__).parents[2] / "recipes" / "digits" / "audio"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """run(arguments...) -> (exit code, standard output, standard error)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        return main(["data", *map(str, arguments)]), *capsys.readouterr()

    return call


def test_stats_in_figures_and_as_a_picture(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    code, output, _ = run("stats", spoken_digits(6), "--picture", tmp_path / "p.png")
    assert code == 0
    assert "6 utterances" in output
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_split_merge_and_sample(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    manifest = spoken_digits(20)
    assert run("split", manifest, "--output", tmp_path / "s", "--dev", 0.2, "--test", 0.2, "--by", "utterance")[0] == 0
    parts = [tmp_path / "s" / f"{part}.jsonl" for part in ("train", "dev", "test")]
    assert run("merge", *parts, manifest, "-o", tmp_path / "all.jsonl")[1].endswith(
        "20 utterances, 20 repetitions left out\n"
    )
    assert {u.audio_path for u in read_manifest(tmp_path / "all.jsonl")} == {
        u.audio_path for u in read_manifest(manifest)
    }
    (manifest.parent / "twice.jsonl").write_text(2 * manifest.read_text())
    printed = run("merge", manifest.parent / "twice.jsonl", "-o", tmp_path / "new" / "once.jsonl")[1]
    assert printed.endswith("20 utterances, 20 repetitions left out\n")
    assert run("sample", manifest, "--hours", 0.0005, "-o", tmp_path / "few.jsonl")[0] == 0
    assert 1 <= len(read_manifest(tmp_path / "few.jsonl")) < 20
    assert "h, not 9: the sample is the whole" in run("sample", manifest, "--hours", 9, "-o", tmp_path / "few.jsonl")[2]
    code, _, errors = run("split", manifest, "--output", tmp_path / "t")
    assert code == 2
    assert "1 speaker cannot be cut into 3" in errors


def test_train_is_written_last(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    """Recipes take it as the sign that all parts are there."""
    (tmp_path / "s" / "test.jsonl").mkdir(parents=True)  # in the way
    assert run("split", spoken_digits(9), "--output", tmp_path / "s", "--by", "utterance")[0] == 2
    assert (tmp_path / "s" / "dev.jsonl").exists()
    assert not (tmp_path / "s" / "train.jsonl").exists()


def test_validate_finds_wrong_lines_beside_all_others(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    manifest = spoken_digits(2)
    good = manifest.read_text()
    manifest.write_text(good + '{"audio_filepath": "0.wav", "duration": 0, "text": "one"}\nno JSON\n')
    report = tmp_path / "report.jsonl"
    code, printed, _ = run("validate", manifest, "--report", report, "--clean", tmp_path / "clean")
    assert code == 1
    assert "2 utterances and 2 wrong lines, 2 with findings: 2 wrong line" in printed
    found = [json.loads(line) for line in report.read_text().splitlines()]
    assert [each["place"] for each in found] == [f"{manifest}:3", f"{manifest}:4"]
    assert found[0]["message"].startswith("duration must be positive seconds")
    assert len((tmp_path / "clean" / manifest.name).read_text().splitlines()) == 2


def test_validate_writes_no_clean_manifest_over_another(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    manifests = [tmp_path / part / "manifest.jsonl" for part in ("train", "dev")]
    for manifest, utterance in zip(manifests, read_manifest(spoken_digits(2)), strict=True):
        manifest.parent.mkdir()
        write_manifest(manifest, [utterance])
    code, _, errors = run("validate", *manifests, "--clean", tmp_path / "clean")
    assert code == 2
    assert "two manifests have the same name" in errors
    assert not (tmp_path / "clean").exists()


def test_split_leaves_no_part_of_an_earlier_run_and_says_so(
    run: Callable, spoken_digits: Callable, tmp_path: Path
) -> None:
    arguments = ["split", spoken_digits(9), "--output", tmp_path / "s", "--by", "utterance"]
    assert run(*arguments)[::2] == (0, "")
    told = f"ds2: {tmp_path / 's' / 'test.jsonl'}: of an earlier split, removed: this one has no test set\n"
    assert run(*arguments, "--test", 0)[::2] == (0, told)
    assert sorted(path.name for path in (tmp_path / "s").iterdir()) == ["dev.jsonl", "train.jsonl"]


def test_split_replaces_no_manifest_of_another_corpus(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    """Such as the official test set."""
    (tmp_path / "s").mkdir()
    write_manifest(tmp_path / "s" / "test.jsonl", read_manifest(spoken_digits(1)))
    before = (tmp_path / "s" / "test.jsonl").read_bytes()
    code, _, errors = run("split", spoken_digits(9), "--output", tmp_path / "s", "--by", "utterance", "--test", 0)
    assert code == 2
    assert "test.jsonl:1: is not of the manifest to split; name another folder" in errors
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["test.jsonl"]
    assert (tmp_path / "s" / "test.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "--clean", "."],
        ["validate", "--report", "./train.jsonl"],
        ["split", "--output", "."],
        ["sample", "--hours", 1, "--output", "train.jsonl"],
        ["convert", "--output", "train.jsonl"],
        ["mix", "--output", "here"],
        ["shard", "--output", "here"],
    ],
)
def test_no_command_writes_over_what_it_reads(
    run: Callable, spoken_digits: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list
) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = Path("here/manifest.jsonl" if "here" in arguments else "train.jsonl")
    manifest.parent.mkdir(exist_ok=True)
    write_manifest(manifest, read_manifest(spoken_digits(3)))
    before = manifest.read_bytes()
    command, *options = arguments
    code, _, errors = run(command, manifest, *options)
    assert (code, manifest.read_bytes()) == (2, before)
    assert f"{manifest}: is an input and would be overwritten" in errors


def test_clean_manifests_get_a_folder(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    code, _, errors = run("validate", spoken_digits(3), "--clean", tmp_path / "clean.jsonl")
    assert (code, list(tmp_path.glob("clean*"))) == (2, [])
    assert "clean.jsonl: name a folder" in errors


def test_every_file_left_out_is_named(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    manifest = spoken_digits(1)
    gone = [{"audio_filepath": f"gone{number}.wav", "duration": 1, "text": "x"} for number in range(30)]
    manifest.write_text(manifest.read_text() + "".join(json.dumps(row) + "\n" for row in gone))
    code, _, errors = run("convert", manifest, "-o", tmp_path / "m.jsonl")
    assert code == 1
    assert all(row["audio_filepath"] in errors for row in gone)
    assert "30 left out" in errors


def test_convert_tells_what_it_left_out(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    manifest = spoken_digits(2)
    lines = manifest.read_text() + json.dumps({"audio_filepath": "gone.wav", "duration": 1, "text": "x"}) + "\n"
    manifest.write_text(lines)
    code, output, errors = run("convert", manifest, "-o", tmp_path / "k", "--to", "kaldi")
    assert (code, output) == (1, f"{tmp_path / 'k'}: 2 utterances\n")
    assert "gone.wav" in errors
    assert run("convert", tmp_path / "k", "-o", tmp_path / "x", "--to", "librispeech")[0] == 2


def test_texts_of_a_language_say_so_where_there_is_a_place(
    run: Callable, spoken_digits: Callable, tmp_path: Path
) -> None:
    manifest, one, two = spoken_digits(2), tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    rows = [json.loads(line) for line in manifest.read_text().splitlines()]
    manifest.write_text(json.dumps(rows[0] | {"lang": "en-GB"}) + "\n" + json.dumps(rows[1]) + "\n")
    assert run("convert", manifest, "-o", one, "--language", "en")[0] == 0
    assert [json.loads(line)["lang"] for line in one.read_text().splitlines()] == ["en-GB", "en"]
    manifest.write_text(json.dumps(rows[0]) + "\n")
    assert run("convert", manifest, "-o", two)[0] == 0
    assert "lang" not in two.read_text()
    assert run("convert", manifest, "-o", tmp_path / "k", "--to", "kaldi", "--language", "en")[2].count("no place") == 0


def test_an_unknown_language_is_refused(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    for language in ("xx", "zh-CN"):
        code, _, errors = run("convert", spoken_digits(1).parent, "-o", tmp_path / "m.jsonl", "--language", language)
        assert code == 2
        assert f"--language: {language}: not a known language; expected en and zh" in errors
        (tmp_path / "digits1").rename(tmp_path / language)


def test_mix_takes_folders_and_any_key_of_augment(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    noise = DIGITS / "noise_running_tap.opus"
    arguments = ["--noise", noise, "--snr", 0, 10, "--sample-rate", 8000, "--set", "augment.gain=[-3.0, -3.0]"]
    assert run("mix", spoken_digits(2), "--output", tmp_path / "m", *arguments)[0] == 0
    assert len(read_manifest(tmp_path / "m" / "manifest.jsonl")) == 2
    code, _, errors = run("mix", spoken_digits(3), "--output", tmp_path / "m", "--sample-rate", 16000)
    assert code == 2
    assert "m: holds a manifest already; choose another folder" in errors
    assert len(read_manifest(tmp_path / "m" / "manifest.jsonl")) == 2
    code, _, errors = run("mix", spoken_digits(1), "--output", tmp_path / "n", "--set", "reverb=1")
    assert code == 2
    assert "unknown key reverb" in errors


def test_noise_and_shards(run: Callable, spoken_digits: Callable, tmp_path: Path) -> None:
    noise = DIGITS / "noise_running_tap.opus"
    assert run("noise", noise, "--output", tmp_path / "n", "--hours", 0.01, "--sample-rate", 8000)[0] == 0
    assert len(list((tmp_path / "n").glob("*.flac"))) == 1
    code, output, _ = run("shard", spoken_digits(4), "--output", tmp_path / "s", "--coding", "opus")
    assert code == 0
    assert "4 utterances in 1 shards" in output
    assert run("validate", tmp_path / "s" / "manifest.jsonl")[0] == 0
    for hours in (0, "nan", "inf", 1e300):
        assert run("noise", noise, "--output", tmp_path / "n", "--hours", hours)[0] == 2


def test_only_layouts_that_can_be_written_are_offered_to_write(
    run: Callable, spoken_digits: Callable, tmp_path: Path
) -> None:
    manifest, offered = spoken_digits(1), "choose one of nemo, kaldi, common_voice, lhotse, parquet, webdataset\n"
    for layout, why in (("foo", "not a known layout"), ("librispeech", "this layout can be read, not written")):
        code, _, errors = run("convert", manifest, "-o", tmp_path / "x", "--to", layout)
        assert (code, errors) == (2, f"ds2: {layout}: {why}; {offered}")
    assert ", librispeech, " in run("convert", manifest, "-o", tmp_path / "x", "--from", "foo")[2]


def test_what_is_left_out_stands_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a corpus says: a terminal obeys no escapes of it, and no line is forged."""
    assert report_skipped(["a.json: \x1b]0;owned\x07\x1b[2Jds2: all is well\nds2: run this"]) == 1
    assert capsys.readouterr().err == (
        "ds2: a.json: \\x1b]0;owned\\x07\\x1b[2Jds2: all is well\\nds2: run this\nds2: 1 left out\n"
    )
