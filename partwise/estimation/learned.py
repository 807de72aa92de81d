"""The base of every estimator whose weights are found by a learner.

A task defines how its data become a problem and how outputs are scored on held-out data. Everything else is here:
settings, learner and loss, dev set and patience, callbacks, progress, checkpoints, the result and the model file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.costs import Cost, PartCost
from partwise.estimation.base import (
    GuardedCheckpoint,
    StoredModel,
    make_learner,
    make_loss,
    params_from_json,
    params_to_json,
    thread_count,
)
from partwise.estimation.convergence import warn_unconverged
from partwise.estimation.estimator import Estimator, check_is_fitted
from partwise.estimation.results import result_from_json, result_to_json
from partwise.exceptions import InputError, ParameterError
from partwise.learners import Learner, Result
from partwise.learners.base import Callback
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.progress import Progress
from partwise.storage import check_writable

__all__ = ["LearnedEstimator", "cost_for"]

Floats = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]
Score = Callable[[Floats], float]


class LearnedEstimator(StoredModel, Estimator):
    """θ = argmin λ/2 ‖θ‖² + 1/m Σ_i L(θ; x_i, y_i): an estimator whose weights a learner finds.

    The constructor of a subclass stores its arguments, among them those of every estimator: ``loss``, ``learner``,
    ``C``, ``max_passes``, ``learner_options``, ``patience``, ``random_state``, ``n_jobs`` and ``verbose``. It defines

    * ``_make_problem(X, y, learner, loss)``: reads the data, keeps what prediction needs, returns what is to be solved;
    * ``_make_score(X, y)``: a function θ → score on held-out data, higher is better, where ``fit`` takes a dev set;
    * ``_own_state()`` and ``_restore(header, arrays)``: what a model file holds besides settings, weights and result.

    Attributes
    ----------
    theta_ : (dim,) weights
    result_ : Result with the trace, the certificate and the status
    info_ : dict, free-form notes that are stored with the model; must be JSON-serialisable
    """

    usual_loss: ClassVar[str] = "crf"  # where neither the user nor the learner has one of its own
    #: Parameters that change neither the problem nor the way to its solution: training may resume with different ones.
    free: ClassVar[tuple[str, ...]] = ("n_jobs", "verbose")
    #: Parameters that a file cannot hold.
    not_stored: ClassVar[tuple[str, ...]] = ()

    loss: Any
    learner: Any
    C: float
    max_passes: int | None
    learner_options: dict[str, Any] | None
    random_state: int
    n_jobs: int
    verbose: int
    theta_: Floats
    result_: Result
    info_: dict[str, Any]

    # what a task defines

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        """What the learner is to solve."""
        raise NotImplementedError

    def _make_score(self, X: Any, y: Any) -> Score:
        """θ → score on held-out data."""
        raise NotImplementedError

    def _start(self, problem: Problem, X: Any, y: Any, dev: Any) -> Result | None:
        """Initial weights, if not zero: those of a simpler model, which form the first part of θ."""
        return None

    def _evidence(self, dev: Any) -> object:
        """What a checkpoint must agree with beside settings and problem; its ``repr`` counts."""
        return None

    def _own_state(self) -> State:
        """(header, arrays) of the model, without settings, weights and result."""
        return {}, {}

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take up what ``_own_state`` has written; ``theta_`` and the settings are there."""

    def _weight_arrays(self) -> dict[str, NDArray[Any]]:
        """The weights as a file holds them."""
        return {"theta": self.theta_}

    def _restore_weights(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take up weights and result; the settings are there."""
        self._take(result_from_json(header["result"], np.asarray(arrays["theta"])))

    @property
    def _label(self) -> str:
        """What the progress bar says."""
        return "training"

    # settings

    def check_settings(self) -> None:
        """Raise :class:`ParameterError` for a setting that cannot be used, before anything is read."""
        thread_count(self.n_jobs)
        patience = getattr(self, "patience", None)
        if patience is not None and (isinstance(patience, bool) or not isinstance(patience, int) or patience < 1):
            raise ParameterError("patience", type(self).__name__, "a positive integer", patience)
        self._settings()

    def _settings(self, max_passes: int | None = None) -> tuple[Learner, LossFunction]:
        """The learner and the loss."""
        limit = self.max_passes if max_passes is None else max_passes
        learner = make_learner(self.learner, self.C, limit, self.random_state, self.learner_options or {})
        return learner, make_loss(self.loss, self.learner, usual=self.usual_loss)

    # training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        dev: tuple[Any, Any] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on inputs X with outputs y. Ctrl-C ends training and keeps the best weights so far.

        Parameters
        ----------
        X, y : inputs and outputs, as the class describes them
        dev : (X, y), optional
            Held-out data; the best pass on it is kept.
        callbacks : functions of (record, θ), optional
            Called after every pass; True stops training.
        checkpoint : path, optional
            Save the state there after every pass; if it exists, continue from it.
        sample_weight : (n,), optional
            Weight of the loss of each input; 2 counts it twice. Learners that do not support this raise an error.
        """
        return self._fit(X, y, dev=dev, callbacks=callbacks, checkpoint=checkpoint, sample_weight=sample_weight)

    def _fit(
        self,
        X: Any,
        y: Any,
        *,
        dev: tuple[Any, Any] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: Any = None,
        **data: Any,
    ) -> Self:
        """``fit`` of every estimator; ``data`` goes to ``_make_problem``. Ctrl-C keeps the best weights so far."""
        self.check_settings()
        self._check_dev(dev)
        learner, loss = self._settings()
        if checkpoint is not None:
            check_writable(checkpoint)
        problem = self._make_problem(X, y, learner, loss, **data)
        with contextlib.closing(problem):
            if sample_weight is not None:
                problem = problem.reweighted(sample_weight)
                problem.learner_for(learner).check(problem)
            return self._solve(problem, learner, X, y, dev, callbacks, checkpoint)

    def _check_dev(self, dev: Any) -> None:
        name = type(self).__name__
        if dev is not None and not (isinstance(dev, tuple | list) and len(dev) == 2):
            raise ParameterError("dev", f"{name}.fit", "a pair (X, y) of held-out data", type(dev).__name__)
        if dev is None and getattr(self, "patience", None) is not None:
            expected = "None unless fit is given held-out data, dev=(X, y)"
            raise ParameterError("patience", name, expected, self.patience)

    def _solve(
        self, problem: Any, learner: Learner, X: Any, y: Any, dev: Any, callbacks: Iterable[Callback], checkpoint: Any
    ) -> Self:
        """Find the weights of a problem, from its checkpoint if there is one."""
        learner = problem.learner_for(learner)
        score = None if dev is None else self._make_score(*dev)
        keep = None if checkpoint is None else GuardedCheckpoint(checkpoint, self._fingerprint(problem, dev))
        start = None if keep is not None and keep.exists() else self._start(problem, X, y, dev)
        theta = None if start is None else start.theta
        if theta is not None and len(theta) < problem.dim:
            theta = np.pad(theta, (0, problem.dim - len(theta)))
        if start is not None and theta is not None and start.status == "interrupted":
            return self._take(Result(theta, [], None, "interrupted", 0))
        return self._train(problem, learner, theta=theta, score=score, callbacks=callbacks, checkpoint=keep)

    def _train(
        self,
        problem: Problem,
        learner: Learner,
        *,
        theta: Floats | None = None,
        score: Score | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: GuardedCheckpoint | None = None,
    ) -> Self:
        """Run the learner and keep what it found."""
        with Progress(learner.max_passes, self._label) if self.verbose else nullcontext() as progress:
            result = learner.fit(
                problem,
                theta=theta,
                score=score,
                patience=getattr(self, "patience", None),
                callbacks=[*callbacks, *([progress] if progress is not None else [])],
                checkpoint=checkpoint,
            )
        warn_unconverged(learner, result, score is not None)
        return self._take(result)

    def _take(self, result: Result) -> Self:
        self.result_, self.theta_ = result, result.theta
        return self

    def _fingerprint(self, problem: Problem, dev: Any) -> str:
        """A digest of settings and data, so that a checkpoint is not mistaken for that of another run."""
        free = {*self.free, *self.not_stored}
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in free}
        # what JSON cannot say (a cost, a function) shows in the problem, and its repr may be an address
        plain = {name: type(params[name]).__name__ if _opaque(value) else value
                 for name, value in params_to_json(params).items()}  # fmt: skip
        digest = hashlib.blake2b(repr(sorted(plain.items())).encode())
        digest.update(repr((dev is None, self._evidence(dev))).encode())
        digest.update(problem.digest())
        return digest.hexdigest()[:32]

    # storage

    def to_state(self) -> State:
        check_is_fitted(self, "theta_")
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in self.not_stored}
        own, arrays = self._own_state()
        header = {
            "params": params_to_json(params),
            **own,
            "result": result_to_json(self.result_),
            "info": getattr(self, "info_", {}),
        }
        return header, {**arrays, **self._weight_arrays()}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]], **given: Any) -> Self:
        """The model of a stored state; ``given``: parameters that a file cannot hold."""
        # threads and messages are the business of whoever uses the model, not of the file
        model = cls(**{**params_from_json(header["params"]), "n_jobs": 1, "verbose": 0, **given})
        model.check_settings()
        model._restore_weights(header, arrays)
        model.info_ = dict(header.get("info", {}))
        model._restore(header, arrays)
        return model


def cost_for(cost: Any, X: Any, y: Any) -> Cost | None:
    """The cost of these instances: ``cost`` itself, or its value if it is a function of (X, y).

    A :class:`PartCost` holds the costs of single instances, so it cannot follow a selection of them (a fold of a
    cross-validation); a function of the instances can.
    """
    if cost is None or isinstance(cost, Cost):
        found = cost
    elif callable(cost):
        found = cost(X, y)
    else:
        raise ParameterError("cost", "partwise", "a Cost, or a function of (X, y) that returns one", cost)
    if found is not None and not isinstance(found, Cost):
        raise ParameterError("cost", "partwise", "a function of (X, y) that returns a Cost", found)
    if isinstance(found, PartCost) and len(found.costs) != len(X):
        raise InputError(
            f"the PartCost covers {len(found.costs)} instances, X has {len(X)}; if instances are selected, as in "
            "cross-validation, pass a function of (X, y) that returns the PartCost of those instances"
        )
    return found


def _opaque(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"repr"}
