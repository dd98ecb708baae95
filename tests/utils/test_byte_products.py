"""Products of bytes: the processor's instruction against whole numbers of NumPy, and how near they are to float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2.utils import byte_products, processor
from ds2.utils.byte_products import (
    BLOCKS,
    FEW,
    LANES,
    LEAST_WEIGHTS,
    MANY,
    ByteWeight,
    add_few,
    add_many,
    add_one,
    convolved,
    multiplies_bytes,
    round_to_bytes,
    rounded,
    worth_it,
)
from ds2.utils.int8_linear import LARGEST

needs_the_instruction = pytest.mark.skipif(not multiplies_bytes(), reason="needs a processor with AVX-512 VNNI")


def by_numpy(x: tuple[np.ndarray, np.ndarray], taps: list[ByteWeight], bias: np.ndarray) -> np.ndarray:
    """`convolved` by the functions of Python that the instruction stands for."""
    y = np.tile(bias, (len(x[0]), 1))
    for number, weight in enumerate(taps):
        for block in range(0, len(weight.levels), BLOCKS):
            for n in range(len(y) - number):
                add_one(x, n + number, weight, block, y, n)
    return y


@needs_the_instruction
@settings(max_examples=60)
@given(
    rows=st.integers(0, 2 * MANY + FEW + 1), columns=st.integers(1, 40), tiles=st.integers(1, 3),
    taps=st.integers(1, 3), fine=st.booleans(), signed=st.booleans(), seed=st.integers(0, 2**16),
)  # fmt: skip
def test_the_instruction_gives_what_whole_numbers_give(
    rows: int, columns: int, tiles: int, taps: int, fine: bool, signed: bool, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((rows, 4 * columns)).astype(np.float32) * draw.choice([0.01, 1, 300])
    levels = rounded(x if signed else np.abs(x), signed, fine)
    weights = [
        ByteWeight.of(draw.standard_normal((LANES * BLOCKS * tiles, 4 * columns)).astype(np.float32), signed)
        for _ in range(taps)
    ]
    bias = draw.standard_normal(LANES * BLOCKS * tiles).astype(np.float32)
    found = convolved(levels, weights, bias)
    expected = by_numpy(levels, weights, bias)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max(initial=1))


def test_tiles_of_many_and_few_rows_are_rows_one_by_one() -> None:
    """In Python's form, which stands in the documentation of the instruction."""
    draw = np.random.default_rng(0)
    levels, scale = draw.integers(0, 256, (MANY, 8), np.uint8), draw.random(MANY, np.float32)
    weight = ByteWeight.of(draw.standard_normal((LANES * BLOCKS, 8)).astype(np.float32), signed=True)
    for add, rows in ((add_many, MANY), (add_few, FEW)):
        tile, one = np.zeros((2, rows, LANES * BLOCKS), np.float32)
        add((levels, scale), 0, weight, 0, tile, 0)
        for row in range(rows):
            add_one((levels, scale), row, weight, 0, one, row)
        assert np.array_equal(tile, one)
        assert tile.any(1).all()


@needs_the_instruction
@pytest.mark.parametrize(
    ("signed", "fine", "error"), [(False, False, 0.012), (True, False, 0.012), (True, True, 0.008)]
)
def test_products_are_near_those_in_double_precision(signed: bool, fine: bool, error: float) -> None:
    draw = np.random.default_rng(1)
    x = draw.standard_normal((50, 320)).astype(np.float32)
    x = x if signed else np.maximum(x, 0)
    weight = draw.standard_normal((64, 320)).astype(np.float32)
    found = convolved(rounded(x, signed, fine), [ByteWeight.of(weight, signed)], np.zeros(64, np.float32))
    exact = x.astype(np.float64) @ weight.T.astype(np.float64)
    assert np.sqrt(((found - exact) ** 2).mean() / (exact**2).mean()) < error


@needs_the_instruction
@pytest.mark.parametrize("columns", [4, 512, 516, 1024, 4096])
@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_fit(columns: int, sign: int) -> None:
    """Levels of both planes, all at their ends."""
    x = np.full((1, columns), sign, np.float32)
    weight = np.full((LANES * BLOCKS, columns), 3, np.float32)
    nothing = np.zeros(LANES * BLOCKS, np.float32)
    for signed in (True, False) if sign > 0 else (True,):
        found = convolved(rounded(x, signed, fine=True), [ByteWeight.of(weight, signed)], nothing)
        assert np.allclose(found, sign * 3 * columns, rtol=1e-3)


def test_rows_are_rounded_to_their_own_scale() -> None:
    x = np.array([[0, 1, 2.01, 4], [0, 0, 0, 0], [-5, 5, 0, 2.5]], np.float32)
    levels, scale = rounded(x[:2], signed=False)
    assert levels.tolist() == [[0, 64, 128, 255], [0, 0, 0, 0]]
    assert np.allclose(scale, [4 / 255, 1])
    levels, scale = rounded(x[2:], signed=True)
    assert levels.tolist() == [[1, 255, 128, 192]]
    assert scale[0] == np.float32(5 / LARGEST)
    levels, scale = rounded(x[2:], signed=True, fine=True)
    values = (levels[0, :4].astype(int) << 8) + levels[0, 4:] - 2**15
    assert values.tolist() == [1 - 2**15, 2**15 - 1, 0, 2**14]


def test_a_weight_is_padded_to_whole_tiles() -> None:
    weight = ByteWeight.packed(np.ones((33, 4), np.int8), np.ones(33, np.float32), signed=True)
    assert weight.levels.shape == (4, 1, LANES, 4)
    assert weight.start.tolist() == [-512] * 33 + [0] * 31


@needs_the_instruction
def test_small_matrices_stay_as_they_are() -> None:
    assert worth_it(np.zeros((LEAST_WEIGHTS // 8, 8)))
    assert not worth_it(np.zeros((LEAST_WEIGHTS // 8 - 1, 8)))
    assert not worth_it(np.zeros((LEAST_WEIGHTS, 6)))  # no whole number of columns at once


def test_the_instruction_is_for_this_processor_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel for a named processor does not use it: that one may lack it."""
    monkeypatch.setattr(byte_products, "processor_flags", lambda: frozenset({"avx2", "avx512_vnni"}))
    monkeypatch.delenv("NUMBA_CPU_NAME", raising=False)
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    ask = multiplies_bytes.__wrapped__
    assert ask()
    monkeypatch.setenv("NUMBA_CPU_NAME", "x86-64-v3")
    assert not ask()
    monkeypatch.delenv("NUMBA_CPU_NAME")
    monkeypatch.setattr(byte_products, "processor_flags", lambda: frozenset({"avx2"}))
    assert not ask()


def test_flags_are_those_of_linux(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(processor, "FLAGS", tmp_path / "cpuinfo")
    assert processor.processor_flags.__wrapped__() == frozenset()
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx512_vnni\nbugs\t\t:\n")
    assert processor.processor_flags.__wrapped__() == {"fpu", "avx512_vnni"}


def test_rounding_takes_what_is_no_number() -> None:
    """Damaged weights may give it: nothing breaks."""
    levels, scale = np.empty((1, 4), np.uint8), np.empty(1, np.float32)
    round_to_bytes(np.array([[np.nan, np.inf, 1, 0]], np.float32), 127, 128, levels, scale)
