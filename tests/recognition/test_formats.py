"""Transcripts as files, by hand."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from ds2.recognition.formats import FORMATS, _clock, _intervals, choose_formats
from ds2.recognition.transcript import Transcript, merge_channels
from ds2.recognition.words import Word
from ds2.utils.errors import ParameterError

WORDS = (Word("one", 0.5, 0.9, 0.99), Word("two", 1.0, 1.25, 0.5), Word("three", 3661.5, 3662.0, 0.25))
TRANSCRIPT = Transcript("one two three", WORDS, 3700.0, "digits")
NOTHING = Transcript("", (), 1.0)


def test_txt() -> None:
    assert FORMATS["txt"](TRANSCRIPT, "a.wav") == TRANSCRIPT.to_txt() == "one two\nthree\n"
    assert FORMATS["txt"](NOTHING, "a.wav") == "\n"


def test_json_is_one_line_that_holds_everything() -> None:
    text = FORMATS["json"](TRANSCRIPT, "a.wav")
    assert text.count("\n") == 1
    values = json.loads(text)
    assert values["file"] == "a.wav"
    assert values["model"] == "digits"
    assert values["segments"] == [
        {"start": 0.5, "end": 1.25, "text": "one two"},
        {"start": 3661.5, "end": 3662.0, "text": "three"},
    ]
    assert values["words"][1] == {"text": "two", "start": 1.0, "end": 1.25, "confidence": 0.5}


def test_srt() -> None:
    assert FORMATS["srt"](TRANSCRIPT, "a.wav") == (
        "1\n00:00:00,500 --> 00:00:01,500\none two\n\n2\n01:01:01,500 --> 01:01:02,500\nthree\n\n"
    )


def test_vtt() -> None:
    text = FORMATS["vtt"](TRANSCRIPT, "a.wav")
    assert text.startswith("WEBVTT\n\n00:00:00.500 --> 00:00:01.500\none two\n\n")


def test_ctm() -> None:
    assert FORMATS["ctm"](TRANSCRIPT, "my call.wav").splitlines()[1] == "my_call.wav 1 1.000 0.250 two 0.5000"


@pytest.mark.parametrize(("name", "empty"), [("txt", "\n"), ("srt", ""), ("vtt", "WEBVTT\n\n"), ("ctm", "")])
def test_nothing_said(name: str, empty: str) -> None:
    assert FORMATS[name](NOTHING, "a.wav") == empty


def test_ideographs_stand_together() -> None:
    words = tuple(Word(text, 0.1 * n, 0.1 * n + 0.1, 1.0) for n, text in enumerate(["你", "好", "ok", "我"]))
    assert "你好 ok我\n" in FORMATS["srt"](Transcript("你好 ok我", words, 1.0), "a")


def test_vtt_escapes_what_it_would_take_for_markup() -> None:
    words = (Word("<a", 0.0, 0.1, 1.0), Word("&", 0.2, 0.3, 1.0))
    assert "\n&lt;a &amp;\n" in FORMATS["vtt"](Transcript("<a &", words, 1.0), "a")
    assert "\n<a &\n" in FORMATS["srt"](Transcript("<a &", words, 1.0), "a")


@pytest.mark.parametrize("name", FORMATS)
def test_names_that_are_not_utf8_can_be_written(name: str) -> None:
    text = FORMATS[name](TRANSCRIPT, "\udcff.wav")
    assert text.encode("utf-8")
    if name == "json":
        assert json.loads(text)["file"] == "\\udcff.wav"


@pytest.mark.parametrize(
    ("seconds", "clock"), [(0.0, "00:00:00,000"), (59.9996, "00:01:00,000"), (3599.999, "00:59:59,999")]
)
def test_clock(seconds: float, clock: str) -> None:
    assert _clock(seconds, ",") == clock


def test_textgrid_covers_the_whole_time() -> None:
    lines = FORMATS["TextGrid"](TRANSCRIPT, "a.wav").splitlines()
    assert lines[:2] == ['File type = "ooTextFile"', 'Object class = "TextGrid"']
    starts = [float(line.split("=")[1]) for line in lines if line.startswith("            xmin")]
    ends = [float(line.split("=")[1]) for line in lines if line.startswith("            xmax")]
    texts = [line.split('"')[1] for line in lines if "text = " in line]
    assert texts == ["", "one", "", "two", "", "three", ""]
    assert starts[0] == 0
    assert starts[1:] == ends[:-1]
    assert ends[-1] == 3700


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([(0, 1), (1, 1), (1, 1), (2, 3)], [("abc", 0, 1), ("", 1, 2), ("d", 2, 3)]),
        ([(0, 0), (0, 1), (3, 3), (3, 3)], [("ab", 0, 1), ("cd", 1, 3)]),
        ([(0, 0), (0, 0), (0, 0), (0, 0)], [("abcd", 0, 3)]),
    ],
)
def test_no_interval_of_a_textgrid_is_without_length(
    times: list[tuple[float, float]], expected: list[tuple[str, float, float]]
) -> None:
    """Praat and others refuse the file: such a character shares the interval of its neighbour."""
    characters = [Word(text, start, end, 1.0) for text, (start, end) in zip("abcd", times, strict=True)]
    found = [line.split(" = ")[1].strip('"') for line in _intervals(characters, 3, "")[1:] if " = " in line]
    assert [(text, float(start), float(end)) for start, end, text in zip(*[iter(found)] * 3, strict=True)] == expected


def test_textgrid_of_silence_and_quotes() -> None:
    assert 'text = ""' in FORMATS["TextGrid"](NOTHING, "a.wav")
    quoted = Transcript('say "a"', (Word('"a"', 0.0, 1.0, 1.0),), 1.0)
    assert 'text = """a"""' in FORMATS["TextGrid"](quoted, "a.wav")


def test_methods_of_a_transcript_give_its_formats() -> None:
    assert TRANSCRIPT.to_srt() == FORMATS["srt"](TRANSCRIPT, "")
    assert TRANSCRIPT.to_vtt() == FORMATS["vtt"](TRANSCRIPT, "")
    assert TRANSCRIPT.to_textgrid() == FORMATS["TextGrid"](TRANSCRIPT, "")
    assert TRANSCRIPT.to_json("a.wav") == FORMATS["json"](TRANSCRIPT, "a.wav")
    assert TRANSCRIPT.to_ctm("a.wav") == FORMATS["ctm"](TRANSCRIPT, "a.wav")
    of_a_file = dataclasses.replace(TRANSCRIPT, path=Path("b.wav"))
    assert json.loads(of_a_file.to_json())["file"] == "b.wav"
    assert of_a_file.to_ctm() == FORMATS["ctm"](TRANSCRIPT, "b.wav")


def test_formats_are_chosen_by_name_in_any_case() -> None:
    assert choose_formats("SRT, textgrid,srt") == ["srt", "TextGrid"]
    assert choose_formats("all") == list(FORMATS)
    assert choose_formats("PNG", ("json", "png")) == ["png"]
    for wrong in ("", "doc", "txt,,srt", "all,txt"):
        with pytest.raises(ParameterError, match="format: unknown format"):
            choose_formats(wrong)


LEFT = Transcript("hello yes", (Word("hello", 0.5, 0.9, 0.9), Word("yes", 5.0, 5.4, 0.8)), 7.0, "digits")
RIGHT = Transcript("good day", (Word("good", 2.0, 2.4, 0.7), Word("day", 2.5, 2.8, 0.6)), 7.5, "digits")
CALL = merge_channels([LEFT, RIGHT])


def test_labels_of_channels_have_room_in_the_lines_of_cues() -> None:
    words = tuple(Word("channel", 0.4 * place, 0.4 * place + 0.3, 0.9) for place in range(60))
    speaker = Transcript(" ".join(["channel"] * 60), words, 30.0)
    lines = [line for line in merge_channels([speaker, LEFT]).to_srt().splitlines() if "channel" in line]
    assert lines[0].startswith("1: channel")
    assert max(map(len, lines)) == 42


def test_turns_of_separate_channels_are_in_order_of_time() -> None:
    assert CALL.to_txt() == "1: hello\n2: good day\n1: yes\n"
    assert (CALL.text, CALL.duration, CALL.model) == ("hello good day yes", 7.5, "digits")
    values = json.loads(CALL.to_json("call.wav"))
    assert [(segment["channel"], segment["text"]) for segment in values["segments"]] == [
        (1, "hello"),
        (2, "good day"),
        (1, "yes"),
    ]
    assert [(word["channel"], word["text"]) for word in values["words"]] == [
        (1, "hello"), (2, "good"), (2, "day"), (1, "yes"),
    ]  # fmt: skip
    assert "channels" not in values
    assert "\n2: good day\n" in CALL.to_srt()
    assert "\n<v channel 2>good day\n" in CALL.to_vtt()
    assert CALL.to_tsv() == "start\tend\ttext\n500\t900\t1: hello\n2000\t2800\t2: good day\n5000\t5400\t1: yes\n"
    assert [line.split()[1] for line in CALL.to_ctm().splitlines()] == ["1", "1", "2", "2"]


def test_every_channel_has_a_tier_of_the_same_length() -> None:
    grid = CALL.to_textgrid()
    assert re.findall(r'name = "(.*)"', grid) == ["channel 1", "channel 2"]
    assert set(re.findall(r" {8}xmax = (.*)", grid)) >= {"7.5"}
    assert re.findall(r'text = "(.+)"', grid) == ["hello", "yes", "good", "day"]
