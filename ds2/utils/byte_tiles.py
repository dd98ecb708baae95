"""Tiles of products of bytes in a processor's own instruction (VNNI), inside numba's kernels.

    16 outputs, 4 columns of int8 weights   .   4 bytes of each row, to all lanes   -->   16 sums of int32 in each row

A compiler does not find this instruction in loops, so the tile is written in LLVM's own language.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from ds2.utils.byte_products import BLOCKS, COLUMNS, FEW, LANES, MANY, add_few, add_many, add_one

INSTRUCTION = "llvm.x86.avx512.vpdpbusd.512"
BYTE, WORD, LONG, REAL = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.FloatType()
WORDS, REALS = ir.VectorType(WORD, LANES), ir.VectorType(REAL, LANES)


class Tile:
    """The code of `add_many`, for so many rows: BLOCKS vectors of sums for each, in registers."""

    def __init__(self, context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any, rows: int):
        self.context, self.builder, self.rows = context, builder, range(rows)
        x, self.row, weight, block, _, self.row_of_y = arguments
        self.x, self.scale = self._arrays(signature.args[0], x)
        self.weights, self.start, self.weight_scale = self._arrays(signature.args[2], weight)
        self.y = self._array(signature.args[4], arguments[4])
        self.width = cgutils.unpack_tuple(builder, self.x.shape, 2)[1]
        # Of a plane of x, and of a block of weights.
        self.size = builder.mul(cgutils.unpack_tuple(builder, self.weights.shape, 4)[1], LONG(COLUMNS))
        whole = builder.mul(self.size, LONG(LANES))
        blocks = [builder.add(block, LONG(number)) for number in range(BLOCKS)]
        self.outputs = [builder.mul(each, LONG(LANES)) for each in blocks]
        self.places = [builder.mul(each, whole) for each in blocks]
        starts = [self._loaded(self.start.data, output, WORDS, 4) for output in self.outputs]
        self.sums = [[cgutils.alloca_once_value(builder, each) for each in starts] for _ in self.rows]

    def _arrays(self, kind: Any, group: Any) -> list[Any]:
        return [self._array(each, self.builder.extract_value(group, number)) for number, each in enumerate(kind)]

    def _array(self, kind: Any, value: Any) -> Any:
        from numba.np import arrayobj  # only a compilation needs it: 25 ms

        return arrayobj.make_array(kind)(self.context, self.builder, value)

    def _loaded(self, data: Any, place: Any, kind: ir.Type, align: int) -> Any:
        pointer = self.builder.bitcast(self.builder.gep(data, [place]), kind.as_pointer())
        return self.builder.load(pointer, align=align)

    def _everywhere(self, value: Any, kind: ir.VectorType) -> Any:
        one = self.builder.insert_element(kind(ir.Undefined), value, WORD(0))
        return self.builder.shuffle_vector(one, kind(ir.Undefined), WORDS([0] * LANES))

    def add_plane(self, first: Any) -> None:
        """Adds the products of the columns of x from `first` on."""
        build = self.builder
        instruction = ir.FunctionType(WORDS, [WORDS] * 3)
        multiply = cgutils.get_or_insert_function(build.module, instruction, INSTRUCTION)
        lines = [build.mul(build.add(self.row, LONG(number)), self.width) for number in self.rows]
        with cgutils.for_range_slice(build, LONG(0), self.size, LONG(COLUMNS), LONG) as (k, _):
            shift = build.mul(k, LONG(LANES))
            weights = [self._loaded(self.weights.data, build.add(each, shift), WORDS, 1) for each in self.places]
            for line, sums in zip(lines, self.sums, strict=True):
                four = self._loaded(self.x.data, build.add(line, build.add(first, k)), WORD, 1)
                for total, weight in zip(sums, weights, strict=True):
                    product = build.call(multiply, [build.load(total), self._everywhere(four, WORDS), weight])
                    build.store(product, total)

    def multiply_by_256(self) -> None:
        """The sums of higher bytes, before those of lower ones."""
        for total in [total for sums in self.sums for total in sums]:
            eight = self._everywhere(WORD(8), WORDS)
            self.builder.store(self.builder.shl(self.builder.load(total), eight), total)

    def write(self) -> None:
        """Adds the sums, by their scales, to y."""
        build = self.builder
        columns = cgutils.unpack_tuple(build, self.y.shape, 2)[1]
        scales = [self._loaded(self.weight_scale.data, output, REALS, 4) for output in self.outputs]
        for number, sums in zip(self.rows, self.sums, strict=True):
            own = build.load(build.gep(self.scale.data, [build.add(self.row, LONG(number))]))
            line = build.mul(build.add(self.row_of_y, LONG(number)), columns)
            for total, output, scale in zip(sums, self.outputs, scales, strict=True):
                place = build.gep(self.y.data, [build.add(line, output)])
                pointer = build.bitcast(place, REALS.as_pointer())
                both = build.fmul(self._everywhere(own, REALS), scale)
                product = build.fmul(build.sitofp(build.load(total), REALS), both)
                build.store(build.fadd(build.load(pointer, align=4), product), pointer, align=4)


def tile(rows: int) -> Callable[..., Any]:
    """An intrinsic of numba: `add_many` for so many rows."""

    def build(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> Any:
        made = Tile(context, builder, signature, arguments, rows)
        made.add_plane(LONG(0))
        with builder.if_then(builder.icmp_signed(">", made.width, made.size)):
            made.multiply_by_256()
            made.add_plane(made.size)
        made.write()
        return context.get_dummy_value()

    @intrinsic
    def add(typing_context, x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
        return types.void(x, types.int64, weight, types.int64, y, types.int64), build

    return add


many, few, one = tile(MANY), tile(FEW), tile(1)


@overload(add_many, inline="always")
def _many_rows(x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
    return lambda x, i, weight, block, y, j: many(x, i, weight, block, y, j)


@overload(add_few, inline="always")
def _few_rows(x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
    return lambda x, i, weight, block, y, j: few(x, i, weight, block, y, j)


@overload(add_one, inline="always")
def _single_row(x, i, weight, block, y, j):  # type: ignore[no-untyped-def]
    return lambda x, i, weight, block, y, j: one(x, i, weight, block, y, j)
