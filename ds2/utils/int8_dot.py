"""Dot products of int8 weights and int16 activations in a processor's own instructions, inside numba's kernels.

    weights      32 of int8, widened to int16 once for all rows
    activations  32 of int16 of each row  -->  products, neighbours added: 16 sums of int32 in each row

Compilers find these instructions only in the simplest loops, so the loop is written in LLVM's own language. Sums wrap
beyond int32: activations must be small enough (int8_linear.py).
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic, overload

from ds2.utils.int8_linear import BLOCK, ROWS, dots_of_one_row, dots_of_rows

INSTRUCTIONS = {  # of x86, the widest first: its int16s at once
    "avx512bw": (32, "llvm.x86.avx512.pmaddw.d.512"),
    "avx2": (16, "llvm.x86.avx2.pmadd.wd"),
}
NAMED = {"x86-64-v4": "avx512bw", "x86-64-v3": "avx2"}
BYTE, HALF, WORD, LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def dots(rows: int, feature: str) -> Callable[..., Any]:
    """An intrinsic of numba: (M, K) int8, m, (N, K) int16, i -> the dot products of weights[m] and x[i:i + rows].

    `feature`: of INSTRUCTIONS, or "" for plain multiplications, which every processor has.
    """
    lanes, instruction = INSTRUCTIONS.get(feature, (BLOCK, ""))
    sums = ir.VectorType(WORD, lanes // 2 if instruction else lanes)

    # Products of one vector of weights and one of activations, neighbours already added where an instruction does it.
    def multiplied(builder: ir.IRBuilder, weights: ir.Value, x: ir.Value) -> ir.Value:
        if not instruction:
            return builder.mul(builder.sext(weights, sums), builder.sext(x, sums))
        halves = ir.VectorType(HALF, lanes)
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(sums, [halves, halves]), instruction)
        return builder.call(function, [weights, x])

    # The loop: each vector of weights is widened once and multiplied with the same columns of all rows.
    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        from numba.np import arrayobj  # only a compilation needs it: 25 ms

        weights, m, x, i = arguments
        levels = arrayobj.make_array(signature.args[0])(context, builder, weights)
        activations = arrayobj.make_array(signature.args[2])(context, builder, x)
        size = cgutils.unpack_tuple(builder, levels.shape, 2)[1]
        own = builder.mul(m, size)
        others = [builder.mul(builder.add(i, LONG(number)), size) for number in range(rows)]
        totals = [cgutils.alloca_once_value(builder, sums(None)) for _ in range(rows)]
        with cgutils.for_range_slice(builder, LONG(0), size, LONG(lanes), LONG) as (j, _):
            narrow = _loaded(builder, levels.data, builder.add(own, j), BYTE, lanes)
            wide = builder.sext(narrow, ir.VectorType(HALF, lanes))
            for other, total in zip(others, totals, strict=True):
                part = _loaded(builder, activations.data, builder.add(other, j), HALF, lanes)
                builder.store(builder.add(builder.load(total), multiplied(builder, wide, part)), total)
        # The lanes of each row's sums are added at the end, once.
        name = f"llvm.vector.reduce.add.v{sums.count}i32"
        added = cgutils.get_or_insert_function(builder.module, ir.FunctionType(WORD, [sums]), name)
        return cgutils.pack_array(builder, [builder.call(added, [builder.load(total)]) for total in totals])

    @intrinsic
    def products_of_rows(typing_context, weights, m, x, i):  # type: ignore[no-untyped-def]
        return types.UniTuple(types.int32, rows)(weights, types.int64, x, types.int64), build

    return products_of_rows


def _loaded(builder: ir.IRBuilder, data: ir.Value, place: ir.Value, kind: ir.Type, lanes: int) -> ir.Value:
    """`lanes` neighbouring values, at any address."""
    pointer = builder.bitcast(builder.gep(data, [place]), ir.VectorType(kind, lanes).as_pointer())
    value = builder.load(pointer)
    value.align = kind.width // 8
    return value


def host_feature() -> str:
    """The widest of INSTRUCTIONS of the processor that numba compiles for; "" if none.

    That is this one, or the one that NUMBA_CPU_NAME names: LLVM aborts where a kernel asks for what that one lacks.
    """
    if config.CPU_NAME is not None:  # type: ignore[attr-defined]
        return NAMED.get(config.CPU_NAME, "")  # type: ignore[attr-defined]
    features = get_host_cpu_features()
    return next((feature for feature in INSTRUCTIONS if features.get(feature)), "")


one_row, four_rows = dots(1, host_feature()), dots(ROWS, host_feature())


@overload(dots_of_one_row, inline="always")
def _one_row(weights, m, x, i):  # type: ignore[no-untyped-def]
    return lambda weights, m, x, i: one_row(weights, m, x, i)


@overload(dots_of_rows, inline="always")
def _four_rows(weights, m, x, i):  # type: ignore[no-untyped-def]
    return lambda weights, m, x, i: four_rows(weights, m, x, i)
