"""However sound comes in, its chunks follow each other and bring every output frame of the stream once."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from helpers.node import in_node, with_node
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.model.config import UNENDED
from ds2.model.steps import Steps
from ds2.recognition.chunks import Chunk, Chunks


@st.composite
def all_steps(draw: st.DrawFn) -> Steps:
    """Of models with and without a chunk of their own."""
    stride, delay, hop = draw(st.integers(1, 3)), draw(st.integers(0, 4)), draw(st.integers(1, 4))
    least, more = stride * draw(st.integers(1, 3)), draw(st.integers(1, 4))
    own = draw(st.booleans())
    frames, longest = (least * more, least * more) if own else (least, least * more)
    return Steps(hop, draw(st.integers(0, 5)), stride, delay, frames, longest, least)


@st.composite
def sounds(draw: st.DrawFn) -> list[np.ndarray]:
    """Samples 1, 2, 3, ... in several arrays."""
    ends = np.cumsum(draw(st.lists(st.integers(0, 40), min_size=1, max_size=8)))
    return np.split(np.arange(1, ends[-1] + 1, dtype=np.float32), ends[:-1])


def cut(steps: Steps, sound: list[np.ndarray]) -> list[Chunk]:
    chunks = Chunks(steps)
    return [*(chunk for samples in sound for chunk in chunks.step(samples)), *chunks.finish()]


def test_chunks_overlap_and_silence_fills_the_last() -> None:
    """Frames of a hop of 2 and an overlap of 1; an output frame of each, one frame late."""
    steps = Steps(hop=2, overlap=1, stride=1, delay=1, frames=2, long_frames=2, least_frames=2)
    found = cut(steps, [np.array([1, 2, 3, 4], np.float32), np.array([5, 6, 7], np.float32)])
    assert [chunk.samples.tolist() for chunk in found] == [[1, 2, 3, 4, 5], [5, 6, 7, 0, 0]]
    assert [(chunk.position, chunk.frames, chunk.length) for chunk in found] == [(0, 2, UNENDED), (2, 2, 3)]
    assert [range(2)[chunk.rows] for chunk in found] == [range(1, 2), range(2)]


@given(steps=all_steps(), sound=sounds())
def test_every_output_frame_comes_once(steps: Steps, sound: list[np.ndarray]) -> None:
    samples, found = np.concatenate(sound), cut(steps, sound)
    length = max(1, (len(samples) - steps.overlap) // steps.hop) if len(samples) else 0
    assert [chunk.position for chunk in found] == [0, *np.cumsum([chunk.frames for chunk in found])[:-1]][: len(found)]
    heard = np.pad(samples, (0, 1000))
    for chunk in found:
        first = chunk.position * steps.hop
        assert np.array_equal(chunk.samples, heard[first : first + steps.samples(chunk.frames)])
    rows = [
        chunk.position // steps.stride - steps.delay + row
        for chunk in found
        for row in range(chunk.frames // steps.stride)[chunk.rows]
    ]
    assert rows == list(range(steps.outputs(length)))


RUN = """
import { Chunks } from "PAGE/chunks.js";

const found = cases.map(({ steps, sound }) => {
  const chunks = new Chunks(steps);
  const all = [...sound.flatMap((samples) => chunks.step(Float32Array.from(samples))), ...chunks.finish()];
  const rows = ({ first, last }) => Array.from({ length: last - first }, (_, row) => first + row);
  return all.map((chunk) => [[...chunk.samples], chunk.position, chunk.length, rows(chunk)]);
});
console.log(JSON.stringify(found));
"""


@with_node
def test_the_page_cuts_the_same_chunks(tmp_path: Path) -> None:
    """The machine in JavaScript, in Node, on the same sounds."""
    cases: list[tuple[Steps, list[np.ndarray]]] = []

    @settings(database=None)
    @given(steps=all_steps(), sound=sounds())
    def collect(steps: Steps, sound: list[np.ndarray]) -> None:
        cases.append((steps, sound))

    collect()
    written = [{"steps": asdict(steps), "sound": [samples.tolist() for samples in sound]} for steps, sound in cases]
    expected = [[described(chunk, steps) for chunk in cut(steps, sound)] for steps, sound in cases]
    assert in_node(RUN, written, tmp_path) == expected
    assert len(cases) > 50


def described(chunk: Chunk, steps: Steps) -> list:
    rows = range(chunk.frames // steps.stride)[chunk.rows]
    return [chunk.samples.tolist(), chunk.position, chunk.length, list(rows)]
