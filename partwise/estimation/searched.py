"""The base of every estimator whose weights are learned during a search (LaSO)."""

from __future__ import annotations

from typing import Any

from partwise.estimation.learned import LearnedEstimator
from partwise.exceptions import ParameterError
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
