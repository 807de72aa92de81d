"""StructuredClassifier: scikit-learn's interface for any structure, also one written in plain Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.batch import Batch
from partwise.costs import Cost, Hamming, LabelCost
from partwise.estimation.base import restore, thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.learned import LearnedEstimator, cost_for
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.features import Features, MatrixFeatures
from partwise.learners import Learner
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.storage import load as load_file
from partwise.structures.base import CompiledStructure, Structure, argmax, score_of

__all__ = ["StructuredClassifier"]

Floats = NDArray[np.float64]


class StructuredClassifier(LearnedEstimator):
    """argmax_{y ∈ Y(x)} θᵀF(x)χ(y) over any output space, with any loss and learner whose oracles it provides.

    Parameters
    ----------
    structure : callable
        X → Structure: the output spaces of the instances of X. An ``argmax`` in plain Python is enough for the
        cutting planes, Frank–Wolfe and the online learners.
    features : callable, optional
        X → Features, or a list of one matrix F_i (dim × n_parts(i)) per instance, dense or sparse. Without it X itself
        is that list.
    loss : str, Loss or (beta, gamma)
    learner : str or Learner
    C : float
        Weight of the losses against ½‖θ‖²: larger means less regularisation.
    cost : Cost, or a function of (X, y) that returns one, optional
        ℓ(y', y), for the loss and for :meth:`score`. Hamming with the structure's ``default_cost()`` if absent: unless
        it says otherwise the missed atoms; where an output may also have too many, Hamming(1, 1) counts both. Costs
        of single instances (:class:`PartCost`) come from a function, so that they follow the instances into the folds
        of a cross-validation.
    nonnegative : (dim,) bool, optional
        Weights that must be ≥ 0.
    max_passes : int, optional
        The learner's own default if absent.
    learner_options : dict, optional
        More settings of the learner, such as {"tolerance": 1e-4}.
    patience : int, optional
        With a dev set: stop after this many passes without improvement.
    check_oracle : bool
        Before training, call the argmax of every instance once, with scores that favour the gold output: an answer
        that is not an output, or that scores less than the gold one, is an error. Switch it off for an argmax that is
        only approximate.
    random_state : int
    n_jobs : int
        Threads, where structure and features are compiled; −1 for all cores. The result does not depend on it.
    verbose : int
        1 shows progress on standard error.

    Attributes
    ----------
    theta_ : (dim,) weights
    result_ : Result with the trace, the certificate and the status

    Examples
    --------
    Three labels, the features being the label's own copy of x:

    >>> from partwise import Multiclass
    >>> def copies(X):
    ...     return [np.kron(np.eye(3), np.array(x)[:, None]) for x in X]
    >>> X, y = [[1.0, 0.1], [0.0, 1.0], [-1.0, 0.2], [0.9, -0.1]], [0, 1, 2, 0]
    >>> model = StructuredClassifier(lambda X: Multiclass(len(X), 3), copies, C=10.0)
    >>> model.fit(X, y).predict([[0.8, 0.3], [-0.7, 0.0]])
    [0, 2]
    >>> model.result_.certificate.relative_gap < 1e-3
    True
    """

    kind = "structured-classifier"
    usual_loss = "svm"
    not_stored = ("structure", "features", "cost", "nonnegative")

    def __init__(
        self,
        structure: Callable[[Any], Structure] | None = None,
        features: Callable[[Any], Features | Sequence[Any]] | None = None,
        *,
        loss: Any = "svm",
        learner: Any = "n_slack",
        C: float = 1.0,
        cost: Cost | Callable[[Any, Any], Cost] | None = None,
        nonnegative: ArrayLike | None = None,
        max_passes: int | None = None,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        check_oracle: bool = True,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.structure = structure
        self.features = features
        self.loss = loss
        self.learner = learner
        self.C = C
        self.cost = cost
        self.nonnegative = nonnegative
        self.max_passes = max_passes
        self.learner_options = learner_options
        self.patience = patience
        self.check_oracle = check_oracle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # training

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        (space, features), y = self._read(X), as_list(y)
        problem = Problem(
            space, features, list(y), loss, cost_for(self.cost, X, y),
            nonnegative=self.nonnegative, n_threads=thread_count(self.n_jobs),
            guarantee=None if self.check_oracle else _doubted(space, loss.oracle),
        )  # fmt: skip
        learner.check(problem)
        if self.check_oracle and "argmax" in space.oracles:
            _check_oracle(space, list(y))
        return problem

    def _make_score(self, X: Any, y: Sequence[Any]) -> Callable[[Floats], float]:
        space, features = self._read(X)
        return lambda theta: -self._mean_cost(X, y, space, self._best(space, features, theta))

    def _read(self, X: Any) -> tuple[Structure, Features]:
        """The output spaces and the features of instances."""
        if not callable(self.structure):
            expected = "a function of X that returns a Structure"
            raise ParameterError("structure", "StructuredClassifier", expected, self.structure)
        space = self.structure(X)
        if not isinstance(space, Structure):
            raise ParameterError("structure", "StructuredClassifier", "a function that returns a Structure", space)
        if len(space) != len(X):
            raise InputError(f"the structure has {len(space)} instances but X has {len(X)}")
        given = X if self.features is None else self.features(X)
        features = given if isinstance(given, Features) else MatrixFeatures(given)
        if isinstance(features, MatrixFeatures):
            features.instance_sizes(len(space))  # says so where there are too few
        return space, features

    # prediction

    @property
    def coef_(self) -> Floats:
        """The weights, under the name that scikit-learn's linear models give them."""
        return self.theta_

    def predict(self, X: Any) -> list[Any]:
        """The output with the highest score of every instance, as the structure's ``decode`` makes it."""
        check_is_fitted(self, "theta_")
        space, features = self._read(X)
        return Outputs(space.decode(i, z) for i, z in enumerate(self._best(space, features, self.theta_)))

    def _best(self, space: Structure, features: Features, theta: Floats) -> list[Floats]:
        """The parts of the output with the highest score of every instance."""
        if len(space) and features.dim != len(theta):
            raise InputError(f"the features have {features.dim} weights; the model has {len(theta)}")
        if not len(space):
            return []
        batch = Batch(space, features, n_threads=thread_count(self.n_jobs))
        parts = batch.argmax(theta).parts
        return [batch.of(i, parts) for i in range(len(space))]

    def score(self, X: Any, y: Sequence[Any]) -> float:
        """Minus the mean cost of the predictions, −1/n Σ_i ℓ(ŷ_i, y_i): 0 is perfect, higher is better."""
        check_is_fitted(self, "theta_")
        space, features = self._read(X)
        return -self._mean_cost(X, y, space, self._best(space, features, self.theta_))

    def _mean_cost(self, X: Any, y: Sequence[Any], space: Structure, found: Sequence[Floats]) -> float:
        y = as_list(y)
        if len(y) != len(found):
            raise InputError(f"X has {len(found)} instances but y has {len(y)}")
        cost, total = cost_for(self.cost, X, y) or Hamming(*space.default_cost()), 0.0
        for i, (z, truth) in enumerate(zip(found, y, strict=True)):
            n = space.n_atoms(i)
            p, q = cost.parts(space, i, np.asarray(space.encode(i, truth), float)[:n])
            total += float(p @ z[:n]) + q
        return total / max(len(found), 1)

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        arrays = {} if self.nonnegative is None else {"nonnegative": np.asarray(self.nonnegative)}
        return {"cost": _cost_to_json(self.cost)}, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.cost, self.nonnegative = _cost_from_json(header["cost"]), arrays.get("nonnegative")

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        structure: Callable[[Any], Structure] | None = None,
        features: Callable[[Any], Features | Sequence[Any]] | None = None,
        cost: Cost | Callable[[Any, Any], Cost] | None = None,
        mmap: bool = False,
    ) -> Self:
        """Read a model written by :meth:`save`. Nothing in the file is executed.

        A file holds weights and settings but no code, so the ``structure`` and ``features`` that the model was
        trained with have to be passed again, and so has a custom cost.
        """
        stored = load_file(path, cls.kind, mmap=mmap)
        if cost is not None:
            stored.header["cost"] = None
        model: Self = restore(cls, path, stored.header, stored.arrays)
        return model.set_params(structure=structure, features=features, cost=model.cost if cost is None else cost)


def _cost_to_json(cost: Any) -> Any:
    if isinstance(cost, LabelCost):
        return {"labels": cost.cost.tolist()}
    if isinstance(cost, Hamming):
        return {"hamming": [cost.false_positive, cost.false_negative]}
    return None if cost is None else {"own": getattr(cost, "__name__", type(cost).__name__)}


def _cost_from_json(stored: Any) -> Cost | None:
    if stored is None:
        return None
    if "own" in stored:
        raise StorageError(f"the model was trained with the cost {stored['own']}; pass it to load as cost=…")
    return LabelCost(stored["labels"]) if "labels" in stored else Hamming(*stored["hamming"])


def _argmax(space: Structure, i: int, scores: Floats) -> Floats:
    """The best parts, checked to be of the right shape and inside the space."""
    if isinstance(space, CompiledStructure):
        return space.argmax(i, scores)
    parts = np.zeros(space.n_parts(i))
    argmax(space, i, scores, np.zeros(0), parts)
    return parts


def _doubted(space: Structure, oracle: str) -> str:
    """The guarantee of an unchecked oracle: what it claims, but never that it finds the optimum."""
    claimed = space.guarantee(oracle)
    return "inner" if claimed == "exact" else claimed


#: So many instances are asked with random scores before training.
CROSS_CHECKED = 3


def _cross_check(space: Structure, i: int, gold: Floats, rng: np.random.Generator) -> None:
    """An argmax may refuse some scores (a wrong sign, say): then the check ends without a finding."""
    questions = rng.normal(size=(20, len(gold)))
    try:
        answers = [_argmax(space, i, scores) for scores in questions]
    except InputError:
        return
    for scores, answer in zip(questions, answers, strict=True):
        best = max(score_of(scores, other) for other in (gold, *answers))
        if score_of(scores, answer) < best - 1e-9 * (1.0 + abs(best)):
            raise InputError(
                f"{type(space).__name__}.argmax of instance {i} returned an output that scores "
                f"{score_of(scores, answer):g} although another one scores {best:g}: it is not a maximum. If it is "
                'approximate, declare it: guarantee("argmax") returns "inner" (check_oracle=False means the same)'
            )


def _check_oracle(space: Structure, outputs: Sequence[Any]) -> None:
    """What ``argmax`` returns must be an output, and no output that is known may be better.

    With the scores 2z − 1 none is better than the gold one. With random scores, of a few instances, neither the gold
    output nor what ``argmax`` itself found for other scores may be better than what it finds for these.
    """
    name, rng = type(space).__name__, np.random.default_rng(0)
    for i, y in enumerate(outputs):
        gold = np.asarray(space.encode(i, y), float)
        scores = 2.0 * gold - 1.0
        found = _argmax(space, i, scores)
        if type(space).decode is not Structure.decode:
            try:
                again = np.asarray(space.encode(i, space.decode(i, found)), float)
            except Exception as error:
                raise InputError(f"{name}.argmax returned no output for instance {i}: {error}") from error
            if again.shape != found.shape or not np.allclose(again, found):
                raise InputError(
                    f"{name}.argmax returned parts of instance {i} that are not an output: encode(decode) differs"
                )
        if score_of(scores, found) < score_of(scores, gold) - 1e-9:
            raise InputError(
                f"{name}.argmax of instance {i} returned an output that scores {score_of(scores, found):g} although "
                f"the gold output scores {score_of(scores, gold):g}: either that is outside the space, or the "
                "argmax is not a maximum (check_oracle=False accepts an approximate one)"
            )
    if space.guarantee("argmax") == "exact":
        for i in range(min(len(outputs), CROSS_CHECKED)):
            _cross_check(space, i, np.asarray(space.encode(i, outputs[i]), float), rng)
