"""The comparison of LSTM and BN-LSTM runs, and its table reads what it and `ds2 train` write."""

import json
from pathlib import Path

import pytest
from helpers.scripts import run_script

SCRIPT = Path(__file__).parents[2] / "recipes" / "recurrent_bn" / "compare.py"


def compare(*arguments: object) -> str:
    return run_script(SCRIPT, *arguments)


@pytest.mark.long
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


@pytest.mark.long
def test_the_figures_come_from_one_script(tmp_path: Path) -> None:
    """Statistics of one pass replace the running averages, which two updates leave near where they began."""
    (tmp_path / "books.txt").write_text("the cat sat on the mat, the dog ran to the cat. " * 5000)
    arguments = ("--text", tmp_path / "books.txt", "--updates", 2, "--seeds", 1)
    printed = run_script(SCRIPT.with_name("figures.py"), tmp_path / "results", *arguments)
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in printed.splitlines() if line.startswith("|")}
    bits = {name: [float(cell.split()[0]) for cell in cells] for name, cells in rows.items() if "±" in cells[0]}
    assert set(bits) >= {"0.01", "0.1", "1.0"}
    assert len(bits["running averages"]) == 4
    own, pooled = bits["the minibatch's own"], bits["population, in one pass"]
    assert all(abs(one - other) < 0.05 for one, other in zip(own[:2], pooled[:2], strict=True))
    assert (tmp_path / "results" / "figures.png").stat().st_size > 0
