"""Estimators: the library's face for people, with scikit-learn's manners."""

from partwise.estimators.base import load_model
from partwise.estimators.sequence import SequenceLabeler
from partwise.estimators.stacked import StackedLabeler

__all__ = ["SequenceLabeler", "StackedLabeler", "load_model"]
