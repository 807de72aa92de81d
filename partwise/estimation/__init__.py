"""What all estimators share (settings, scikit-learn's interface, results, storage); the estimator for any structure."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
