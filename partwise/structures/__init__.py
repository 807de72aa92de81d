"""Output spaces and their oracles on part scores."""

from partwise.structures.assignment import Assignment, RelaxedAssignment
from partwise.structures.base import ORACLES, CompiledStructure, Structure
from partwise.structures.chain import Chain
from partwise.structures.matching import Matching
from partwise.structures.multiclass import Multiclass

__all__ = [
    "ORACLES",
    "Assignment",
    "Chain",
    "CompiledStructure",
    "Matching",
    "Multiclass",
    "RelaxedAssignment",
    "Structure",
]
