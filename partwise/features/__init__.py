"""Feature maps: the linear map from weights to part scores, and its adjoint."""

from partwise.features.base import Features, MatrixFeatures
from partwise.features.given import GivenScores
from partwise.features.inputs import RowMatrix, Vocabulary
from partwise.features.layout import ChainFeatures, DenseLayout, RowFeatures, RowLayout

__all__ = [
    "ChainFeatures",
    "DenseLayout",
    "Features",
    "GivenScores",
    "MatrixFeatures",
    "RowFeatures",
    "RowLayout",
    "RowMatrix",
    "Vocabulary",
]
