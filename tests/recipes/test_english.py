"""English: manifests of five corpora, the lexicon, and the texts of the language model."""

import json
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile
from helpers.scripts import run_script

from ds2.data.cmudict import read_pronunciations
from ds2.data.manifest import read_manifest
from ds2.data.phone_sets import CMUDICT
from ds2.data.utterance import Utterance

RECIPE = Path(__file__).parents[2] / "recipes" / "english"


def corpus(folder: Path, rows: list[tuple[str | None, str]], seconds: float = 0.2) -> Path:
    """A manifest of (speaker, text), each with different noise."""
    folder.mkdir()
    lines = []
    for number, (speaker, text) in enumerate(rows):
        soundfile.write(
            folder / f"{number}.wav", np.random.default_rng(number).normal(0, 0.1, int(16000 * seconds)), 16000
        )
        row = {"audio_filepath": f"{number}.wav", "duration": seconds, "text": text, "speaker": speaker}
        lines.append(json.dumps({key: value for key, value in row.items() if value is not None}))
    (folder / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def prepared(output: Path, *options: str | Path) -> dict[str, list[Utterance]]:
    run_script(RECIPE / "prepare.py", "--output", output, *options)
    return {path.stem: read_manifest(path) for path in output.glob("*.jsonl")}


def test_train_and_dev_share_neither_speakers_nor_sentences(tmp_path: Path) -> None:
    """Speakers of Common Voice may be unknown, its sentences occur several times; a corpus may come as a tar."""
    readers = [(f"libri-{reader}", f"CHAPTER {reader}") for reader in (19, 1898, 2136, 6848, 7367)]
    librispeech = corpus(tmp_path / "librispeech", readers)
    with tarfile.open(tmp_path / "librispeech.tar", "w") as archive:
        for path in sorted(librispeech.iterdir()):
            archive.add(path, path.name)
    voices = [(f"cv-{number}", f"Sentence {number // 3}.") for number in range(60)] + [(None, "sentence three")] * 3
    learners = [(speaker, "we call it bear") for speaker in ("0001", "0135", "9639")]
    prompts = [("kathleen", f"prompt {'very ' * (number // 2)}long") for number in range(60)]
    splits = prepared(
        tmp_path / "out",
        *("--librispeech", tmp_path / "librispeech.tar"),
        *("--common-voice", corpus(tmp_path / "voices", voices)),
        *("--speechocean762", corpus(tmp_path / "learners", learners)),
        *("--kathleen", corpus(tmp_path / "kathleen", prompts)),
        *("--others", corpus(tmp_path / "others", [("lj", "as other")])),
    )
    assert {each.speaker for each in splits["dev-librispeech"]} == {"libri-1898", "libri-2136", "libri-6848"}
    assert "chapter eighteen ninety eight" in {each.text for each in splits["dev-librispeech"]}
    assert {each.speaker for each in splits["dev-speechocean762"]} == {"0135", "9639"}
    train = splits["train"]
    assert "as other" in {each.text for each in train}
    for name in ("dev-librispeech", "dev-common-voice", "dev-speechocean762"):
        assert not {each.speaker for each in splits[name]} & {each.speaker for each in train}
    for name in ("dev-common-voice", "dev-kathleen"):
        assert splits[name]
        assert not {each.text for each in splits[name]} & {each.text for each in train}
    every = [each for name, split in splits.items() if name.startswith("dev-") for each in split]
    assert {each.audio_path for each in splits["dev"]} < {each.audio_path for each in every}
    assert soundfile.info(train[0].audio_path).subtype == "PCM_16"


def test_long_recordings_are_left_out_and_listed(tmp_path: Path) -> None:
    """As are those with letters beyond the alphabet."""
    place = corpus(tmp_path / "long", [("a", "too long")], 18.5)
    other = corpus(tmp_path / "other", [("b", "fine"), ("b", "café")])
    splits = prepared(tmp_path / "out", "--others", place, other)
    assert [each.text for each in splits["train"]] == ["fine"]
    skipped = (tmp_path / "out" / "skipped.txt").read_text()
    assert "longer than 18.0 s" in skipped
    assert "'é'" in skipped


def test_a_lexicon_has_all_words_and_says_how_the_unknown_sound(tmp_path: Path) -> None:
    dictionary = tmp_path / "dictionary"
    known = {"cat": "K AE1 T", "cat(2)": "K AH0 T", "cab": "K AE1 B", "bat": "B AE1 T", "dog": "D AO1 G"}
    dictionary.write_text("".join(f"{word} {phones}\n" for word, phones in known.items()))
    place = corpus(tmp_path / "corpus", [("a", "cat tab"), ("b", "bat")])
    (tmp_path / "lexicon").write_text(run_script(RECIPE / "lexicon.py", dictionary, place / "manifest.jsonl"))
    found = read_pronunciations(tmp_path / "lexicon")
    spoken = {word: [CMUDICT.text(each) for each in every] for word, every in found.items()}
    assert spoken == {"bat": ["B AE T"], "cat": ["K AE T", "K AH T"], "tab": ["T AE B"]}


@pytest.fixture(scope="module")
def texts(recipe_script: Callable[[str], ModuleType]) -> ModuleType:
    return recipe_script("english/texts")


def test_sentences_are_cut_normalised_and_chosen(texts: ModuleType) -> None:
    text = (
        'Mr. Bennet _came_ home. [Illustration] "Is it so?"\nIt was 1813; no. They would\nnot say\n\nWhy? Ça va bien là'
    )
    assert list(texts.sentences(text)) == ["mister bennet came home", "is it so", "they would not say"]


def r_object(*lines: str) -> bytes:
    """As R keeps a character vector in a package's data."""
    strings = (b"\x00\x04\x00\x09" + len(line).to_bytes(4, "big") + line.encode("ascii") for line in lines)
    values = b"X\n\x00\x00\x00\x02" + b"".join(strings)
    return len(values).to_bytes(4, "big") + zlib.compress(values)


def test_novels_are_read_from_all_objects(texts: ModuleType, tmp_path: Path) -> None:
    data = tmp_path / "usr/lib/R/site-library/janeaustenr/data"
    data.mkdir(parents=True)
    (data / "Rdata.rdb").write_bytes(r_object("It is a truth", "", "universally") + r_object("acknowledged"))
    assert texts.novels(tmp_path) == "It is a truth\n\nuniversally\nacknowledged"


def test_examples_are_what_is_quoted(texts: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/wordnet"
    folder.mkdir(parents=True)
    (folder / "data.verb").write_text('0 29 v 01 breathe 0 | draw air; "I can breathe"; "she breathed hard"\n')
    assert texts.examples(tmp_path) == "I can breathe\n\nshe breathed hard"


def test_fortunes_come_without_who_said_them(texts: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/games/fortunes"
    folder.mkdir(parents=True)
    (folder / "wisdom").write_text("Know thyself.\n\t\t-- Thales\n%\nNothing in excess.\n")
    (folder / "wisdom.dat").write_bytes(b"\x00\xff")
    (folder / "wisdom.u8").symlink_to("wisdom")
    assert list(texts.sentences(texts.fortunes(tmp_path))) == ["nothing in excess"]
    assert "Thales" not in texts.fortunes(tmp_path)


def test_sentences_end_where_lines_do(tmp_path: Path) -> None:
    """Not at U+2028 or a form feed, which JSON and texts may hold; those of a manifest count three times."""
    manifest, text = tmp_path / "train.jsonl", tmp_path / "texts.txt"
    manifest.write_text('{"audio_filepath": "a.wav", "duration": 1.0, "text": "one\u2028two"}\n', encoding="utf-8")
    text.write_text("three\ffour\n", encoding="utf-8")
    assert run_script(RECIPE / "sentences.py", manifest, text).splitlines() == ["one two"] * 3 + ["three four"]


def test_own_transcripts_become_training_data_where_they_are_probably_right(tmp_path: Path) -> None:
    """Nothing of dev, no single word, no doubtful text; and sounds without speech have no words."""
    soundfile.write(tmp_path / "clip.flac", np.zeros(8000), 8000)
    texts = {
        "right": ("two words", 0.8),
        "doubtful": ("two words", 0.55),
        "dev": ("said in dev", 0.9),
        "one": ("word", 0.9),
    }
    for name, (text, confidence) in texts.items():
        words = [{"text": word, "confidence": confidence} for word in text.split()]
        transcript = {"file": str(tmp_path / "clip.flac"), "text": text, "words": words}
        (tmp_path / f"{name}.json").write_text(json.dumps(transcript))
    (tmp_path / "dev.jsonl").write_text(json.dumps({"audio_filepath": "d.wav", "duration": 1, "text": "said in dev"}))
    options = ("--output", tmp_path / "out", "--leave-out", tmp_path / "dev.jsonl", "--seeds", 1)
    run_script(RECIPE / "self_label.py", tmp_path, *options)
    [own] = read_manifest(tmp_path / "out" / "self.jsonl")
    assert (own.text, own.duration, soundfile.info(own.audio_path).samplerate) == ("two words", 1.0, 16000)
    silent = read_manifest(tmp_path / "out" / "no_speech.jsonl")
    assert {each.text for each in silent} == {""}
    assert all(2 <= soundfile.info(each.audio_path).duration <= 8 for each in silent)
