"""numba's compiler for functions that become parts of other kernels, and never run alone.

numba optimises each function that it compiles, together with all that it calls, and makes machine code of it. For sixty
functions that are inlined into one search this was a third of the time of its compilation, and all of it in vain: the
kernel that calls them is optimised once it holds them.
"""

from typing import Any

import numba
from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import CPUCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

NOWHERE = 0  # the address of machine code that nobody makes


def part_of_others(function: Any, options: dict[str, Any]) -> Any:
    """`numba.njit` for a function that is compiled into those that call it.

    It is not kept, and has no code that takes arguments from Python: unpacking tuples of arrays by that was a third of
    the time in which a search is compiled.
    """
    options = {**options, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}
    return numba.njit(**options)(function)


class _PartLibrary(CPUCodeLibrary):
    """A function and those that it calls as LLVM's intermediate code, each optimised by itself."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True


@register_pass(mutates_CFG=True, analysis_only=False)
class _PartLowering(NativeLowering):
    """numba's step from types to LLVM, with a library that makes no machine code."""

    _name = "part_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        state.library.finalize()
        # numba looks a function up by this object.
        entry = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), state.func_id.func_name, "", NOWHERE, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=entry)
        return True


class _PartCompiler(CompilerBase):
    """numba's usual passes, with this last one."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_PartLowering if each is NativeLowering else each, what) for each, what in passes.passes]
        passes.finalize()
        return [passes]
