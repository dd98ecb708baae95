"""Each recipe's prepare.py on a small sample in the corpus's real layout."""

import json
import os
import runpy
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import soundfile
from helpers.scripts import run_script

from ds2.data.manifest import read_manifest
from ds2.data.utterance import Utterance
from ds2.train.config import TrainConfig
from ds2.train.study import read_study
from ds2.utils.config import load_config

RECIPES = Path(__file__).parents[2] / "recipes"
SPEECH = RECIPES / "digits" / "audio" / "fsdd_theo_test.flac"


def recording(path: Path, seconds: float = 0.5, form: str | None = None) -> None:
    """A span of real speech, another one for each name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    start = sum(map(ord, path.stem)) % 40 * 400
    samples, rate = soundfile.read(SPEECH, start=start, frames=round(seconds * 8000))
    soundfile.write(path, samples, rate, format=form)


def prepare(recipe: str, source: Path, output: Path, *arguments: str) -> dict[str, list[Utterance]]:
    run_script(RECIPES / recipe / "prepare.py", "--source", source, "--output", output, *arguments)
    return {path.stem: read_manifest(path) for path in output.glob("*.jsonl")}


def speakers(utterances: list[Utterance]) -> set[str | None]:
    return {utterance.speaker for utterance in utterances}


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*/*.toml")), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_configurations_are_valid(path: Path) -> None:
    if path.stem == "study":
        read_study(path)
    else:
        load_config(TrainConfig, path)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("**/*.sh")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_are_valid(path: Path) -> None:
    subprocess.run(["bash", "-n", str(path)], check=True)
    assert os.access(path, os.X_OK)


@pytest.mark.parametrize("folder", ["missing", "empty"])
@pytest.mark.parametrize("recipe", sorted(path.parent.name for path in RECIPES.glob("*/prepare.py")))
def test_a_folder_without_the_corpus_is_told_in_one_line(
    recipe: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    options = {
        "speechocean762": "--speechocean762",
        "english": "--librispeech",
        "longform": "--readings",
        "digits": "--hold-out",
        "mandarin": "--common-voice",
    }
    arguments = ["--hours", "0"] if recipe == "synthetic" else [options.get(recipe, "--source"), tmp_path / folder]
    script = RECIPES / recipe / "prepare.py"
    monkeypatch.setattr(sys, "argv", [str(script), *map(str, arguments), "--output", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(script), run_name="__main__")
    assert stop.value.code == 2
    told = capsys.readouterr()
    assert told.err.startswith("prepare.py: ")
    assert (told.err.count("\n"), told.out) == (1, "")
    assert not list((tmp_path / "out").glob("*.jsonl"))


def test_an4(tmp_path: Path) -> None:
    """SPHERE files; dev speakers come from the train part."""
    etc = tmp_path / "an4" / "etc"
    etc.mkdir(parents=True)
    for part, folder, names in (("train", "an4_clstk", "abcdefghij"), ("test", "an4test_clstk", "xy")):
        lines, files = [], []
        for name in names:
            for number in (1, 2):
                files.append(f"{folder}/m{name}/an{number}-m{name}-b")
                recording(tmp_path / "an4" / "wav" / f"{files[-1]}.sph", form="NIST")
                lines.append(f"<s> ERASE C Q {'Q ' * number}</s> (an{number}-m{name}-b)")
        if part == "test":
            lines = [line.removeprefix("<s> ").replace("</s> ", "") for line in lines]  # which the test part lacks
        (etc / f"an4_{part}.transcription").write_text("\n".join(lines) + "\n")
        (etc / f"an4_{part}.fileids").write_text("\n".join(files) + "\n")
    splits = prepare("an4", tmp_path, tmp_path / "out")
    assert speakers(splits["test"]) == {"mx", "my"}
    assert len(splits["train"]) + len(splits["dev"]) == 20
    assert not speakers(splits["train"]) & speakers(splits["dev"])
    assert splits["test"][1].text == "erase c q q q"


def test_librispeech(tmp_path: Path) -> None:
    for part, speaker in (
        ("train-clean-100", "19"),
        ("train-other-500", "20"),
        ("dev-clean", "84"),
        ("test-clean", "61"),
    ):
        chapter = tmp_path / "LibriSpeech" / part / speaker / "198"
        recording(chapter / f"{speaker}-198-0000.flac")
        (chapter / f"{speaker}-198.trans.txt").write_text(f"{speaker}-198-0000 NORTHANGER ABBEY\n")
    splits = prepare("librispeech", tmp_path, tmp_path / "out")
    assert set(splits) == {"train-clean-100", "train-other-500", "dev-clean", "test-clean", "train"}
    assert speakers(splits["train"]) == {"19", "20"}
    assert splits["dev-clean"][0].text == "northanger abbey"


def packed(folder: Path, speakers: Sequence[str], text: str) -> Path:
    """A tar with recordings of each speaker and their manifest."""
    for number, speaker in enumerate(speakers):
        recording(folder / "audio" / f"{number}.flac")
        row = {"audio_filepath": f"audio/{number}.flac", "duration": 0.5, "text": text, "speaker": speaker}
        with (folder / "manifest.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
    path = folder.with_suffix(".tar")
    with tarfile.open(path, "w") as tar:
        tar.add(folder, ".")
    return path


def test_mini_librispeech_from_a_tar(tmp_path: Path) -> None:
    archive = packed(tmp_path / "mini", ["libri-1898", "libri-19", "libri-2136"], "NORTHANGER ABBEY")
    splits = prepare("librispeech", archive, tmp_path / "out")
    assert speakers(splits["dev"]) == {"libri-1898", "libri-2136"}
    assert [each.text for each in splits["train"]] == ["northanger abbey"]


def test_mini_librispeech_in_its_own_layout(tmp_path: Path) -> None:
    for speaker in ("1898", "19"):
        chapter = tmp_path / "LibriSpeech" / "train-clean-5" / speaker / "198"
        recording(chapter / f"{speaker}-198-0000.flac")
        (chapter / f"{speaker}-198.trans.txt").write_text(f"{speaker}-198-0000 NORTHANGER ABBEY\n")
    splits = prepare("librispeech", tmp_path, tmp_path / "out")
    assert (speakers(splits["dev"]), speakers(splits["train"])) == ({"1898"}, {"19"})


@pytest.mark.parametrize(
    ("locale", "sentence", "text"),
    [
        ("de", "Schöne Grüße, 3 Jürgens!", "schöne grüße 3 jürgens"),
        ("en", "Best wishes, 3 Georges!", "best wishes three georges"),
        ("zh-CN", "3 个 人。", "三个人"),
    ],
)
def test_common_voice(tmp_path: Path, locale: str, sentence: str, text: str) -> None:
    """Numbers are written as the language of the tables has them."""
    for number, split in enumerate(("train", "dev", "test")):
        recording(tmp_path / "clips" / f"common_voice_{number}.mp3")
        header = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\tsegment\n"
        row = f"c{number}\tcommon_voice_{number}.mp3\t{sentence}\t2\t0\t\t\t\t{locale}\t\n"
        (tmp_path / f"{split}.tsv").write_text(header + row)
    splits = prepare("common_voice", tmp_path, tmp_path / "out")
    assert [splits[split][0].text for split in ("train", "dev", "test")] == [text] * 3
    assert speakers(splits["dev"]) == {"c1"}


def test_aishell(tmp_path: Path) -> None:
    """An archive for each speaker, as it is downloaded; a recording without a transcript is told."""
    wav, lines = tmp_path / "data_aishell" / "wav", []
    for split, speaker in (("train", "S0002"), ("dev", "S0724"), ("test", "S0764")):
        for number in (122, 123):
            recording(tmp_path / "raw" / split / speaker / f"BAC009{speaker}W0{number}.wav")
        lines.append(f"BAC009{speaker}W0122 而 对 楼市 成交 抑制 作用 最 大 的 限 购")
        wav.mkdir(parents=True, exist_ok=True)
        with tarfile.open(wav / f"{speaker}.tar.gz", "w:gz") as archive:
            archive.add(tmp_path / "raw" / split, split)
    (tmp_path / "data_aishell" / "transcript").mkdir()
    (tmp_path / "data_aishell" / "transcript" / "aishell_transcript_v0.8.txt").write_text("\n".join(lines) + "\n")
    splits = prepare("aishell", tmp_path, tmp_path / "out")
    assert [splits[split][0].text for split in ("train", "dev", "test")] == ["而对楼市成交抑制作用最大的限购"] * 3
    assert speakers(splits["test"]) == {"S0764"}
    assert (tmp_path / "out" / "skipped.txt").read_text().count("no text") == 3


def test_voxforge(tmp_path: Path) -> None:
    dialects = ["American English", "British English", "Indian English", "European English", "Other"]
    for number in range(40):
        name = f"speaker{number}-20080101-abc" if number else "anonymous-20080101-xyz"
        folder = tmp_path / "raw" / name
        recording(folder / ("flac" if number % 2 else "wav") / f"a000{number % 9}.{'flac' if number % 2 else 'wav'}")
        (folder / "etc").mkdir()
        (folder / "etc" / "PROMPTS").write_text(f"*/mfc/a000{number % 9} HE TURNED SHARPLY\n")
        (folder / "etc" / "README").write_text(f"Gender: Male\nPronunciation dialect: {dialects[number % 5]}\n")
        with tarfile.open(tmp_path / f"{name}.tgz", "w:gz") as archive:
            archive.add(folder, name)
    splits = prepare("voxforge", tmp_path, tmp_path / "out")
    assert sum(len(splits[split]) for split in ("train", "dev", "test")) == 40
    assert not speakers(splits["train"]) & speakers(splits["test"])
    accents = [utterance.extra.get("accent") for utterance in splits["test"]]
    for name in set(splits) - {"train", "dev", "test"}:
        assert len(splits[name]) == accents.count(name.removeprefix("test_")) > 0


@pytest.mark.parametrize(("recipe", "sentence"), [("kathleen", "The fur coat, No. {}."), ("kerstin", "Über {} Bäume!")])
def test_voices(tmp_path: Path, recipe: str, sentence: str) -> None:
    """The published layout and a copy with a manifest give the same; sentences lie on one side, digits are left out."""
    words = ["eins zwei", "drei vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"]
    words = ["one two", "three four", *"abcdefgh"] if recipe == "kathleen" else [*words, "elf", "zwölf"]
    texts = [sentence.format(word) for word in words] * 3 + (["Die 7 Zwerge."] if recipe == "kerstin" else [])
    theirs, ours, rows = tmp_path / "theirs", tmp_path / "ours", []
    for number, text in enumerate(texts):
        recording(theirs / "audio" / f"a{number}.opus", form="OGG")
        recording(ours / "audio" / f"a{number}.opus", form="OGG")
        rows.append({"audio_filepath": f"audio/a{number}.opus", "duration": 0.5, "text": text, "speaker": recipe})
    (theirs / "metadata.csv").write_text("".join(f"a{number}|{text}\n" for number, text in enumerate(texts)))
    (ours / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = [prepare(recipe, source, tmp_path / f"out-{source.name}") for source in (theirs, ours)]
    assert [[u.text for u in part] for part in results[0].values()] == [
        [u.text for u in p] for p in results[1].values()
    ]
    parts = [{utterance.text for utterance in part} for part in results[0].values()]
    assert len(parts) == 3
    assert sum(map(len, parts)) == len(set().union(*parts)) == len(words)


def test_hsk(tmp_path: Path) -> None:
    """Words of the lists, patterns left out; words held out are never in training, their characters always."""
    characters = "天地人你我他一二三上下左右"
    words = [one + other for one in characters for other in characters] + ["一_就_", "龘龘龘"]
    archive = tmp_path / "words.zip"
    recording(tmp_path / "word.mp3", 0.3)
    with zipfile.ZipFile(archive, "w") as packed:
        for word in words:
            packed.write(tmp_path / "word.mp3", f"audio-cmn-master/64k/hsk/cmn-{word}.mp3")
            packed.write(tmp_path / "word.mp3", f"audio-cmn-master/18k-abr/hsk/cmn-{word}.mp3")
    (tmp_path / "corpus").mkdir()
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path / "corpus")
    small = "HELD_OUT = {'test': 20, 'dev': 10}; STRINGS = {'dev': 10, 'test': 20}"
    script = (RECIPES / "hsk" / "prepare.py").read_text().replace("\ndef main", f"\n{small}\n\n\ndef main", 1)
    command = ["-", "--source", str(tmp_path / "corpus"), "--output", str(tmp_path / "out")]
    (tmp_path / "out" / "test.jsonl").mkdir(parents=True)  # in the way: it ends before its work is done
    stopped = subprocess.run([sys.executable, *command], input=script, text=True, capture_output=True)
    assert "test.jsonl: cannot be written" in stopped.stderr
    assert not (tmp_path / "out" / "train.jsonl").exists()  # by which run.sh knows that all is there
    (tmp_path / "out" / "test.jsonl").rmdir()
    subprocess.run([sys.executable, *command], input=script, text=True, check=True, capture_output=True)
    splits = {split: read_manifest(tmp_path / "out" / f"{split}.jsonl") for split in ("train", "dev", "test")}
    assert (len(splits["dev"]), len(splits["test"])) == (10, 20)
    assert {character for utterance in splits["test"] for character in utterance.text} <= set(characters)
    assert not any("龘" in utterance.text or "_" in utterance.text for utterance in splits["train"])


@pytest.mark.long
def test_run_goes_from_a_corpus_to_its_error_rate_and_on_from_where_it_was(tmp_path: Path) -> None:
    """recipes/run.sh on a recipe of this test's own, with real audio and a model of a few weights."""
    folder = tmp_path / "recipes" / "mini"
    folder.mkdir(parents=True)
    (tmp_path / "recipes" / "run.sh").write_bytes((RECIPES / "run.sh").read_bytes())
    (folder / "prepare.py").write_text((RECIPES / "kathleen" / "prepare.py").read_text())
    config = 'epochs = 1\nbatch_size = 4\n[data]\ntrain = ["data/train.jsonl"]\ndev = "data/dev.jsonl"\nworkers = 0\n'
    model = (
        "[model]\nconvolutions = [{channels = 2, kernel = [5, 3], stride = [4, 2]}]\nrecurrent_layers = 1\nhidden = 8\n"
    )
    (folder / "train.toml").write_text(config + model + "[model.frontend]\nsample_rate = 8000\n")
    rows = []
    for number in range(24):
        recording(tmp_path / "corpus" / "audio" / f"a{number}.wav")
        rows.append(
            {"audio_filepath": f"audio/a{number}.wav", "text": "hi " + "abcdefghijkl"[number % 12], "speaker": "x"}
        )
    (tmp_path / "corpus" / "manifest.jsonl").write_text(
        "".join(json.dumps(row | {"duration": 0.5}) + "\n" for row in rows)
    )
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "ds2").write_text(f'#!/bin/sh\nexec {sys.executable} -m ds2 "$@"\n')
    (bin_folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for name in ("ds2", "python"):
        (bin_folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(RECIPES.parent)}
    command = ["bash", str(tmp_path / "recipes" / "run.sh"), "mini", "absent test", str(tmp_path / "corpus")]
    first, second = (subprocess.run(command, env=environment, capture_output=True, text=True) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "WER " in first.stdout
    assert "epoch 1:" in first.stderr
    assert "train:" in first.stdout
    assert "epoch 1:" not in second.stderr
    assert "train:" not in second.stdout  # neither prepared nor trained again
