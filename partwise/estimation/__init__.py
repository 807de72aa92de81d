"""What all estimators share: settings, scikit-learn's manners, results, storage; and the estimator of any structure."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
