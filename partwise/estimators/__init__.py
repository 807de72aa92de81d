"""Estimators: the library's face for people, with scikit-learn's manners."""

from partwise.estimators.base import load_model
from partwise.estimators.sequence import SequenceLabeler
from partwise.estimators.stacked import StackedLabeler
from partwise.estimators.structured import StructuredClassifier

__all__ = ["SequenceLabeler", "StackedLabeler", "StructuredClassifier", "load_model"]
