"""Functions that compiled callers contain are optimised and turned into machine code once, with the caller.

numba does both for every function, whether or not it can be called by itself, and does it again for whatever that
function calls: with four levels of calls the innermost loops are optimised four times. A function compiled with
``pipeline_class=CalleeCompiler`` stops at its intermediate code, which is what callers link. It cannot be called
from Python; compile times of the deep loops of this library fall by a third to a half.

This overrides inner parts of numba: see :mod:`partwise._overrides` for what happens where they have changed.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import AnnotateTypes

from partwise._overrides import overrides_fit

__all__ = ["CalleeCompiler"]


class _WithoutEnvironment:
    """Stands in for the code generator where numba tells emitted code its Python environment: there is none."""

    def set_env(self, name: str, environment: Any) -> None:
        pass


class CalleeLibrary(JITCodeLibrary):
    """Intermediate code with everything it calls linked in, neither optimised nor emitted."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True

    @property
    def codegen(self) -> Any:
        return _WithoutEnvironment()


@register_pass(mutates_CFG=False, analysis_only=True)
class _AsCallee(AnalysisPass):
    """Makes the lowering that follows write into a :class:`CalleeLibrary`."""

    _name = "partwise_as_callee"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = CalleeLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return False


class CalleeCompiler(Compiler):
    """numba's own compiler, except for what becomes of the code."""

    def define_pipelines(self) -> list[Any]:
        if not overrides_fit():
            return list(super().define_pipelines())
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(_AsCallee, AnnotateTypes)
        passes.finalize()
        return [passes]
