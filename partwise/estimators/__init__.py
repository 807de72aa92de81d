"""Estimators: the library's face for people, with scikit-learn's manners."""

from typing import TYPE_CHECKING, Any

from partwise.estimators.base import load_model
from partwise.estimators.sequence import SequenceLabeler
from partwise.estimators.stacked import StackedLabeler
from partwise.estimators.structured import StructuredClassifier

if TYPE_CHECKING:
    from partwise.estimators.aligner import WordAligner

__all__ = ["SequenceLabeler", "StackedLabeler", "StructuredClassifier", "WordAligner", "load_model"]


def __getattr__(name: str) -> Any:
    if name == "WordAligner":  # it imports partwise.alignment, which imports from here
        from partwise.estimators.aligner import WordAligner

        return WordAligner
    raise AttributeError(f"module 'partwise.estimators' has no attribute {name!r}")
