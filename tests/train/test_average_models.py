"""Averages of bundles."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ds2.bundle import Bundle
from ds2.cli.main import main
from ds2.model_record import Record
from ds2.train.average_models import average
from ds2.utils.errors import InputError


def saved(path: Path, value: float, hidden: int = 4, tokens: tuple[str, ...] = ("<blank>", "a")) -> Path:
    weights = {"w": torch.full((2, 6), value), "count": torch.tensor([2])}
    record = Record(config={"hidden": hidden}, tokens=list(tokens), training={"wer": value}, vocabulary=["a"])
    Bundle(weights=weights, **vars(record)).save(path)
    return path


def test_mean_of_weights_and_the_records_of_all(tmp_path: Path) -> None:
    bundle = average([saved(tmp_path / "a.safetensors", 1.0), saved(tmp_path / "b.safetensors", 4.0)])
    assert torch.equal(bundle.weights["w"], torch.full((2, 6), 2.5))
    assert bundle.weights["count"].tolist() == [2]
    assert bundle.vocabulary == ["a"]
    assert [one["wer"] for one in bundle.training["average_of"]] == [1.0, 4.0]


def test_models_without_a_common_start_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = [saved(tmp_path / f"{value}.safetensors", value) for value in (1.0, 2.0, -1.0)]
    average(paths[:2])
    assert not caplog.messages
    average(paths[1:])
    [message] = caplog.messages
    assert message.startswith(f"{paths[2]} did not begin where {paths[1]} did (the cosine of their weights is -1.00)")


def test_the_search_of_fine_tunings_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runs = [tmp_path / name for name in "ab"]
    for run in runs:
        run.mkdir()
        saved(run / "best.safetensors", 1.0)
        saved(run / "fine-tuned.safetensors", 1.0)
    average([run / "best.safetensors" for run in runs])
    assert caplog.messages == [
        f"none of them holds a language model, which {runs[0]}/fine-tuned.safetensors has: average such files"
    ]


def test_models_of_another_kind_are_refused(tmp_path: Path) -> None:
    first = saved(tmp_path / "a.safetensors", 1.0)
    for other in (
        saved(tmp_path / "b.safetensors", 1.0, hidden=5),
        saved(tmp_path / "c.safetensors", 1.0, tokens=("<blank>",)),
    ):
        with pytest.raises(InputError, match=f"{other}.*not that of"):
            average([first, other])
    longer = Bundle.load(first)
    longer.weights["w"] = torch.zeros(3, 6)  # as of a BN-LSTM that learnt from longer utterances
    longer.save(tmp_path / "d.safetensors")
    with pytest.raises(InputError, match=r"d\.safetensors: w has the shape \(3, 6\), in .*a\.safetensors \(2, 6\)"):
        average([first, tmp_path / "d.safetensors"])
    with pytest.raises(InputError, match="at least two"):
        average([first])


def test_a_tensor_that_one_of_the_bundles_lacks_is_refused_in_both_orders(tmp_path: Path) -> None:
    whole, less = saved(tmp_path / "whole.safetensors", 1.0), tmp_path / "less.safetensors"
    bundle = Bundle.load(whole)
    del bundle.weights["count"]
    bundle.save(less)
    with pytest.raises(InputError, match=f"^{less}: lacks count, which {whole} has: no average$"):
        average([less, whole])
    with pytest.raises(InputError, match=f"^{less}: lacks count, which {whole} has: no average$"):
        average([whole, less])


def test_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    bundles = [saved(tmp_path / "a.safetensors", 1.0), saved(tmp_path / "b.safetensors", float("nan"))]
    with pytest.raises(InputError, match=r"b\.safetensors: w holds nan"):
        average(bundles)


@pytest.mark.parametrize("first", ["english", "plain.safetensors"])
def test_a_language_model_stays_with_the_average(tmp_path: Path, first: str) -> None:
    """Also where the first model, as training writes it, has none."""
    bundle = Bundle.load("english")
    if first != "english":
        first = str(tmp_path / first)
        replace(bundle, language_model=None, decoder={}, punctuation=None, neural_model=None).save(first)
    averaged = average([first, "english"])
    assert averaged.language_model is not None
    assert bundle.language_model is not None
    assert averaged.language_model.arrays.keys() == bundle.language_model.arrays.keys()
    assert averaged.decoder == bundle.decoder


def test_the_average_is_not_written_over_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("a", 1.0), ("b", 4.0)):
        saved(tmp_path / f"{name}.safetensors", value)
    parts = [str(tmp_path / f"{name}.safetensors") for name in "ab"]
    before = Path(parts[0]).read_bytes()
    assert main(["average", *parts, "--output", parts[0]]) == 2
    assert "a.safetensors: is an input and would be overwritten; name another output" in capsys.readouterr().err
    assert Path(parts[0]).read_bytes() == before
