"""SearchPredictor: an estimator for a search problem in plain Python."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any, Self

import numpy as np

from partwise.estimation.base import StoredModel
from partwise.estimation.conduct import Estimator, check_is_fitted
from partwise.estimation.results import result_from_json, result_to_json
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners.laso.learner import LaSO
from partwise.learners.laso.plain import PlainSearch
from partwise.learners.laso.queues import Beam, Queue, Search, Searched
from partwise.learners.laso.spaces import SearchProblem
from partwise.learners.loop import Callback, Result
from partwise.progress import Progress
from partwise.storage import Checkpoint, check_writable
from partwise.storage import load as load_file

__all__ = ["SearchPredictor"]


class SearchPredictor(StoredModel, Estimator):
    """Learns to steer a search: ``fit`` on inputs with their outputs, ``predict`` by the same search.

    Parameters
    ----------
    problem : SearchProblem
    queue : Queue
        Greedy(), Beam(size), BestFirst(), AStar() or DepthFirst().
    update, mode, alpha, average, max_passes, random_state
        As in :class:`~partwise.learners.laso.learner.LaSO`.
    limit : int
        The largest number of nodes that a prediction may expand.
    verbose : int
        1 shows progress on standard error.

    Attributes
    ----------
    weights_ : dict of feature name to weight
    result_ : Result with the trace and the status

    Examples
    --------
    Words are spelt with a doubled letter or without, depending on their length:

    >>> class Spell(SearchProblem):
    ...     def initial(self, x): return ""
    ...     def operators(self, x, state): return [state + letter for letter in "ab"]
    ...     def goal(self, x, state): return len(state) == x
    ...     def good(self, x, y, state): return y.startswith(state)
    ...     def features(self, x, state): return [f"{state[-2:]} in {x}"]
    >>> model = SearchPredictor(Spell(), queue=Beam(2)).fit([2, 3], ["ab", "bba"])
    >>> model.predict([3, 2])
    ['bba', 'ab']
    """

    kind = "search-predictor"

    def __init__(
        self,
        problem: SearchProblem | None = None,
        *,
        queue: Queue | None = None,
        update: str = "alma",
        mode: str = "laso",
        alpha: float = 0.9,
        average: bool = True,
        max_passes: int = 20,
        limit: int = 1_000_000,
        random_state: int = 0,
        verbose: int = 0,
    ) -> None:
        self.problem = problem
        self.queue = queue
        self.update = update
        self.mode = mode
        self.alpha = alpha
        self.average = average
        self.max_passes = max_passes
        self.limit = limit
        self.random_state = random_state
        self.verbose = verbose

    def _parts(self) -> tuple[SearchProblem, Queue, LaSO]:
        if not isinstance(self.problem, SearchProblem):
            expected = "a SearchProblem (an object, not the class)"
            raise ParameterError("problem", "SearchPredictor", expected, self.problem)
        if self.queue is not None and not isinstance(self.queue, Queue):
            raise ParameterError("queue", "SearchPredictor", "a queue such as Beam(5) or Greedy()", self.queue)
        names = ("update", "mode", "alpha", "average", "max_passes", "random_state")
        return self.problem, self.queue or Beam(5), LaSO(**{name: getattr(self, name) for name in names})

    def fit(
        self,
        X: Sequence[Any],
        y: Sequence[Any],
        *,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Train on inputs X with outputs y; the problem's ``good(x, y, state)`` says what leads to an output."""
        problem, queue, learner = self._parts()
        data = PlainSearch(problem, X, y, queue)
        if checkpoint is not None:
            check_writable(checkpoint)
        with Progress(learner.max_passes, "searching") if self.verbose else nullcontext() as progress:
            self.result_: Result = learner.fit(
                data,
                callbacks=[*callbacks, *([progress] if progress is not None else [])],
                checkpoint=None if checkpoint is None else Checkpoint(checkpoint),
            )
        self.weights_ = dict(zip(data.names, self.result_.theta.tolist(), strict=True))
        return self

    def search(self, x: Any) -> Searched:
        """The search of one input: the goal, its path, how many nodes were expanded, the queue that was left."""
        check_is_fitted(self, "weights_")
        problem, queue, _ = self._parts()
        weights = self.weights_

        def score(active: dict[str, float]) -> float:
            return sum(weights.get(name, 0.0) * value for name, value in active.items())

        return Search(problem, queue, x, score, limit=self.limit).run()

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The output of the first goal that the search of each input finds."""
        problem = self._parts()[0]
        return [problem.output(x, self.search(x).node.state) for x in X]

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Share of outputs that are right."""
        if len(X) != len(y) or len(X) == 0:
            raise InputError(f"X has {len(X)} inputs and y {len(y)}; expected as many, at least one")
        return float(np.mean([found == right for found, right in zip(self.predict(X), y, strict=True)]))

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        check_is_fitted(self, "weights_")
        header = {"names": list(self.weights_), "result": result_to_json(self.result_)}
        return header, {"theta": np.array(list(self.weights_.values()), float)}

    @classmethod
    def load(  # type: ignore[override]
        cls, path: str | os.PathLike[str], problem: SearchProblem, *, queue: Queue | None = None
    ) -> Self:
        """Read weights written by :meth:`save`. A file holds no code: problem and queue are given anew."""
        stored = load_file(path, cls.kind)
        model = cls(problem, queue=queue)
        theta, names = np.asarray(stored.arrays["theta"]), list(stored.header["names"])
        if len(names) != len(theta):
            raise StorageError(f"{os.fspath(path)}: {len(theta)} weights for {len(names)} names")
        model.result_ = result_from_json(stored.header["result"], theta)
        model.weights_ = dict(zip(names, theta.tolist(), strict=True))
        return model
