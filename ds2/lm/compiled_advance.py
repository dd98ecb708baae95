"""What numba compiles for `advance`: kernels know the automaton's type when they are compiled."""

from numba.extending import overload

from ds2.lm.automaton import advance, advance_flat
from ds2.lm.packed import Packed, advance_packed


@overload(advance, jit_options={"nogil": True, "_nrt": False})  # type: ignore[typeddict-unknown-key]
def _advance_either(automaton, state, word):  # type: ignore[no-untyped-def]
    if automaton.instance_class is Packed:
        return lambda automaton, state, word: advance_packed(automaton, state, word)
    return lambda automaton, state, word: advance_flat(automaton, state, word)
