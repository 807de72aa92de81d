"""The base of every estimator whose weights are learned during a search (LaSO)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.estimation.learned import LearnedEstimator
from partwise.estimation.results import result_from_json
from partwise.exceptions import ParameterError, StorageError
from partwise.learners.laso.learner import LaSO

__all__ = ["SearchedEstimator"]


class SearchedEstimator(LearnedEstimator):
    """w ← w + Δ wherever the search goes wrong: an estimator that :class:`~partwise.learners.laso.learner.LaSO` trains.

    It has the settings ``beam``, ``update``, ``mode``, ``alpha`` and ``average`` in place of loss, learner and C, and
    may have ``rivals`` and ``margin_scale``; its ``_make_problem`` returns the data of a search.
    """

    loss = learner = None
    C = 1.0
    beam: Any
    update: str
    mode: str
    alpha: float
    average: bool

    def check_settings(self) -> None:
        if self.beam is None:
            raise ParameterError("beam", type(self).__name__, "at least 1", None)
        super().check_settings()

    def _settings(self, max_passes: int | None = None) -> Any:
        """The learner; a search has no loss."""
        names = ("beam", "update", "mode", "rivals", "alpha", "margin_scale", "average", "random_state")
        settings = {name: getattr(self, name) for name in names if hasattr(self, name)}
        limit: Any = self.max_passes if max_passes is None else max_passes
        return LaSO(max_passes=limit, **settings, **(self.learner_options or {})), None

    # storage: a search corrects few of the weights that it could have, and those that it never touched are 0

    def _weight_arrays(self) -> dict[str, NDArray[Any]]:
        places = np.flatnonzero(self.theta_)
        small = np.int32 if len(self.theta_) <= np.iinfo(np.int32).max else np.int64
        return {"places": places.astype(small), "weights": self.theta_[places], "dim": np.array([len(self.theta_)])}

    def _restore_weights(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        places, weights, dim = arrays["places"], arrays["weights"], arrays["dim"]
        if dim.shape != (1,) or dim.dtype != np.int64 or not 0 <= dim[0] <= 1 << 33:
            raise StorageError("the number of weights is not one whole number")
        if places.dtype not in (np.int32, np.int64) or places.ndim != 1 or places.shape != weights.shape:
            raise StorageError("there is not one place for each weight")
        if len(places) and not (places[0] >= 0 and places[-1] < dim[0] and (places[1:] > places[:-1]).all()):
            raise StorageError(f"the places of the weights do not rise from 0 to at most {dim[0] - 1}")
        theta = np.zeros(int(dim[0]))
        theta[places] = weights
        self._take(replace(result_from_json(header["result"], weights), theta=theta))  # what is checked is not all 0
