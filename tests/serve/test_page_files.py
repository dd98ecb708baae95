"""The files that the page saves."""

import json
import random
import re
from dataclasses import asdict
from pathlib import Path

from helpers.node import in_node, with_node

from ds2.recognition.cues import COLUMNS, DANGLERS, TITLES, make_cues
from ds2.recognition.words import Word
from ds2.text import BETWEEN_IDEOGRAPHS

CUES = """
import { COLUMNS, DANGLERS, TITLES, cues } from "PAGE/cues.js";
console.log(JSON.stringify([COLUMNS, DANGLERS, TITLES, cases.map(([words, end]) => cues(words, end))]));
"""
SCRIPT = """
import { written } from "PAGE/transcript.js";
console.log(JSON.stringify(cases.map(([format, segments]) => written[format](segments))));
"""


def word(text: str, start: float, display: str | None = None) -> dict[str, object]:
    shown = {} if display is None else {"display": display}
    return {"word": text, "conf": 0.9, "start": start, "end": start + 0.5, **shown}


@with_node
def test_people_read_punctuation_and_figures_and_json_has_the_plain_text_too(tmp_path: Path) -> None:
    said = [word("twenty", 1.0, "25"), word("five", 1.5, ""), word("men", 2.0, "men.")]
    plain = [word("one", 4.0), word("two", 4.5)]
    cases = [[name, [said, plain]] for name in ("txt", "srt", "json")]
    txt, srt, values = in_node(SCRIPT, cases, tmp_path, "ds2.serve")
    assert txt == "25 men.\none two\n"
    assert srt.startswith("1\n00:00:01,000 --> 00:00:02,500\n25 men.\n\n2\n")
    found = json.loads(values)
    assert (found["text"], found["display"]) == ("twenty five men one two", "25 men. one two")
    assert [each.get("display") for each in found["words"]] == ["25", "", "men.", None, None]


@with_node
def test_characters_follow_each_other_without_spaces(tmp_path: Path) -> None:
    """In a segment and between two; a word in letters has its spaces."""
    first = [word("他", 1.0), word("好", 1.5, "好。"), word("k", 2.0, "K"), word("歌", 2.5)]
    cases = [[name, [first, [word("我", 4.0)]]] for name in ("txt", "json")]
    txt, values = in_node(SCRIPT, cases, tmp_path, "ds2.serve")
    assert txt == "他好。 K 歌\n我\n"
    found = json.loads(values)
    assert (found["text"], found["display"]) == ("他好 k 歌我", "他好。 K 歌我")
    assert [segment["text"] for segment in found["segments"]] == ["他好 k 歌", "我"]


@with_node
def test_saved_files_are_named_after_the_upload_or_the_time(tmp_path: Path) -> None:
    script = 'import { fileStem } from "PAGE/transcript.js";\n'
    script += "console.log(JSON.stringify(cases.map((name) => fileStem(name, new Date(2026, 0, 2, 3, 4, 5)))));"
    names = ["call.wav", "a.b.mp3", "talk", ".hidden", ""]
    assert in_node(script, names, tmp_path, "ds2.serve") == [
        "call",
        "a.b",
        "talk",
        ".hidden",
        "live_2026-01-02_03-04-05",
    ]


def spoken(seed: int) -> list[Word]:
    """300 words of English at some speed, with punctuation, figures of two words, pauses; or 300 Chinese ones."""
    rng, words, at = random.Random(seed), [], 0.0
    english = [*sorted(DANGLERS), *"house. went, extraordinarily So circumstances: 1984 home?” café №5".split()] * 2
    chinese = ["好", "好，", "人。", "我", "「你」", "K"]
    rate = rng.uniform(5, 30)
    for _ in range(300):
        shown = "" if words and rng.random() < 0.05 else rng.choice(chinese if seed % 4 == 0 else english)
        at += rng.choice([0.0, 0.0, 0.0, 0.0, 0.3, 1.5])
        start, at = at, at + (len(shown) + 1) / rate
        display = None if seed % 3 == 0 and shown else shown
        words.append(Word(shown.lower().strip(".,:?”，。「」") or "five", round(start, 3), round(at, 3), 0.9, display))
    return words


@with_node
def test_subtitles_of_the_page_have_the_cues_of_ds2_transcribe(tmp_path: Path) -> None:
    """The same words give the same cues in JavaScript and in Python: one set of rules."""
    readings = [spoken(seed) for seed in range(24)]
    cases = [
        ([{**asdict(word), "word": word.text} for word in words], words[-1].end + 0.1 * number)
        for number, words in enumerate(readings)
    ]
    columns, danglers, titles, found = in_node(CUES, cases, tmp_path, "ds2.serve")
    assert (columns, set(danglers), set(titles)) == (COLUMNS, DANGLERS, TITLES)
    for words, (_, end), cues in zip(readings, cases, found, strict=True):
        text = re.sub(BETWEEN_IDEOGRAPHS, "", " ".join(word.text for word in words))
        assert cues == [{"start": cue.start, "end": cue.end, "text": cue.text} for cue in make_cues(text, words, end)]


@with_node
def test_subtitles_of_a_long_segment_are_cues_that_can_be_read(tmp_path: Path) -> None:
    """A segment of 14 seconds was one cue of one line."""
    said = [word(text, 0.5 * place) for place, text in enumerate("the quick brown fox jumps over it".split() * 4)]
    [srt] = in_node(SCRIPT, [["srt", [said]]], tmp_path, "ds2.serve")
    cues = [cue.splitlines() for cue in srt.split("\n\n")[:-1]]
    assert len(cues) == 2
    assert all(len(line) <= COLUMNS for _, _, *lines in cues for line in lines)
    assert [each for _, _, *lines in cues for each in " ".join(lines).split()] == [each["word"] for each in said]
