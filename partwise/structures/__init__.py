"""Output spaces and their oracles on part scores."""

from partwise.structures.base import ORACLES, CompiledStructure, Structure
from partwise.structures.chain import Chain
from partwise.structures.multiclass import Multiclass

__all__ = ["ORACLES", "Chain", "CompiledStructure", "Multiclass", "Structure"]
