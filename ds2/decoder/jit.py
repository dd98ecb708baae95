"""Compiles the decoder's kernels without the GIL, so that streams are searched in parallel."""

from ds2.utils.jit import njit

compiled = njit(nogil=True)
# For functions that allocate no arrays: reference counting for their arguments, and passing these on the stack,
# took two thirds of a search's time.
without_references = njit(nogil=True, _nrt=False)
inlined = njit(nogil=True, _nrt=False, forceinline=True)
