"""The `ds2` command as a whole: help, refusals, standard output."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from helpers.commands import Outcome, assert_refused, write_noise

import ds2
from ds2.cli.commands import GROUPS, SECTIONS, all_commands
from ds2.utils.extras import EXTRAS


@pytest.mark.parametrize(
    "command",
    list(all_commands()),
)
def test_every_command_has_help_with_an_example(run: Callable[..., Outcome], command: str) -> None:
    code, output, _ = run(*command.split(), "--help")
    assert code == 0
    assert f"Example: ds2 {command}" in output
    words = " ".join(output.replace("│", " ").split())
    assert "default: )" not in words
    assert "default: None" not in words
    assert "[[" not in words


@pytest.mark.parametrize(
    ("command", "flag", "does"),
    [
        ("transcribe", "--no-punctuate", "Write plain text"),
        ("listen", "--no-figures", "Write numbers as words"),
        ("lm build", "--no-continuation", "Count shorter n-grams as they occur"),
    ],
)
def test_help_of_a_negated_flag_says_what_the_flag_does(
    run: Callable[..., Outcome], command: str, flag: str, does: str
) -> None:
    words = " ".join(run(*command.split(), "--help")[1].replace("│", " ").split())
    assert f"{flag} {does}" in words


@pytest.mark.parametrize("command", list(all_commands()))
def test_no_flag_is_true_by_default(run: Callable[..., Outcome], command: str) -> None:
    """Beside a flag --no-X that would say that X is not done."""
    assert "default: True" not in run(*command.split(), "--help")[1]


@pytest.mark.parametrize("command", ["eval", "export", "spark transcribe"])
def test_commands_that_write_plain_text_have_no_flags_of_display(run: Callable[..., Outcome], command: str) -> None:
    output = run(*command.split(), "--help")[1]
    assert "--beam" in output
    assert "--no-punctuate" not in output
    assert "--no-figures" not in output


@pytest.mark.parametrize(
    "arguments", ["transcribe a.wav --format srt -o a --hot b --beam 3", "listen", "align a.wav a.txt"]
)
def test_a_command_line_is_read_without_the_checks_of_types(arguments: str) -> None:
    """Whose package takes as long to import as NumPy."""
    code = (
        "import sys; from ds2.cli.command_parser import parse_command_line; "
        f"assert parse_command_line({arguments.split()!r}) is not None; print('typeguard' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_version(run: Callable[..., Outcome]) -> None:
    assert run("--version")[:2] == (0, f"ds2 {ds2.__version__}\n")


def test_list_of_commands_holds_the_groups(run: Callable[..., Outcome]) -> None:
    for arguments in ((), ("--help",)):
        code, output, _ = run(*arguments)
        assert code == 0
        names = [line.split()[0] for line in output.splitlines() if re.match("  [a-z]", line)]
        assert names == [name for section in SECTIONS.values() for name in section]
        assert [line.removesuffix(":") for line in output.splitlines() if line.endswith(":")] == list(SECTIONS)
        assert max(map(len, output.splitlines())) <= 80
    for group, (_, commands) in GROUPS.items():
        assert max(map(len, run(group)[1].splitlines())) <= 80
        _, output, _ = run(group)
        assert [line.split()[0] for line in output.splitlines() if line.startswith("  ")] == list(commands)
        assert run(group, "--help") == (0, output, "")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("bogus", "bogus: ds2 has no such command; try ds2 --help"),
        ("trancribe a.wav", "did you mean transcribe?; try ds2 --help"),
        ("transcribe a.wav --fromat srt", "--fromat, srt; did you mean --format?; try ds2 transcribe --help"),
        ("transcribe a.wav --format srt b.wav", "b.wav; files come before the options; try ds2 transcribe --help"),
        ("transcribe a.wav --ouput b", "--ouput, b; did you mean --output?; try ds2 transcribe --help"),
        ("transcribe a.wav --snr 3", "options: --snr, 3; try ds2 transcribe --help"),
        ("transcribe a.wav --language de", "--language: de: english knows English (en) only"),
        ("data stats a.jsonl --pictur a.png", "did you mean --picture?; try ds2 data stats"),
        ("serve --device cpu --prot 3", "--prot, 3; did you mean --port?; try ds2 serve"),
        ("eval a.jsonl b", "b: more files than ds2 eval takes; options name others; try ds2 eval --help"),
        ("data stats a.jsonl b c.jsonl", "b: more files than ds2 data stats takes; options name others; try ds2 data"),
        ("eval a.jsonl --by id b", "Unrecognized options: b; files come before the options"),
        ("eval mine.wav", "mine.wav: is a recording; name a manifest"),
        ("eval mine.csv", "mine.csv: is no manifest; ds2 data convert makes one of a table"),
        ("models pull", "name at least one model, or the URL or folder of an index"),
        ("eval a.jsonl --language en", "--language, en; did you mean --normalize?; try ds2 eval --help"),
        ("lm build a.txt -o b.arpa --normalize en", "--normalize, en; did you mean --language?; try ds2 lm build"),
        ("export --model english --output a", "--model: it has no name here, and comes first: ds2 export MODEL; try"),
        ("lm bogus", "ds2 lm has no such command; try ds2 lm --help"),
        (
            "align",
            "Missing from ds2 align: PATH (Recording of any length, or a folder of recordings); try ds2 align",
        ),
        ("train a.toml", "Missing from ds2 train: -o PATH, --output PATH (Folder for best.safetensors"),
        (
            "train",
            "(.jsonl)), -o PATH, --output PATH (Folder for best.safetensors, metrics.jsonl, curves.png and the check",
        ),
        ("train a.wav --output b", "a.wav: is a recording; name a recipe's train.toml, or --fine-tune MODEL and a man"),
        ("train a.jsonl --output b", "a.jsonl: is a manifest; name a recipe's train.toml"),
        ("serve --port 99999", "port must be 0 to 65535, got 99999"),
        ("info englsh", "englsh: neither a model bundle nor the name of one; did you mean english?"),
        ("transcribe a.wav --output b.pdf", "--output: b.pdf: not a format; name a file of txt, json, srt,"),
        ("transcribe a.wav --model", "--model"),
        ("transcribe a.wav --formt srt", "--formt, srt; did you mean --format?; try ds2 transcribe --help"),
        (
            "transcribe a.wav --beam -1",
            "--beam: must be at least 1 and at most 1,000,000, or 0 to decode greedily, got -1",
        ),
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
        ("matplotlib", "train", "align a.wav a.txt --format png"),
        ("onnx", "onnx", "export digits --output a"),
        ("matplotlib", "train", "data stats a.jsonl --picture a.png"),
        ("optuna", "train", "tune a.toml --output a"),
        ("starlette", "serve", "serve"),
    ],
)
def test_package_that_is_not_installed_is_told_before_anything_else(package: str, extra: str, arguments: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from ds2.cli.main import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run([sys.executable, "-c", code, *arguments.split()], capture_output=True, text=True)
    outcome = (result.returncode, result.stdout, result.stderr)
    assert_refused(outcome, f"{package} is not installed", f"pip install -c constraints.txt '.[{extra}]'")


def test_extras_are_those_of_the_project() -> None:
    """Several distributions may share a module, as OpenTelemetry's do."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    providers = packages_distributions()
    for module, extra in EXTRAS.items():
        wanted = [re.match(r"[\w-]+", line)[0] for line in project["optional-dependencies"][extra]]
        names, sources = ({name.lower().replace("-", "_") for name in each} for each in (wanted, providers[module]))
        assert names & sources, module


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
    run: Callable[..., Outcome],
    spoken_digits: Callable[[int], Path],
    tiny_bundle: Path,
    arguments: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = arguments.replace("MANIFEST", str(spoken_digits(1))).replace("MODEL", str(tiny_bundle)).split()
    monkeypatch.chdir(tmp_path)
    Path("no").touch()  # where the folder would be
    assert_refused(run(*words), "no: is no folder")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("find-rate train.toml --output x", "--batches 0"),
        ("find-rate train.toml --output x", "--batches 3"),
        ("transcribe a.wav", "--device gpu"),
        ("transcribe a.wav", "--lm-weight nan"),
        ("bench-train train.toml --output x", "--ranks 0"),
        ("data validate train.jsonl", "--frame-seconds 0.0"),
        ("data validate train.jsonl", "--frame-seconds nan"),
        ("bench-serve test.jsonl", "--url foo"),
        ("bench-serve test.jsonl", "--url ws://localhost:port"),
        ("bench-serve test.jsonl", "--url ws://127.0.0.1:9"),
    ],
)
def test_options_out_of_range_are_refused_by_name(run: Callable[..., Outcome], command: str, option: str) -> None:
    assert_refused(run(*command.split(), *option.split()), f"{option.split()[0]}: ", option.split()[1])


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


def test_full_disk_under_standard_error_loses_no_transcript(
    spoken_digits: Callable[[int], Path],
) -> None:
    """A line of warning that cannot be written ends nothing; a refusal keeps its code."""
    command = [sys.executable, "-m", "ds2", "transcribe", "--model", "digits"]
    with Path("/dev/full").open("w") as full:
        said = subprocess.run([*command, spoken_digits(1).parent / "0.wav", "/nosuch.wav"], stdout=-1, stderr=full)
        refused = subprocess.run([*command, "/nosuch.wav"], stdout=-1, stderr=full)
    assert said.stdout.strip()
    assert said.returncode == 1
    assert refused.returncode == 2
    assert refused.stdout == b""


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_names_of_any_bytes_are_printed(spoken_digits: Callable[[int], Path], tmp_path: Path, encoding: str) -> None:
    path = tmp_path / os.fsdecode(b"\xff.jsonl")
    command = [sys.executable, "-m", "ds2", "data", "merge", spoken_digits(1), "-o", path]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path}/\\udcff.jsonl: 1 utterance\n"
    assert path.exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken", "not valid JSON"),
        ('{"audio_filepath": "a.wav", "duration": -1, "text": "a"}', "duration"),
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


def test_a_repeated_line_is_refused_but_for_statistics(
    run: Callable[..., Outcome], spoken_digits: Callable[[int], Path]
) -> None:
    manifest = spoken_digits(2)
    with manifest.open("a") as file:
        file.write(json.dumps({"audio_filepath": "0.wav", "duration": 1, "text": "a"}) + "\n")
    assert_refused(run("eval", manifest), f"{manifest}:3", "duplicate")
    assert "3 utterances" in run("info", manifest)[1]


def test_a_model_that_no_wheel_holds_is_explained(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ds2.utils.model_names.MODELS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert_refused(
        run("info", "mandarin"), "mandarin: not in the installed package; it lies in ds2/models of a checkout"
    )


@pytest.mark.parametrize("share", [0.0, 1e-4, 1e-3, 0.02, 0.25, 0.5, 0.75, 1 - 1e-9, None])
def test_bundle_cut_anywhere_or_of_text(
    run: Callable[..., Outcome], tiny_bundle: Path, tmp_path: Path, share: float | None
) -> None:
    data = tiny_bundle.read_bytes()
    tiny_bundle.write_bytes(b"some text\n" * 50 if share is None else data[: int(len(data) * share)])
    path = write_noise(tmp_path / "a.wav")
    assert_refused(run("transcribe", path, "--model", tiny_bundle), str(tiny_bundle))
    assert_refused(run("info", tiny_bundle), str(tiny_bundle))


def test_completion_is_printed_for_the_shells() -> None:
    for shell in ("bash", "zsh"):
        command = [sys.executable, "-m", "ds2", "--tyro-print-completion", shell]
        result = subprocess.run(command, capture_output=True, text=True)
        assert (result.returncode, result.stderr) == (0, "")
        assert "transcribe" in result.stdout
        assert "tune-decoder" in result.stdout
        assert "digits-streaming" in result.stdout


def test_names_of_several_lines_and_colours_are_one_line(run: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = run("transcribe", tmp_path / "a\nb\x1b[31m.wav")
    assert_refused(outcome, r"a\nb\x1b[31m.wav")


@pytest.mark.parametrize(
    ("asked", "spins"), [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_waiting_threads_leave_the_processor_unless_the_environment_says_more(
    run: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, asked: dict[str, str], spins: str | None
) -> None:
    monkeypatch.setattr(os, "environ", dict(asked))
    assert run("--version")[0] == 0
    assert os.environ.get("GOMP_SPINCOUNT") == spins


def test_a_file_that_begins_with_a_dash_is_told_from_an_option(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("-dash.wav").touch()
    assert_refused(run("transcribe", "-dash.wav"), "write ./-dash.wav")
