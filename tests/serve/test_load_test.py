"""What is made of the measurements of a load."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from serve.conftest import RunningServer

from ds2.serve.load_test import LoadResult, check_server
from ds2.serve.plots import draw_batches
from ds2.utils.errors import ParameterError


def test_a_batch_counts_once_for_each_of_its_streams() -> None:
    """Two steps of one stream and a step of two: half of the four chunks ran in a batch of two."""
    outcome = LoadResult(2, batches={1.0: 2.0, 2.0: 1.0, 3.0: 0.0})
    assert outcome.batch_probabilities == {1: 0.5, 2: 0.5}
    assert outcome.batched == 0.5


def test_the_summary_keeps_the_distribution() -> None:
    kept = json.loads(json.dumps(LoadResult(2, batches={1.0: 1.0, 4.0: 1.0}).summary()))
    assert kept["batch sizes"] == {"1": 0.2, "4": 0.8}


def test_references_in_capitals_count_for_a_server_without_any() -> None:
    heard = LoadResult(1, references=["ONE TWO"], hypotheses=["one two"])
    assert heard.summary()["WER"] == 0.0
    heard.hypotheses[0] = "One two"
    assert heard.summary()["WER"] == 1.0


def test_prose_is_compared_in_the_normal_form() -> None:
    said = ["mr smith paid twenty dollars in two thousand and twelve", "你 好"]
    heard = LoadResult(1, references=["Mr. Smith paid $20, in 2012."], hypotheses=said[:1])
    assert heard.summary()["WER"] == 0.0
    assert LoadResult(1, references=["你好。"], hypotheses=said[1:]).summary()["WER"] == 0.0


def test_without_steps_there_is_no_distribution() -> None:
    """Another server's, which has no metrics."""
    assert LoadResult(2).batch_probabilities == {}
    assert LoadResult(2).batched == 0.0


def test_the_figure_shows_these_probabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    monkeypatch.setattr("ds2.serve.plots.save_png", lambda figure, path: shown.append(figure))
    draw_batches(tmp_path / "batches.png", [LoadResult(2, batches={1.0: 2.0, 2.0: 1.0, 24.0: 0.0})])
    [line] = shown[0].axes[0].get_lines()
    assert line.get_xydata().tolist() == [[1, 0.5], [2, 0.5]]
    assert all(tick == int(tick) for tick in shown[0].axes[0].get_xticks())


def test_a_server_that_wants_a_key_says_so(start: Callable[..., RunningServer]) -> None:
    server = start(environment={"DS2_SERVE_API_KEYS": '["secret"]'})
    for key in ("", "wrong"):
        with pytest.raises(ParameterError, match="refuses the connection: give one of its API keys"):
            asyncio.run(check_server(server.live, key))
    asyncio.run(check_server(server.live, "secret"))
