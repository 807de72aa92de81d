"""Scores of predictions: chunk F1 as conlleval counts it, accuracy, AER, bootstrap intervals, calibration.

Tags are lists of sentences, each a list of strings, or ``(codes, vocab, offsets)`` as in
``partwise.data.CodedColumn``; the gold tags and the predicted ones may come in different forms. Scores are
fractions; only ``report`` shows percent.
"""

from partwise.metrics.alignment import AlignmentScores, alignment_bootstrap, alignment_scores
from partwise.metrics.chunks import ChunkCounts, ChunkScores, chunk_scores
from partwise.metrics.probabilities import Calibration, calibration
from partwise.metrics.resampling import Bootstrap, PairedBootstrap, bootstrap, paired_bootstrap
from partwise.metrics.tokens import Confusion, confusion, token_accuracy

__all__ = [
    "AlignmentScores",
    "Bootstrap",
    "Calibration",
    "ChunkCounts",
    "ChunkScores",
    "Confusion",
    "PairedBootstrap",
    "alignment_bootstrap",
    "alignment_scores",
    "bootstrap",
    "calibration",
    "chunk_scores",
    "confusion",
    "paired_bootstrap",
    "token_accuracy",
]
