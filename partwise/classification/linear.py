"""LinearClassifier: one label per row of a matrix, with any loss and any learner of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from partwise.costs import Cost
from partwise.estimation.base import make_loss, thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.learned import LearnedEstimator, cost_for
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.features.inputs import RowMatrix
from partwise.features.layout import DenseLayout, RowFeatures, RowLayout
from partwise.learners import Learner
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.structures.multiclass import Multiclass

__all__ = ["LinearClassifier"]

Floats = NDArray[np.float64]


class LinearClassifier(ClassifierMixin, LearnedEstimator):
    """argmax_b w_b·x + c_b: a linear classifier of several classes, min ½‖W‖² + C Σ_i L(W; x_i, y_i).

    With the default loss this is the multi-class SVM of Crammer and Singer (2001), the same objective as scikit-learn's
    ``LinearSVC(multi_class="crammer_singer")``; with ``loss="crf"`` multinomial logistic regression.

    Parameters
    ----------
    loss : {"svm", "crf", "softmax_margin", "perceptron", "slack_svm", "risk", "ramp"}, Loss or (beta, gamma)
    learner : str or Learner, optional
        By default it depends on the loss: projected ascent for the SVM's, L-BFGS for smooth losses, the perceptron for
        its own, DCA for the others.
    C : float
        Weight of the losses against ½‖W‖²: larger means less regularisation.
    fit_intercept : bool
        Whether to fit c_b. It is the weight of one more feature and is regularised like the others.
    intercept_scaling : float
        The value of that feature: the larger, the less c_b is regularised.
    cost : Cost, or a function of (X, y) that returns one, optional
        The cost in losses with γ > 0; by default 1 for every wrong label.
    max_passes, learner_options, patience, random_state, n_jobs, verbose
        As in :class:`~partwise.sequences.labeler.SequenceLabeler`.

    Attributes
    ----------
    classes_ : (L,) labels, sorted
    coef_ : (L, D) weights; intercept_ : (L,)
    n_features_in_ : int
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearClassifier().fit(X, y)
    >>> model.score(X, y) > 0.95, model.result_.certificate.relative_gap < 1e-3
    (True, True)
    """

    kind = "linear-classifier"
    usual_loss = "svm"

    def __init__(
        self,
        loss: Any = "svm",
        *,
        learner: Any = None,
        C: float = 1.0,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        cost: Cost | Callable[[Any, Any], Cost] | None = None,
        max_passes: int | None = None,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.learner = learner
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.cost = cost
        self.max_passes = max_passes
        self.learner_options = learner_options
        self.patience = patience
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    not_stored = ("cost",)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # training

    def check_settings(self) -> None:
        if not self.intercept_scaling > 0:
            raise ParameterError("intercept_scaling", "LinearClassifier", "a positive number", self.intercept_scaling)
        super().check_settings()

    def _settings(self, max_passes: int | None = None) -> tuple[Learner, LossFunction]:
        if self.learner is not None:
            return super()._settings(max_passes)
        loss = make_loss(self.loss, None, usual=self.usual_loss)
        if loss.smooth:
            name = "lbfgs"
        elif loss.augmented:
            name = "projected_ascent" if loss.gamma else "perceptron"
        else:
            name = "dca"
        return self.unfitted().set_params(learner=name)._settings(max_passes)

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        if y is None:
            raise InputError("LinearClassifier requires y to be passed, but the target y is None")
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        space = Multiclass(len(codes), len(self.classes_))
        return Problem(
            space,
            self._features(X),
            codes.tolist(),
            loss,
            cost_for(self.cost, X, codes),
            n_threads=thread_count(self.n_jobs),
        )

    def _features(self, X: Any) -> RowFeatures:
        """Rows of x, each with a copy of its weights per label; the intercept is one more column."""
        offsets = np.arange(X.shape[0] + 1, dtype=np.int64)
        if isinstance(X, np.ndarray):
            rows = X
            if self.fit_intercept:
                rows = np.hstack([X, np.full((len(X), 1), float(self.intercept_scaling))])
            layout = DenseLayout(rows.shape[1], len(self.classes_))
            return RowFeatures(layout.pack(offsets, rows), layout.dim)
        import scipy.sparse

        if self.fit_intercept:
            constant = np.full((X.shape[0], 1), float(self.intercept_scaling))
            X = scipy.sparse.hstack([X, scipy.sparse.csr_array(constant)], format="csr")
        matrix = RowMatrix.from_csr(X, offsets)
        packed = RowLayout(X.shape[1], len(self.classes_))  # weights in the order of the columns
        return RowFeatures(packed.pack(matrix), packed.dim)

    def _make_score(self, X: Any, y: Any) -> Callable[[Floats], float]:
        X, y = self._read(X), np.asarray(y)
        return lambda theta: float(np.mean(self.classes_[self._scores(X, theta).argmax(axis=1)] == y))

    # prediction

    def _read(self, X: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _weights(self, theta: Floats) -> tuple[Floats, Floats]:
        table = theta.reshape(-1, len(self.classes_))
        if not self.fit_intercept:
            return table, np.zeros(len(self.classes_))
        return table[:-1], self.intercept_scaling * table[-1]

    def _scores(self, X: Any, theta: Floats) -> Floats:
        weights, constants = self._weights(theta)
        return np.asarray(X @ weights) + constants

    @property
    def coef_(self) -> Floats:
        """(L, D): the weights of every label."""
        check_is_fitted(self, "theta_")
        return self._weights(self.theta_)[0].T

    @property
    def intercept_(self) -> Floats:
        """(L,)."""
        check_is_fitted(self, "theta_")
        return self._weights(self.theta_)[1]

    def _all_scores(self, X: Any) -> Floats:
        check_is_fitted(self, "theta_")
        return self._scores(self._read(X), self.theta_)

    def decision_function(self, X: Any) -> Floats:
        """w_b·x + c_b, shape (n, L); for two labels, the score of the second minus that of the first, (n,)."""
        scores = self._all_scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The label with the highest score of every row."""
        best = self._all_scores(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def predict_log_proba(self, X: Any) -> Floats:
        """log p(b | x) ∝ β·score, at the inverse temperature of the loss, or 1 if that is infinite."""
        beta = make_loss(self.loss, self.learner, usual=self.usual_loss).beta
        scores = self._all_scores(X) * (beta if np.isfinite(beta) else 1.0)
        scores -= scores.max(axis=1, keepdims=True)
        return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> Floats:
        """p(b | x), shape (n, L)."""
        return np.exp(self.predict_log_proba(X))

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names = getattr(self, "feature_names_in_", None)
        header = {"classes": self.classes_.tolist(), "n_features": int(self.n_features_in_)}
        return {**header, "feature_names": None if names is None else [str(name) for name in names]}, {}

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.classes_, self.n_features_in_ = np.array(header["classes"]), int(header["n_features"])
        if header["feature_names"] is not None:
            self.feature_names_in_ = np.array(header["feature_names"], object)
        expected = (self.n_features_in_ + bool(self.fit_intercept)) * len(self.classes_)
        if len(self.theta_) != expected:
            raise StorageError(f"theta has {len(self.theta_)} weights; expected {expected}")
