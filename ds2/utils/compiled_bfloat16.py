"""What numba compiles for `real` and `store`: bfloat16's bits widened and rounded."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from ds2.utils.bfloat16 import real, store

BITS = ir.IntType(32)


@intrinsic
def _widened(typingctx, value):  # type: ignore[no-untyped-def]
    def build(c, b, s, args):  # type: ignore[no-untyped-def]
        return b.bitcast(b.shl(b.zext(args[0], BITS), ir.Constant(BITS, 16)), ir.FloatType())

    return types.float32(types.uint16), build


@intrinsic
def _rounded(typingctx, value):  # type: ignore[no-untyped-def]
    """To the nearest, ties to even; a NaN as the hardware makes it stays a NaN."""

    def build(c, b, s, args):  # type: ignore[no-untyped-def]
        bits = b.bitcast(args[0], BITS)
        odd = b.and_(b.lshr(bits, ir.Constant(BITS, 16)), ir.Constant(BITS, 1))
        raised = b.add(bits, b.add(odd, ir.Constant(BITS, 0x7FFF)))
        return b.trunc(b.lshr(raised, ir.Constant(BITS, 16)), ir.IntType(16))

    return types.uint16(types.float32), build


@overload(real, inline="always")
def _real(value):  # type: ignore[no-untyped-def]
    if value == types.uint16:
        return lambda value: _widened(value)
    return lambda value: value


@overload(store, inline="always")
def _store(array, index, value):  # type: ignore[no-untyped-def]
    if array.dtype == types.uint16:

        def rounded(array, index, value):  # type: ignore[no-untyped-def]
            array[index] = _rounded(value)

        return rounded

    def plain(array, index, value):  # type: ignore[no-untyped-def]
        array[index] = value

    return plain
