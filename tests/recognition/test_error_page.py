"""The page of the worst utterances."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from helpers.browser import look, needs_browser

from ds2.data.utterance import Utterance
from ds2.recognition.error_page import write_error_page
from ds2.recognition.evaluate import Evaluation

HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Three utterances: right, one error, two errors; all texts and names that come from outside are hostile."""
    sound = np.random.default_rng(1).normal(0, 0.1, 8000)
    soundfile.write(tmp_path / "<b>a.wav", sound, 8000)
    rows = [("one", "one"), (f"one {HOSTILE}", "one"), ("two five six", "two nine")]
    utterances = [
        Utterance(tmp_path / "<b>a.wav", 0.25, text, offset=number / 4, speaker=HOSTILE, place=f"m.jsonl:{number + 1}")
        for number, (text, _) in enumerate(rows)
    ]
    result = Evaluation(utterances, [hypothesis for _, hypothesis in rows], [], [], 1.0, 1.0, 0.0, [])
    write_error_page(tmp_path / "page.html", HOSTILE, result, {"people": ["one", f"one {HOSTILE}", "two five six"]})
    return tmp_path / "page.html"


def test_the_worst_come_first_with_their_sound(page: Path) -> None:
    text = page.read_text()
    cards = text.split("<article>")[1:]
    assert ["m.jsonl:3" in cards[0], "m.jsonl:2" in cards[1], len(cards)] == [True, True, 2]
    assert "<b>five</b><ins>nine</ins>" in cards[0]
    assert "<b><del>six</del></b><ins>·</ins>" in cards[0]
    assert "people: 0 errors in 3 words" in cards[0]
    [encoded] = re.findall(r'src="data:audio/flac;base64,([^"]+)"', cards[0])
    samples, rate = soundfile.read(io.BytesIO(base64.b64decode(encoded)))
    assert (len(samples), rate) == (4000, 16000)
    policy = text.partition('Content-Security-Policy" content="')[2].partition('"')[0]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:;")
    assert "<script" not in text
    assert "<b>a.wav" not in text


@pytest.mark.long
@needs_browser
def test_a_browser_shows_it_and_runs_nothing(page: Path) -> None:
    shown, complaints = look(page)
    assert complaints == []
    assert shown.count("<audio controls") == 2
