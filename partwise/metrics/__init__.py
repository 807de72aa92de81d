"""Scores of predictions: chunk F1 as conlleval counts it, accuracy, AER, bootstrap intervals, calibration.

Tags are lists of sentences, each a list of strings, or ``(codes, vocab, offsets)`` as in
``partwise.data.CodedColumn``; the gold tags and the predicted ones may come in different forms. Scores are
fractions; only ``report`` shows percent. What all tasks use lives here; the scores of one task live with it.
"""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
