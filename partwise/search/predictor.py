"""SearchPredictor: an estimator for a search problem in plain Python."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed

from partwise.estimation.base import restore, thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.estimation.searched import SearchedEstimator
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners.laso.plain import PlainSearch
from partwise.learners.laso.queues import Beam, Queue, Search, Searched
from partwise.learners.laso.spaces import SearchProblem
from partwise.storage import load as load_file

__all__ = ["SearchPredictor"]


class SearchPredictor(SearchedEstimator):
    """Learns to steer a search: ``fit`` on inputs with their outputs, ``predict`` by the same search.

    Parameters
    ----------
    problem : SearchProblem
    queue : Queue
        Greedy(), Beam(size), BestFirst(), AStar() or DepthFirst().
    update, mode, alpha, average, max_passes, learner_options, random_state
        As in :class:`~partwise.learners.laso.learner.LaSO`.
    limit : int
        The largest number of nodes that the search of an input may expand.
    patience : int, optional
        With a dev set: stop after this many passes without improvement.
    n_jobs : int
        Processes of a prediction; −1 for all cores. Problem and inputs must be picklable.
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
    not_stored = ("problem", "queue")
    beam = 1  # the queue is what counts

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
        patience: int | None = None,
        learner_options: dict[str, Any] | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.problem = problem
        self.queue = queue
        self.update = update
        self.mode = mode
        self.alpha = alpha
        self.average = average
        self.max_passes: Any = max_passes
        self.limit = limit
        self.patience = patience
        self.learner_options = learner_options
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _space(self) -> tuple[SearchProblem, Queue]:
        if not isinstance(self.problem, SearchProblem):
            expected = "a SearchProblem (an object, not the class)"
            raise ParameterError("problem", "SearchPredictor", expected, self.problem)
        if self.queue is not None and not isinstance(self.queue, Queue):
            raise ParameterError("queue", "SearchPredictor", "a queue such as Beam(5) or Greedy()", self.queue)
        return self.problem, self.queue or Beam(5)

    def _make_problem(self, X: Any, y: Any, learner: Any, loss: Any, **data: Any) -> Any:
        problem, queue = self._space()
        return PlainSearch(problem, as_list(X, "X"), as_list(y), queue, limit=self.limit)

    def _train(self, problem: Any, learner: Any, **options: Any) -> Self:
        self._names = problem  # features are numbered as they are met, so a held-out score needs to know them
        super()._train(problem, learner, **options)
        del self._names
        self.names_: list[str] = problem.names[: len(self.theta_)]  # the best pass may have met fewer than the last
        return self

    @property
    def weights_(self) -> dict[str, float]:
        """Feature names and their weights."""
        return dict(zip(self.names_, self.theta_.tolist(), strict=True))

    def _search(self, x: Any, weights: dict[str, float]) -> Searched:
        problem, queue = self._space()

        def score(active: dict[str, float]) -> float:
            return sum(weights.get(name, 0.0) * value for name, value in active.items())

        return Search(problem, queue, x, score, limit=self.limit).run()

    def search(self, x: Any) -> Searched:
        """The search of one input: the goal, its path, how many nodes were expanded, the queue that was left."""
        check_is_fitted(self, "theta_")
        return self._search(x, self.weights_)

    def _output(self, x: Any, weights: dict[str, float]) -> Any:
        return self._space()[0].output(x, self._search(x, weights).node.state)

    def _outputs(self, X: Sequence[Any], weights: dict[str, float]) -> list[Any]:
        jobs = thread_count(self.n_jobs)
        if jobs == 1:
            return Outputs(self._output(x, weights) for x in as_list(X, "X"))
        plain = self.unfitted()  # a problem in plain Python needs processes: threads would take turns
        found: list[Any] = Parallel(n_jobs=jobs)(delayed(plain._output)(x, weights) for x in as_list(X, "X"))
        return Outputs(found)

    def predict(self, X: Sequence[Any]) -> list[Any]:
        """The output of the first goal that the search of each input finds."""
        check_is_fitted(self, "theta_")
        return self._outputs(X, self.weights_)

    def _make_score(self, X: Any, y: Any) -> Callable[[Any], float]:
        def share(theta: Any) -> float:
            return _share(self._outputs(X, dict(zip(self._names.names, theta.tolist(), strict=False))), y)

        return share

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Share of outputs that are right."""
        return _share(self.predict(X), y)

    def _own_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"names": self.names_}, {}

    def _restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        self.names_ = list(header["names"])
        if len(self.names_) != len(self.theta_):
            raise StorageError(f"{len(self.theta_)} weights for {len(self.names_)} names")

    @classmethod
    def load(  # type: ignore[override]
        cls, path: str | os.PathLike[str], problem: SearchProblem, *, queue: Queue | None = None
    ) -> Self:
        """Read weights written by :meth:`save`. A file holds no code, so pass the problem and the queue again."""
        stored = load_file(path, cls.kind)
        model: Self = restore(cls, path, stored.header, stored.arrays)
        return model.set_params(problem=problem, queue=queue)


def _share(found: Sequence[Any], right: Sequence[Any]) -> float:
    right = as_list(right)
    if len(found) != len(right) or len(found) == 0:
        raise InputError(f"X has {len(found)} inputs but y has {len(right)}; expected equally many, at least one")
    return float(np.mean([a == b for a, b in zip(found, right, strict=True)]))
