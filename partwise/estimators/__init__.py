"""Estimators: the library's face for people, with scikit-learn's manners."""

from partwise.estimators.base import load_model
from partwise.estimators.sequence import SequenceLabeler

__all__ = ["SequenceLabeler", "load_model"]
