"""The `ds2` command: what it prints, what it writes, how it refuses."""

import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile

import ds2
from ds2.bundle import MODELS
from ds2.cli import COMMANDS, GROUPS, main
from ds2.cli.describe import PACKAGED
from ds2.train.checkpoint import load_checkpoint
from ds2.utils.extras import EXTRAS

Outcome = tuple[int, str, str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """run(arguments...) -> (exit code, standard output, standard error)."""

    def call(*arguments: object) -> Outcome:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capsys.readouterr()

    return call


def write_noise(path: Path, seconds: float = 0.3, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.random.default_rng(seed).normal(0, 0.1, round(seconds * 8000)), 8000)
    return path


def assert_refused(outcome: Outcome, *parts: str) -> None:
    """Exit code 2 and one line on standard error that holds the parts; nothing on standard output."""
    code, output, errors = outcome
    assert code == 2
    assert output == ""
    assert errors.startswith("ds2: ")
    assert errors.count("\n") == 1
    for part in parts:
        assert part in errors


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, *(f"{group} {command}" for group, (_, commands) in GROUPS.items() for command in commands)],
)
def test_every_command_has_help_with_an_example(run: Callable[..., Outcome], command: str) -> None:
    code, output, _ = run(*command.split(), "--help")
    assert code == 0
    assert f"Example: ds2 {command}" in output


def test_version(run: Callable[..., Outcome]) -> None:
    assert run("--version")[:2] == (0, f"ds2 {ds2.__version__}\n")


def test_list_of_commands_holds_the_groups(run: Callable[..., Outcome]) -> None:
    for arguments in ((), ("--help",)):
        code, output, _ = run(*arguments)
        assert code == 0
        names = [line.split()[0] for line in output.splitlines() if re.match("  [a-z]", line)]
        assert names == [*COMMANDS, *GROUPS]
    assert "perplexity" in run("lm")[1]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("bogus", "ds2 has no such command; try ds2 --help"),
        ("lm bogus", "ds2 lm has no such command; try ds2 lm --help"),
        ("align a.wav", "Its transcript, plain text; try ds2 align --help"),
        ("train a.toml", "--output PATH Folder for"),
        ("transcribe a.wav --formt srt", "--formt, srt; try ds2 transcribe --help"),
        ("transcribe a.wav --beam -1", "--beam -1: must be at least 1"),
        ("data sample a.jsonl --hours ten -o b.jsonl", "--hours: could not convert string to float: 'ten'"),
        ("data split a.jsonl --output b --by nobody", "'nobody' for argument '--by'"),
        ("data mix a.jsonl --output b --snr 5", "'--snr'. Expected 2 values; try ds2 data mix --help"),
    ],
)
def test_wrong_arguments_are_one_line(run: Callable[..., Outcome], arguments: str, part: str) -> None:
    assert_refused(run(*arguments.split()), part)


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("matplotlib", "train", "align a.wav a.txt"),
        ("matplotlib", "train", "data stats a.jsonl --picture a.png"),
        ("optuna", "train", "tune a.toml --output a"),
        ("starlette", "serve", "serve"),
    ],
)
def test_package_that_is_not_installed_is_told_before_anything_else(package: str, extra: str, arguments: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from ds2.cli import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run([sys.executable, "-c", code, *arguments.split()], capture_output=True, text=True)
    outcome = (result.returncode, result.stdout, result.stderr)
    assert_refused(outcome, f"{package} is not installed", f"pip install '.[{extra}]'")


def test_extras_are_those_of_the_project() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for module, extra in EXTRAS.items():
        names = [re.match(r"[\w-]+", line)[0].replace("-", "_") for line in project["optional-dependencies"][extra]]
        assert module in names


def test_one_file_prints_its_transcript(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    path = write_noise(tmp_path / "a.wav")
    code, output, errors = run("transcribe", path, "--model", tiny_bundle)
    assert (code, errors) == (0, "")
    assert output == ds2.load(tiny_bundle).transcribe(path).text + "\n"


def test_several_files_print_their_names(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    paths = [write_noise(tmp_path / f"{name}.wav", seed=ord(name)) for name in "ab"]
    _, output, _ = run("transcribe", *paths, "--model", tiny_bundle)
    assert [line.split("\t")[0] for line in output.splitlines()] == [str(path) for path in paths]


def test_all_formats_into_a_folder(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    write_noise(tmp_path / "in" / "a.wav")
    write_noise(tmp_path / "in" / "deep" / "a.flac")
    arguments = ("--model", tiny_bundle, "--format", "txt,json,srt,vtt,ctm", "--output", tmp_path / "out")
    assert run("transcribe", tmp_path / "in", *arguments)[0] == 0
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(written) == 10  # two files of one name do not overwrite each other
    assert sum(name.endswith("deep_a.flac.srt") for name in written) == 1


def test_outputs_never_overwrite_each_other(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    names = ["x/y/c.wav", "x_y/c.wav", "failed.wav", "d" * 120 + "/" + "e" * 120 + "/c.wav", "f" * 240 + ".wav"]
    texts = []
    for number, name in enumerate(names):
        texts.append(ds2.load(tiny_bundle).transcribe(write_noise(folder / name, 0.3 + number / 10, number)).text)
    (folder / "bad.wav").touch()
    assert run("transcribe", folder, "--model", tiny_bundle, "--output", tmp_path / "out")[0] == 1
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert "bad.wav" in written.pop("failed.txt")
    assert sorted(written.values()) == sorted(text + "\n" for text in texts)
    assert all(len(name) <= 255 for name in written)


def test_a_run_without_failures_leaves_no_report_of_an_earlier_one(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").touch()
    arguments = ("transcribe", tmp_path / "in", "--model", tiny_bundle, "--output", tmp_path / "out")
    assert run(*arguments)[0] == 2
    assert (tmp_path / "out" / "failed.txt").exists()
    write_noise(tmp_path / "in" / "a.wav")
    assert run(*arguments)[0] == 0
    assert not (tmp_path / "out" / "failed.txt").exists()


def test_name_that_is_not_utf8(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    write_noise(tmp_path / "in" / "a.wav").rename(tmp_path / "in" / os.fsdecode(b"\xff.wav"))
    (tmp_path / "in" / os.fsdecode(b"\xfe.wav")).touch()
    arguments = ("--model", tiny_bundle, "--format", "txt,json", "--output", tmp_path / "out")
    assert run("transcribe", tmp_path / "in", *arguments)[0] == 1
    assert "udcfe.wav" in (tmp_path / "out" / "failed.txt").read_text()
    assert len(list((tmp_path / "out").iterdir())) == 3


def test_standard_input(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_noise(tmp_path / "a.wav").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    _, output, _ = run("transcribe", "-", "--model", tiny_bundle, "--format", "json")
    assert json.loads(output)["duration"] == 0.3
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert_refused(run("transcribe", "-", "--model", tiny_bundle), "stdin: empty")


def test_hundred_files_three_of_them_bad(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    for number in range(97):
        write_noise(tmp_path / "in" / f"{number:03}.wav", 0.1, number)
    (tmp_path / "in" / "empty.wav").touch()
    (tmp_path / "in" / "text.wav").write_text("no audio")
    whole = write_noise(tmp_path / "in" / "cut.flac").read_bytes()
    (tmp_path / "in" / "cut.flac").write_bytes(whole[: len(whole) // 2])
    code, _, errors = run("transcribe", tmp_path / "in", "--model", tiny_bundle, "--output", tmp_path / "out")
    assert code == 1
    assert len(list((tmp_path / "out").glob("*.txt"))) == 97 + 1
    report = (tmp_path / "out" / "failed.txt").read_text().splitlines()
    assert len(report) == 3
    for name in ("empty.wav", "text.wav", "cut.flac"):
        assert sum(name in line for line in report) == 1
        assert name in errors
    assert "97 transcribed, 3 failed" in errors


def test_folder_with_sound_for_ffmpeg_tells_of_it(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path
) -> None:
    write_noise(tmp_path / "in" / "a.wav")
    for name in ("b.m4a", "c.M4A", "d.webm", "notes.txt"):
        (tmp_path / "in" / name).touch()
    code, _, errors = run("transcribe", tmp_path / "in", "--model", tiny_bundle)
    assert code == 0
    assert errors.startswith("ds2: not transcribed: 2 .m4a, 1 .webm; ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("kind", ["gone", "empty", "text", "cut", "flac", "none", "nan"])
def test_bad_audio_is_one_line(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"{kind}.wav"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("some text\n" * 50)
    elif kind == "cut":
        whole = write_noise(path, 1.0).read_bytes()
        path.write_bytes(whole[:5000])
    elif kind == "flac":
        soundfile.write(path, np.random.default_rng(0).normal(0, 0.1, 8000), 8000, format="FLAC")
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "none":
        soundfile.write(path, np.zeros(0), 8000)
    elif kind == "nan":
        soundfile.write(path, np.full(800, np.nan), 8000, subtype="FLOAT")
    assert_refused(run("transcribe", path, "--model", tiny_bundle), str(path))


def test_folder_without_audio_unknown_format_and_no_file(run: Callable[..., Outcome], tmp_path: Path) -> None:
    assert_refused(run("transcribe", tmp_path), "no audio file")
    assert_refused(run("transcribe", "a.wav", "--format", "doc"), "'doc'", "txt, json, srt, vtt, ctm")
    assert_refused(run("transcribe", "a.wav", "--format", "txt,srt"), "--output")
    for name in ("srt", "vtt", "TextGrid"):
        assert_refused(run("transcribe", "a.wav", "b.wav", "--format", name), f"--format {name}", "--output")
    assert_refused(run("transcribe"), "at least one audio file")
    assert_refused(run("transcribe", "-", "a.wav"), "standard input")


@pytest.mark.parametrize("share", [0.0, 1e-4, 1e-3, 0.02, 0.25, 0.5, 0.75, 1 - 1e-9, None])
def test_bundle_cut_anywhere_or_of_text(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path, share: float | None
) -> None:
    data = tiny_bundle.read_bytes()
    tiny_bundle.write_bytes(b"some text\n" * 50 if share is None else data[: int(len(data) * share)])
    path = write_noise(tmp_path / "a.wav")
    assert_refused(run("transcribe", path, "--model", tiny_bundle), str(tiny_bundle))
    assert_refused(run("info", tiny_bundle), str(tiny_bundle))


def test_output_that_cannot_be_made(run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = write_noise(tmp_path / "a.wav")
    outcome = run("transcribe", path, "--model", tiny_bundle, "--output", tmp_path / "file" / "x")
    assert_refused(outcome, "cannot make the folder")


@pytest.mark.parametrize(
    "arguments",
    [
        "eval MANIFEST --listing no/errors.txt",
        "segment none.wav --output no/segments.jsonl",
        "tune-decoder MANIFEST --model MODEL --lm none.arpa --output no/with-lm.safetensors",
        "tune-decoder MANIFEST --model MODEL --lm none.arpa --picture no/tuning.png",
        "lm build none.txt -o no/lm.arpa",
    ],
)
def test_output_that_cannot_be_written_is_told_before_the_work(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tiny_bundle: Path, arguments: str
) -> None:
    words = arguments.replace("MANIFEST", str(spoken_digits(1))).replace("MODEL", str(tiny_bundle)).split()
    assert_refused(run(*words), "no/", "cannot be written; name a file in a folder that is there")


def test_eval_prints_rates_and_writes_the_listing(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    code, output, _ = run("eval", spoken_digits(20), "--listing", tmp_path / "errors.txt")
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
    code, output, errors = run("eval", manifest)
    assert code == 1
    assert "in 2 words" in output
    assert "1.wav" in errors
    for number in (0, 2):
        (manifest.parent / f"{number}.wav").unlink()
    assert_refused(run("eval", manifest), "none of 3 utterances")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "not valid JSON"),
        ('{"audio_filepath": "a.wav", "duration": -1, "text": "a"}', "duration"),
        ('{"audio_filepath": "0.wav", "duration": 1, "text": "a"}', "duplicate"),
    ],
)
@pytest.mark.parametrize("command", ["eval", "info"])
def test_bad_manifest_is_one_line(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], line: str, message: str, command: str
) -> None:
    manifest = spoken_digits(2)
    with manifest.open("a") as file:
        file.write(line + "\n")
    assert_refused(run(command, manifest), f"{manifest}:3", message)


def test_info_of_bundle_manifest_and_anything_else(
    run: Callable[..., Outcome], tiny_bundle: Path, spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    _, bundle, _ = run("info", tiny_bundle)
    assert "tokens: 5: '<blank>' ' ' 'a' 'b' 'c'" in bundle
    assert "config.hidden: 24" in bundle
    assert "training.wer: 1.0" in bundle
    _, manifest, _ = run("info", spoken_digits(5))
    assert "5 utterances" in manifest
    assert "1 speakers" in manifest
    assert "decoder.lm_weight: " in run("info", "english")[1]
    for path in MODELS.glob("*.safetensors"):
        assert run("info", path.stem)[1].splitlines()[1] == PACKAGED[path.stem]
    assert_refused(run("info", tmp_path / "a.wav"), "neither a bundle")
    assert_refused(run("info"), "name a bundle")


def test_info_of_a_named_model_is_a_table_of_its_layers(run: Callable[..., Outcome]) -> None:
    code, table, _ = run("info", "--model", "ds2-deploy")
    assert code == 0
    assert "5 forward-only gru layers of 2560" in table
    assert "waits for 550 ms of sound" in table
    assert [line.split()[0] for line in table.splitlines()[3:7]] == [
        "frontend",
        "convolutions.0",
        "convolutions.1",
        "recurrent.0",
    ]
    assert "194,073,853" in table.splitlines()[-1]
    assert_refused(run("info", "--model", "ds2-huge"), "no such architecture")
    assert_refused(run("info", "--model", "digits"), "name a trained model without --model")


def test_train_refuses_an_unknown_key(run: Callable[..., Outcome], tmp_path: Path) -> None:
    toml = tmp_path / "train.toml"
    toml.write_text('epoch = 3\n[data]\ntrain = ["a"]\ndev = "b"\n')
    assert_refused(
        run("train", toml, "--output", tmp_path / "run"), str(toml), "unknown key epoch; did you mean epochs?"
    )
    toml.write_text('[data]\ntrain = ["a"]\ndev = "b"\n')
    outcome = run("train", toml, "--output", tmp_path / "run", "--set", "model.hiden=3")
    assert_refused(outcome, "model.hiden")
    assert not (tmp_path / "run").exists()


def test_train_refuses_a_bad_manifest(run: Callable[..., Outcome], tmp_path: Path) -> None:
    toml = tmp_path / "train.toml"
    toml.write_text('[data]\ntrain = ["t.jsonl"]\ndev = "d.jsonl"\n')
    assert_refused(run("train", toml, "--output", tmp_path / "run"), "t.jsonl", "No such file")


def test_full_disk_ends_training_in_one_line_and_keeps_the_checkpoint(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], small_disk: Path, tmp_path: Path
) -> None:
    manifest, toml = spoken_digits(8), tmp_path / "train.toml"
    toml.write_text(
        f'epochs = 9\nbatch_size = 4\ncheckpoint_minutes = 1e-6\n[data]\ntrain = ["{manifest}"]\ndev = "{manifest}"\n'
        "workers = 0\n[model]\nhidden = 8\nrecurrent_layers = 1\n"
        "convolutions = [{channels = 2, kernel = [11, 5], stride = [4, 2]}]\n[model.frontend]\nsample_rate = 8000\n"
    )
    assert run("train", toml, "--output", tmp_path / "roomy", "--set", "epochs=1")[0] == 0
    size = (tmp_path / "roomy" / "checkpoint.pt").stat().st_size
    (small_disk / "large.bin").write_bytes(bytes(256 * 1024 - 3 * size // 2))  # room for one checkpoint, not for two
    assert_refused(run("train", toml, "--output", small_disk), "No space left", "previous file, if any, is intact")
    assert load_checkpoint(small_disk / "checkpoint.pt")["state"]["step"] == 1
    assert sorted(path.name for path in small_disk.iterdir()) == [".lock", "checkpoint.pt", "large.bin"]


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("find-rate train.toml --output x", "--batches 0"),
        ("find-rate train.toml --output x", "--batches 3"),
        ("bench-train train.toml --output x", "--ranks 0"),
        ("data validate train.jsonl", "--frame-seconds 0.0"),
        ("data validate train.jsonl", "--frame-seconds nan"),
        ("bench-serve test.jsonl", "--url foo"),
        ("bench-serve test.jsonl", "--url ws://localhost:port"),
    ],
)
def test_options_out_of_range_are_refused_by_name(run: Callable[..., Outcome], command: str, option: str) -> None:
    assert_refused(run(*command.split(), *option.split()), option)


def test_reader_that_stops_reading_ends_it_quietly(tiny_bundle: Path, tmp_path: Path) -> None:
    paths = [str(write_noise(tmp_path / f"{number}.wav", seed=number)) for number in range(3)]
    command = [sys.executable, "-m", "ds2", "transcribe", *paths, "--model", str(tiny_bundle)]
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert "Traceback" not in result.stderr
    assert "Error" not in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["info", "digits"], ["info", "--help"]])
def test_full_disk_under_standard_output_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "ds2", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert_refused((result.returncode, "", result.stderr), "No space left on device")


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_of_any_bytes_are_printed(spoken_digits: Callable[[int], Path], tmp_path: Path, encoding: str) -> None:
    path = tmp_path / os.fsdecode(b"\xff.jsonl")
    command = [sys.executable, "-m", "ds2", "data", "merge", spoken_digits(1), "-o", path]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path}/\\udcff.jsonl: 1 utterances\n"
    assert path.exists()


def test_align_writes_every_format_and_a_picture(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path], tmp_path: Path
) -> None:
    manifest = spoken_digits(1)
    text = json.loads(manifest.read_text())["text"]
    (tmp_path / "text.txt").write_text(f"\ufeff{text.upper()}!\n", encoding="utf-8")
    audio, output = manifest.parent / "0.wav", tmp_path / "aligned" / "here"
    code, printed, _ = run("align", audio, tmp_path / "text.txt", "--output", output)
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


def test_language_models_are_built_scored_and_shown(run: Callable[..., Outcome], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat\nthe cat ran\n\na dog sat\n" * 5)
    for name in ("lm.arpa", "lm.arpa.gz", "lm.safetensors"):
        code, shown, _ = run("lm", "build", corpus, "-o", tmp_path / name, "--order", "2")
        assert code == 0
        assert "2-gram model, 9 words" in shown  # six words, <unk>, <s>, </s>
        assert run("lm", "info", tmp_path / name)[1].startswith(f"{tmp_path / name}: 2-gram model")
    assert run("lm", "compile", tmp_path / "lm.arpa.gz", "-o", tmp_path / "compiled")[0] == 0
    assert run("lm", "compile", tmp_path / "lm.arpa", "-o", tmp_path / "small", "--quantize")[0] == 0
    assert (tmp_path / "small").stat().st_size < (tmp_path / "compiled").stat().st_size
    names = ("lm.arpa", "lm.arpa.gz", "lm.safetensors", "compiled", "small")
    values = {run("lm", "score", tmp_path / name, corpus)[1] for name in names}
    assert len(values) == 1
    assert "0 unknown" in values.pop()
    assert_refused(run("lm", "build", tmp_path / "none.txt", "-o", tmp_path / "x.arpa"), "none.txt: cannot be read")
    (tmp_path / "empty.txt").write_text("\n")
    refused = run("lm", "build", corpus, tmp_path / "empty.txt", "-o", tmp_path / "x.arpa")
    assert_refused(refused, "empty.txt: no sentence in it")
    assert_refused(run("lm", "build", corpus, "-o", tmp_path / "x.arpa", "--order", "0"), "order 0")
    assert_refused(run("lm", "build", corpus, "-o", tmp_path / "x.arpa", "--memory", "0"), "memory 0")
    assert_refused(run("lm", "info", corpus), "neither an ARPA file")
    assert_refused(run("lm", "compile", tmp_path / "lm.arpa", "-o", tmp_path / "x.arpa"), "x.arpa: the compiled form")
    assert not (tmp_path / "x.arpa").exists()
