"""SearchProblem: an output space that is described by how to search it, in plain Python."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

__all__ = ["SearchProblem"]


class SearchProblem(ABC):
    """g(x, n) = wᵀΦ(x, n) over the nodes of a search: an initial state, operators, a goal test.

    Daumé and Marcu (2005), §3.1.

    States may be anything hashable: tuples, frozen dataclasses, strings. ``features(x, state)`` are those that the
    last step adds, so that Φ(x, n) is their sum along the path to n. For training, ``good`` says whether a state can
    still lead to the right output y: the monotonicity assumption of §3.3.

    Examples
    --------
    Spelling a word letter by letter:

    >>> class Spell(SearchProblem):
    ...     def initial(self, x): return ""
    ...     def operators(self, x, state): return [state + letter for letter in "ab"]
    ...     def goal(self, x, state): return len(state) == x
    ...     def good(self, x, y, state): return y.startswith(state)
    ...     def features(self, x, state): return {state[-2:]: 1.0}
    >>> Spell().output(3, "aba")
    'aba'
    """

    @abstractmethod
    def initial(self, x: Any) -> Hashable:
        """The state to begin in."""

    @abstractmethod
    def operators(self, x: Any, state: Any) -> Iterable[Hashable]:
        """The states that one step leads to, from a state that is no goal; at least one."""

    @abstractmethod
    def goal(self, x: Any, state: Any) -> bool:
        """Whether a state is complete."""

    @abstractmethod
    def features(self, x: Any, state: Any) -> Mapping[str, float] | Iterable[str]:
        """Names and values of what the last step adds; names alone count 1."""

    def good(self, x: Any, y: Any, state: Any) -> bool:
        """Whether the state can lead to the output y; needed for training only."""
        raise NotImplementedError(f"{type(self).__name__} has no y-good test: define good(x, y, state) to train it")

    def output(self, x: Any, state: Any) -> Any:
        """The output that a goal stands for; the state itself unless a subclass says otherwise."""
        return state

    def heuristic(self, x: Any, state: Any) -> float:
        """h: an estimate of what is still to be gained. Admissible for A* if it is never too low."""
        return 0.0

    def progress(self, x: Any, state: Any) -> float | None:
        """How much of x a state accounts for: a beam compares states of equal progress. None: by number of steps.

        Every step must raise it. Goals are compared with each other, whatever their progress.
        """
        return None

    def key(self, state: Any) -> Hashable:
        """The identity of a state, by which the search recognises states already visited."""
        answer: Hashable = state
        return answer
