"""Tiles of products of bytes in a processor's own instruction (VNNI), inside numba's kernels.

    16 outputs, 4 columns of int8 weights   .   4 bytes of each row, to all lanes   -->   16 sums of int32 in each row

A compiler does not find this instruction in loops, so the tile is written in LLVM's own language.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from ds2.utils.byte_products import BLOCKS, COLUMNS, FEW, LANES, MANY, add_few, add_many, add_one

INSTRUCTION = "llvm.x86.avx512.vpdpbusd.512"
BYTE, WORD, LONG, REAL = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
WORDS, REALS = ir.VectorType(WORD, LANES), ir.VectorType(REAL, LANES)


def tile(rows: int) -> Any:
    """An intrinsic of numba: see `add_tile`, for so many rows."""

    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        from numba.np import arrayobj

        def array(number: int) -> Any:
            return arrayobj.make_array(signature.args[number])(context, builder, arguments[number])

        x, scale, levels, start, weight_scale, y = (array(number) for number in (0, 1, 3, 4, 5, 7))
        i, block, j = arguments[2], arguments[6], arguments[8]
        width = cgutils.unpack_tuple(builder, x.shape, 2)[1]
        size = builder.mul(cgutils.unpack_tuple(builder, levels.shape, 4)[1], LONG(COLUMNS))  # of a plane of x
        columns = cgutils.unpack_tuple(builder, y.shape, 2)[1]
        first = builder.mul(block, LONG(LANES))

        def loaded(data: Any, place: Any, kind: ir.Type, align: int) -> Any:
            pointer = builder.bitcast(builder.gep(data, [place]), kind.as_pointer())
            return builder.load(pointer, align=align)

        def everywhere(value: Any, kind: ir.VectorType) -> Any:
            one = builder.insert_element(kind(ir.Undefined), value, WORD(0))
            return builder.shuffle_vector(one, kind(ir.Undefined), WORDS([0] * LANES))

        places = [builder.add(first, LONG(LANES * number)) for number in range(BLOCKS)]
        starts = [loaded(start.data, place, WORDS, 4) for place in places]
        sums = [[cgutils.alloca_once_value(builder, each) for each in starts] for _ in range(rows)]
        whole = builder.mul(size, LONG(LANES))  # of a block of weights
        own = [builder.mul(builder.add(block, LONG(number)), whole) for number in range(BLOCKS)]
        lines = [builder.mul(builder.add(i, LONG(number)), width) for number in range(rows)]
        kind = ir.FunctionType(WORDS, [WORDS] * 3)
        multiply = cgutils.get_or_insert_function(builder.module, kind, INSTRUCTION)

        def add_plane(plane: Any) -> None:
            with cgutils.for_range_slice(builder, LONG(0), size, LONG(COLUMNS), LONG) as (k, _):
                shift = builder.mul(k, LONG(LANES))
                weights = [loaded(levels.data, builder.add(each, shift), WORDS, 1) for each in own]
                for row, line in zip(sums, lines, strict=True):
                    place = builder.add(line, builder.add(plane, k))
                    four = everywhere(loaded(x.data, place, WORD, 1), WORDS)
                    for total, weight in zip(row, weights, strict=True):
                        builder.store(builder.call(multiply, [builder.load(total), four, weight]), total)

        add_plane(LONG(0))
        with builder.if_then(builder.icmp_signed(">", width, size)):
            for total in [total for row in sums for total in row]:
                builder.store(builder.shl(builder.load(total), everywhere(WORD(8), WORDS)), total)
            add_plane(size)
        scales = [loaded(weight_scale.data, place, REALS, 4) for place in places]
        for number, row in enumerate(sums):
            own_scale = everywhere(builder.load(builder.gep(scale.data, [builder.add(i, LONG(number))])), REALS)
            line = builder.mul(builder.add(j, LONG(number)), columns)
            for total, place, each in zip(row, places, scales, strict=True):
                pointer = builder.bitcast(builder.gep(y.data, [builder.add(line, place)]), REALS.as_pointer())
                product = builder.fmul(builder.sitofp(builder.load(total), REALS), builder.fmul(own_scale, each))
                builder.store(builder.fadd(builder.load(pointer, align=4), product), pointer, align=4)
        return context.get_dummy_value()

    @intrinsic
    def add(typing_context, x, scale, i, levels, start, weight_scale, block, y, j):  # type: ignore[no-untyped-def]
        return types.void(x, scale, types.int64, levels, start, weight_scale, types.int64, y, types.int64), build

    return add


many, few, one = tile(MANY), tile(FEW), tile(1)


@overload(add_many, inline="always")
def _many(x, scale, i, weights, start, weight_scale, block, y, j):  # type: ignore[no-untyped-def]
    return lambda x, scale, i, weights, start, weight_scale, block, y, j: many(
        x, scale, i, weights, start, weight_scale, block, y, j
    )


@overload(add_few, inline="always")
def _few(x, scale, i, weights, start, weight_scale, block, y, j):  # type: ignore[no-untyped-def]
    return lambda x, scale, i, weights, start, weight_scale, block, y, j: few(
        x, scale, i, weights, start, weight_scale, block, y, j
    )


@overload(add_one, inline="always")
def _one(x, scale, i, weights, start, weight_scale, block, y, j):  # type: ignore[no-untyped-def]
    return lambda x, scale, i, weights, start, weight_scale, block, y, j: one(
        x, scale, i, weights, start, weight_scale, block, y, j
    )
