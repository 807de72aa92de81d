"""How much of the classes a reduced representation keeps: the error of a linear SVM on it (§4.4.2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.svm import LinearSVC

__all__ = ["GRID", "SvmScore", "svm_error"]

GRID = (0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)


class SvmScore(NamedTuple):
    """The C chosen, its validation error, and the test error with it."""

    C: float
    validation: float
    error: float


def svm_error(
    train: np.ndarray,
    labels: np.ndarray,
    test: np.ndarray,
    truth: np.ndarray,
    grid: Sequence[float] = GRID,
) -> SvmScore:
    """Test error of a linear SVM whose C is chosen by the error on 20% of the training documents.

    train, test: (D, K) features; labels, truth: their classes. Ties go to the smaller C; then the machine is
    fitted to all training documents.
    """
    kept, held = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(train, labels))

    def machine(constant: float, documents: np.ndarray) -> LinearSVC:
        return LinearSVC(C=constant, dual=False, tol=1e-3, max_iter=300).fit(train[documents], labels[documents])

    errors = {c: float((machine(c, kept).predict(train[held]) != labels[held]).mean()) for c in sorted(grid)}
    best = min(errors, key=lambda c: (errors[c], c))
    final = machine(best, np.arange(len(labels)))
    return SvmScore(best, errors[best], float((final.predict(test) != truth).mean()))
