"""Recordings: which there are, and what is known of them from an earlier run."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from ds2.curation.finished_recordings import RecordingResult, load_record, record_path
from ds2.curation.pairs import find_pairs


def test_segments_of_an_earlier_run_do_not_count_as_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("raw/a.wav", "raw/corpus/audio/a.wav/0.flac", "audio/raw/a.wav/0.flac"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    raw = tmp_path / "raw"
    (raw / "._a.wav").touch()  # as macOS leaves beside each file
    assert [pair.name for pair in find_pairs(raw, raw / "corpus")] == ["a.wav"]
    assert [pair.name for pair in find_pairs(tmp_path, raw / "corpus")] == ["audio/raw/a.wav/0.flac", "raw/a.wav"]
    monkeypatch.chdir(raw)
    assert [pair.name for pair in find_pairs(Path(), Path("corpus"))] == ["a.wav"]
    # The corpus may lie around its recordings: what is not among the segments is a recording.
    assert [pair.name for pair in find_pairs(raw, tmp_path)] == ["a.wav", "corpus/audio/a.wav/0.flac"]


def test_a_record_of_version_0_1_is_read_and_one_with_another_key_is_not(tmp_path: Path) -> None:
    """It calls the hypothesis of a segment "heard"."""
    segment = {"id": "a.wav/0", "audio": "audio/a.wav/0.flac", "duration": 1.0, "text": "one", "heard": "two"}
    path = record_path(tmp_path, "a.wav")
    path.parent.mkdir()
    path.write_text(json.dumps(asdict(RecordingResult("a.wav", {"skip": False}, "a.wav", segments=[segment]))))
    record = load_record(tmp_path, "a.wav", {"skip": False})
    assert record is not None
    assert record.segments[0]["hypothesis"] == "two"
    assert "heard" not in record.segments[0]
    assert load_record(tmp_path, "a.wav", {"skip": True}) is None
    assert load_record(tmp_path, "b.wav", {"skip": False}) is None
