"""Pieces of work on torch's threads."""

import ctypes
import threading

import pytest

from ds2.ctc import threads
from ds2.ctc.threads import run_in_threads


@pytest.fixture(params=["torch's OpenMP", "a pool"])
def runtime(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "a pool":
        monkeypatch.setattr(threads, "_torchs_openmp", lambda: None)
    elif threads._torchs_openmp() is None:
        pytest.skip("this torch has no GNU OpenMP")


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_item_is_worked_on_once(count: int) -> None:
    done: list[int] = []
    run_in_threads(done.append, range(count))
    assert sorted(done) == list(range(count))


@pytest.mark.usefixtures("runtime")
def test_two_items_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=30)
    run_in_threads(lambda _: both.wait(), range(2))


@pytest.mark.usefixtures("runtime")
def test_an_error_comes_out() -> None:
    def work(item: int) -> None:
        if item == 3:
            raise ValueError("item 3")

    with pytest.raises(ValueError, match="item 3"):
        run_in_threads(work, range(8))


def test_the_runtime_is_the_one_that_torch_has_loaded() -> None:
    openmp = threads._torchs_openmp()
    if openmp is None:
        pytest.skip("this torch has no GNU OpenMP")
    with open("/proc/self/maps") as maps:
        loaded = {line.split()[-1] for line in maps if "libgomp" in line}
    assert len(loaded) == 1
    assert isinstance(openmp, ctypes.CDLL)
