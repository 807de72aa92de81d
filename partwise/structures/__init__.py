"""Output spaces and their oracles on part scores; each is imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from partwise.structures import plain as _plain  # noqa: F401, registers structures in plain Python
from partwise.structures.base import ORACLES, CompiledStructure, Structure

if TYPE_CHECKING:
    from partwise.structures.arborescence import Arborescence
    from partwise.structures.assignment import Assignment, RelaxedAssignment
    from partwise.structures.associative import AssociativeGraph
    from partwise.structures.chain import Chain
    from partwise.structures.cut import Cut
    from partwise.structures.factor_graph import FactorGraph
    from partwise.structures.graphs.model import Graph
    from partwise.structures.matching import Matching
    from partwise.structures.multiclass import Multiclass
    from partwise.structures.second_order import SecondOrderTree
    from partwise.structures.segments import Segments

__all__ = [
    "ORACLES",
    "Arborescence",
    "Assignment",
    "AssociativeGraph",
    "Chain",
    "CompiledStructure",
    "Cut",
    "FactorGraph",
    "Graph",
    "Matching",
    "Multiclass",
    "RelaxedAssignment",
    "SecondOrderTree",
    "Segments",
    "Structure",
]

_HOME = {
    "Arborescence": "arborescence",
    "Assignment": "assignment",
    "AssociativeGraph": "associative",
    "Chain": "chain",
    "Cut": "cut",
    "FactorGraph": "factor_graph",
    "Graph": "graphs.model",
    "Matching": "matching",
    "Multiclass": "multiclass",
    "RelaxedAssignment": "assignment",
    "SecondOrderTree": "second_order",
    "Segments": "segments",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"partwise.structures.{_HOME[name]}"), name)
    raise AttributeError(f"module 'partwise.structures' has no attribute {name!r}")
