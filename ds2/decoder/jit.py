"""How the decoder's kernels are compiled: all without the GIL, so that streams are searched side by side."""

from ds2.utils.jit import njit

compiled = njit(nogil=True)
# For functions that make no arrays: counting references to those they are given, and handing them over on the stack,
# took two thirds of a search's time.
without_references = njit(nogil=True, _nrt=False)
inlined = njit(nogil=True, _nrt=False, forceinline=True)
