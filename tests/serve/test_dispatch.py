"""Batch Dispatch on a simulated clock."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.serve.dispatch import Dispatcher, Eager, Full, Policy, Work


def work(stream: int, arrived: float = 0.0, shape: int = 1, name: str = "") -> Work[str]:
    return Work(stream, shape, name, arrived)


def filled(policy: Policy, *works: Work[str]) -> Dispatcher[str]:
    dispatcher: Dispatcher[str] = Dispatcher(policy)
    for one in works:
        dispatcher.add(one)
    return dispatcher


def streams(batch: list[Work[str]]) -> list[int]:
    return [one.stream for one in batch]


def test_nothing_waits_nothing_runs() -> None:
    dispatcher: Dispatcher[str] = Dispatcher(Eager())
    assert dispatcher.take(0.0) == []
    assert dispatcher.wake() is None


def test_eager_takes_whatever_is_ready_at_once() -> None:
    dispatcher = filled(Eager(), work(1), work(2), work(3))
    assert streams(dispatcher.take(0.0)) == [1, 2, 3]
    assert len(dispatcher) == 0


def test_eager_does_not_wait_for_company() -> None:
    assert streams(filled(Eager(64), work(1, arrived=5.0)).take(5.0)) == [1]


def test_a_batch_is_bounded_and_the_rest_comes_next() -> None:
    dispatcher = filled(Eager(2), work(1), work(2), work(3))
    assert streams(dispatcher.take(0.0)) == [1, 2]
    assert streams(dispatcher.take(0.0)) == [3]


def test_one_chunk_of_a_stream_in_a_batch_and_in_order() -> None:
    dispatcher = filled(Eager(), work(1, name="first"), work(1, name="second"), work(2))
    assert [(one.stream, one.payload) for one in dispatcher.take(0.0)] == [(1, "first"), (2, "")]
    assert [one.payload for one in dispatcher.take(0.0)] == ["second"]


def test_a_stream_far_behind_holds_back_nobody() -> None:
    dispatcher = filled(Eager(1), *(work(1) for _ in range(100)), work(2), work(3))
    assert [streams(dispatcher.take(0.0)) for _ in range(4)] == [[1], [2], [3], [1]]


def test_a_batch_has_one_shape_that_of_the_stream_next_in_turn() -> None:
    dispatcher = filled(Eager(), work(1, shape=8), work(2, shape=4), work(3, shape=8))
    assert streams(dispatcher.take(0.0)) == [1, 3]
    assert streams(dispatcher.take(0.0)) == [2]


def test_batches_of_one_stream() -> None:
    dispatcher = filled(Eager(1), work(1), work(2))
    assert [streams(dispatcher.take(0.0)) for _ in range(3)] == [[1], [2], []]


def test_a_full_stream_is_refused_and_the_others_are_not() -> None:
    dispatcher: Dispatcher[str] = Dispatcher(Eager(), bound=2)
    dispatcher.add(work(1))
    dispatcher.add(work(1))
    with pytest.raises(Full):
        dispatcher.add(work(1))
    dispatcher.add(work(2))
    assert len(dispatcher) == 3


def test_a_dropped_stream_is_forgotten() -> None:
    dispatcher = filled(Eager(), work(1), work(1), work(2))
    dispatcher.drop(1)
    dispatcher.drop(7)
    assert streams(dispatcher.take(0.0)) == [2]


@settings(max_examples=200)
@given(st.data())
def test_every_chunk_runs_once_in_its_streams_order_and_none_starves(data: st.DataObject) -> None:
    """For any arrivals and batch size nothing is lost, repeated or reordered, and a stream waits at most for one batch
    for each other stream: the first in turn is in every batch."""
    policy = data.draw(st.sampled_from([Eager(1), Eager(3), Eager(64)]))
    arrivals = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2)), max_size=60))
    dispatcher: Dispatcher[str] = Dispatcher(policy)
    expected: dict[int, list[str]] = {}
    served: dict[int, list[str]] = {}
    waited: Counter[int] = Counter()  # of each stream that waits: batches without it

    def take(now: float) -> bool:
        batch = dispatcher.take(now)
        assert len(set(streams(batch))) == len(batch)
        for one in batch:
            served.setdefault(one.stream, []).append(one.payload)
            del waited[one.stream]
        if batch:
            waited.update(dispatcher.waiting.keys() - set(streams(batch)))
        assert max(waited.values(), default=0) < max(1, len(expected))
        return bool(batch)

    for number, (stream, shape) in enumerate(arrivals):
        expected.setdefault(stream, []).append(str(number))
        dispatcher.add(work(stream, float(number), shape, str(number)))
        if data.draw(st.booleans()):
            take(float(number))
    now = float(len(arrivals)) + 1.0
    while take(now):
        pass
    assert served == expected
    assert len(dispatcher) == 0


class Load:
    """Streams that bring a chunk every `period` seconds each, and a model with a fixed time and a time per stream."""

    def __init__(self, policy: Policy, count: int, fixed: float, each: float, period: float = 0.12):
        self.dispatcher: Dispatcher[str] = Dispatcher(policy)
        self.count, self.fixed, self.each, self.period = count, fixed, each, period

    def waits(self, seconds: float) -> list[float]:
        """From arrival to the end of the step, of all chunks of so many simulated seconds."""
        starts = [self.period * stream / self.count for stream in range(self.count)]
        number = round(seconds / self.period)
        arrivals = sorted(
            (start + self.period * n, stream) for stream, start in enumerate(starts) for n in range(number)
        )
        now, waits = 0.0, []
        while arrivals or len(self.dispatcher):
            while arrivals and arrivals[0][0] <= now:
                arrived, stream = arrivals.pop(0)
                self.dispatcher.add(work(stream, arrived))
            batch = self.dispatcher.take(now)
            if batch:
                now += self.fixed + self.each * len(batch)
                waits += [now - one.arrived for one in batch]
            else:
                wake = self.dispatcher.wake()
                now = min([arrival for arrival, _ in arrivals[:1]] + ([] if wake is None else [wake]))
        return waits
