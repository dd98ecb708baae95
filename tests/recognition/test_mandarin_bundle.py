"""The bundle for Mandarin on a recording of a speaker whom it never heard."""

from pathlib import Path

import numpy as np
import pytest

import ds2
from ds2.audio.tensors import read_audio
from ds2.data.manifest import read_manifest
from ds2.metrics import character_errors

MANIFEST = Path(__file__).parents[2] / "recipes" / "mandarin" / "audio" / "manifest.jsonl"
[SPOKEN] = read_manifest(MANIFEST)


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return read_audio(SPOKEN.audio_path, 16000)[0].numpy()


def test_characters_have_no_spaces_and_their_own_times(samples: np.ndarray) -> None:
    transcript = ds2.load("mandarin").transcribe(samples, 16000)
    assert " " not in transcript.text
    assert character_errors(SPOKEN.text, transcript.text).errors <= 2
    assert "".join(word.text for word in transcript.words) == transcript.text
    assert all(0 <= word.start < word.end <= transcript.duration for word in transcript.words)


def test_a_live_stream_hears_the_same(samples: np.ndarray) -> None:
    recognizer = ds2.load("mandarin")
    stream = recognizer.stream()
    heard = []
    for start in range(0, len(samples), 1600):
        stream.accept(samples[start : start + 1600], 16000)
        assert " " not in stream.partial()
    heard = "".join(each.text for each in stream.finish())
    assert character_errors(SPOKEN.text, heard).errors <= 2


def test_a_hot_phrase_of_characters_is_preferred(samples: np.ndarray) -> None:
    hot = ds2.load("mandarin", hot=["哲学角度"]).transcribe(samples, 16000)
    avoided = ds2.load("mandarin", hot=["哲学=-20"]).transcribe(samples, 16000)
    assert "哲学角度" in hot.text
    assert "哲学" not in avoided.text


def test_a_hot_word_in_letters_is_named_at_once(caplog: pytest.LogCaptureFixture) -> None:
    ds2.load("mandarin", hot=["hello"])
    assert "hot: hello: without a pronunciation, and not found" in caplog.text
