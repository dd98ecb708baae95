"""Dot products of int8 weights and int16 activations in a processor's own instructions, inside numba's kernels.

    weights      32 of int8 of each output, widened to int16 once for all rows
    activations  32 of int16 of each row  -->  products, neighbours added: 16 sums of int32 of each output in each row

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

from ds2.utils.int8_linear import BLOCK, OUTPUTS, ROWS, one_dot, tile_of_dots

INSTRUCTIONS = {  # of x86, the widest first: its int16s at once
    "avx512bw": (32, "llvm.x86.avx512.pmaddw.d.512"),
    "avx2": (16, "llvm.x86.avx2.pmadd.wd"),
}
NAMED = {"x86-64-v4": "avx512bw", "x86-64-v3": "avx2"}
BYTE, HALF, WORD, LONG = (ir.IntType(bits) for bits in (8, 16, 32, 64))


def dots(outputs: int, rows: int, feature: str) -> Callable[..., Any]:
    """An intrinsic of numba: (M, K) int8, m, (N, K) int16, i -> the dot products of weights[m : m + outputs] and
    x[i : i + rows], one output after the other.

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
        own = [builder.mul(builder.add(m, LONG(number)), size) for number in range(outputs)]
        others = [builder.mul(builder.add(i, LONG(number)), size) for number in range(rows)]
        totals = [[cgutils.alloca_once_value(builder, sums(None)) for _ in others] for _ in own]
        with cgutils.for_range_slice(builder, LONG(0), size, LONG(lanes), LONG) as (j, _):
            narrow = [_loaded(builder, levels.data, builder.add(each, j), BYTE, lanes) for each in own]
            wide = [builder.sext(each, ir.VectorType(HALF, lanes)) for each in narrow]
            for row, other in enumerate(others):
                part = _loaded(builder, activations.data, builder.add(other, j), HALF, lanes)
                for each, found in zip(wide, totals, strict=True):
                    total = builder.add(builder.load(found[row]), multiplied(builder, each, part))
                    builder.store(total, found[row])
        # The lanes of each sum are added at the end, once.
        name = f"llvm.vector.reduce.add.v{sums.count}i32"
        added = cgutils.get_or_insert_function(builder.module, ir.FunctionType(WORD, [sums]), name)
        every = [total for found in totals for total in found]
        return cgutils.pack_array(builder, [builder.call(added, [builder.load(total)]) for total in every])

    @intrinsic
    def dots_of(typing_context, weights, m, x, i):  # type: ignore[no-untyped-def]
        return types.UniTuple(types.int32, outputs * rows)(weights, types.int64, x, types.int64), build

    return dots_of


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


one, tile = dots(1, 1, host_feature()), dots(OUTPUTS, ROWS, host_feature())


@overload(one_dot, inline="always")
def _one_dot(weights, m, x, i):  # type: ignore[no-untyped-def]
    return lambda weights, m, x, i: one(weights, m, x, i)[0]


@overload(tile_of_dots, inline="always")
def _tile_of_dots(weights, m, x, i):  # type: ignore[no-untyped-def]
    return lambda weights, m, x, i: tile(weights, m, x, i)
