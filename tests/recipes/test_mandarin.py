"""Mandarin: manifests, the pronunciations of characters in pinyin, and the texts of the language model."""

import json
import lzma
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
from helpers.scripts import run_script

from ds2.data.cmudict import phone_targets, read_pronunciations
from ds2.data.manifest import read_manifest
from ds2.data.phone_sets import PINYIN

RECIPE = Path(__file__).parents[2] / "recipes" / "mandarin"
SPEECH = RECIPE.parent / "english" / "audio" / "cv_00026.opus"


def corpus(folder: Path, rows: list[tuple[str, str]]) -> Path:
    """A manifest of (speaker, text), each with another tenth of a second of one recording."""
    folder.mkdir()
    samples, rate = soundfile.read(SPEECH)
    lines = []
    for number, (speaker, text) in enumerate(rows):
        soundfile.write(folder / f"{number}.wav", samples[number * rate // 100 :][: rate // 10], rate)
        row = {"audio_filepath": f"{number}.wav", "duration": 0.1, "speaker": speaker, "text": text}
        lines.append(json.dumps(row))
    (folder / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_dev_and_test_are_whole_speakers_and_others_train(tmp_path: Path) -> None:
    """Mandarin has no spaces; what has letters is left out and listed."""
    voices = corpus(tmp_path / "voices", [(f"zh-{number % 10}", "3 个 人。") for number in range(40)])
    others = corpus(tmp_path / "others", [("a", "设定三十度"), ("a", "想听 let it go")])
    run_script(RECIPE / "prepare.py", "--output", tmp_path / "out", "--common-voice", voices, "--others", others)
    splits = {path.stem: read_manifest(path) for path in (tmp_path / "out").glob("*.jsonl")}
    speakers = [{each.speaker for each in splits[name]} for name in ("train", "dev", "test")]
    assert sum(map(len, speakers)) == 11
    assert all(speakers)
    assert "a" in speakers[0]
    assert {each.text for part in splits.values() for each in part} == {"三个人", "设定三十度"}
    assert "other than Chinese characters" in (tmp_path / "out" / "skipped.txt").read_text()


def test_texts_without_the_sentences_of_dev(tmp_path: Path) -> None:
    voices = corpus(tmp_path / "voices", [("a", "我不知道")])
    text = tmp_path / "text.xz"
    text.write_bytes(lzma.compress("我不知道。\n你在干什么啊？\n2014年\n".encode()))
    command = [sys.executable, RECIPE / "texts.py", text, voices / "manifest.jsonl"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["你在干什么啊", "二零一四年"]


def test_characters_are_read_as_in_their_context(tmp_path: Path) -> None:
    """The most frequent reading first, rare ones left out; a word in which one is read otherwise has its own line."""
    pytest.importorskip("pypinyin", reason="needs the extra train")
    sentences = tmp_path / "sentences.txt"
    sentences.write_text(40 * "银行在这里\n" + 3 * "行人\n" + 40 * "人行道\n" + "abc\n")
    manifest = corpus(tmp_path / "voices", [("a", "银行行人"), ("a", "重庆")]) / "manifest.jsonl"
    lexicon, characters = tmp_path / "lexicon.txt", tmp_path / "characters.txt"
    run_script(RECIPE / "pinyin.py", sentences, manifest, "--lexicon", lexicon, "--characters", characters)
    found = read_pronunciations(lexicon, PINYIN)
    assert [PINYIN.text(each) for each in found["行"]] == ["x ing2", "h ang2"]
    targets, lengths = phone_targets(["银行行人"], found)
    assert PINYIN.text(targets[0, : lengths[0]].tolist()) == "in2 | h ang2 | x ing2 | r en2"
    assert set(characters.read_text().split()) == set("银行在这里人道重庆")
