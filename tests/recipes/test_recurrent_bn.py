"""The comparison of LSTM and BN-LSTM runs, and its table reads what it and `ds2 train` write."""

import json
from pathlib import Path

from helpers.scripts import run_script

SCRIPT = Path(__file__).parents[2] / "recipes" / "recurrent_bn" / "compare.py"


def compare(*arguments: object) -> str:
    return run_script(SCRIPT, *arguments)


def test_books_and_speech_come_in_one_table(tmp_path: Path) -> None:
    (tmp_path / "books.txt").write_text("the cat sat on the mat, the dog ran to the cat. " * 5000)
    results = tmp_path / "results"
    printed = compare("language", results, "--text", tmp_path / "books.txt", "--updates", 2, "--seeds", 1)
    assert len(printed.splitlines()) == 2  # an evaluation of each cell
    speech = results / "speech.lstm.1"
    speech.mkdir()
    lines = [
        {"epoch": 1, "step": 32, "seconds": 2.0, "wer": 0.5},
        {"epoch": 2, "step": 64, "seconds": 3.0, "wer": 0.25},
    ]
    (speech / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    table = compare("table", results)
    assert "| language | bn-lstm | 1 |" in table
    assert "| language | lstm | 1 |" in table
    assert "| speech | lstm | 1 | 0.2500 ± 0.0000 | 0.2500 ± 0.0000 |  | 5 |" in table
    assert (results / "curves.png").stat().st_size > 0
