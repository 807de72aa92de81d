"""The generic search (Daumé and Marcu 2005, Figure 1): greedy, beam, best-first, A* or depth-first by its queue."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.exceptions import InputError, ParameterError
from partwise.learners.laso.spaces import SearchProblem

__all__ = ["AStar", "Beam", "BestFirst", "DepthFirst", "Greedy", "Node", "Queue", "Search", "Searched"]


@dataclass(eq=False)
class Node:
    """A state with the path to it: g is the score of the path, h the heuristic."""

    state: Any
    parent: Node | None = None
    g: float = 0.0
    h: float = 0.0
    good: bool = False
    level: float = 0.0  # its progress; goals have the highest
    down: float = 0.0  # what a y-good node is down-weighted by while learning
    active: dict[str, float] = field(default_factory=dict)  # features of the last step

    @property
    def depth(self) -> int:
        node, steps = self, 0
        while node.parent is not None:
            node, steps = node.parent, steps + 1
        return steps

    def path(self) -> list[Any]:
        """The states from the initial one on."""
        states: list[Any] = []
        node: Node | None = self
        while node is not None:
            states.append(node.state)
            node = node.parent
        return states[::-1]


class Queue:
    """The variable part of Figure 1: which nodes are taken off the queue, and in which order the others wait."""

    #: Whether a state that was seen before comes back in when a better path to it is found.
    reopens = False

    def take(self, nodes: list[Node]) -> tuple[list[Node], list[Node], list[Node]]:
        """(nodes that are taken off, best first; nodes that stay; nodes that are cut off)."""
        return nodes[:1], nodes[1:], []

    def rank(self, node: Node) -> float:
        """The key that orders nodes: g, lowered by the margin for y-good nodes."""
        return node.g - node.down

    def enqueue(self, nodes: list[Node], following: list[Node]) -> list[Node]:
        """The next queue: all nodes, best first. Earlier nodes win ties."""
        return sorted([*nodes, *following], key=lambda node: -self.rank(node))


@dataclass(frozen=True)
class Beam(Queue):
    """The nodes of least progress are taken off together, and only the ``size`` best of them are expanded.

    Goals wait for each other at the end, so that a beam that is never full is exact.

    Examples
    --------
    >>> Beam(0)
    Traceback (most recent call last):
        ...
    partwise.exceptions.ParameterError: The 'size' parameter of Beam must be an integer of at least 1. Got 0 instead.
    """

    size: int = 5

    def __post_init__(self) -> None:
        whole = isinstance(self.size, int | np.integer) and not isinstance(self.size, bool)
        if not whole or not self.size >= 1:
            raise ParameterError("size", type(self).__name__, "an integer of at least 1", self.size)

    def take(self, nodes: list[Node]) -> tuple[list[Node], list[Node], list[Node]]:
        level = min(node.level for node in nodes)
        lowest = [node for node in nodes if node.level == level]
        return lowest[: int(self.size)], [node for node in nodes if node.level != level], lowest[int(self.size) :]


@dataclass(frozen=True)
class Greedy(Beam):
    """Only the best node is kept."""

    size: int = 1


@dataclass(frozen=True)
class BestFirst(Queue):
    """The node of largest g is expanded first."""

    reopens = True


@dataclass(frozen=True)
class AStar(Queue):
    """The node of largest g + h is expanded first: optimal where h is never below what can still be gained."""

    reopens = True

    def rank(self, node: Node) -> float:
        return node.g + node.h - node.down


@dataclass(frozen=True)
class DepthFirst(Queue):
    """The newest nodes first, the best of them at the head."""

    def enqueue(self, nodes: list[Node], following: list[Node]) -> list[Node]:
        return [*super().enqueue([], following), *nodes]


@dataclass(frozen=True)
class Searched:
    """What a search found: the goal, how many nodes were expanded, and the queue that was left."""

    node: Node
    expanded: int
    queue: list[Node]


class Search:
    """One search of input x with given weights, step by step: what prediction and learning share.

    Parameters
    ----------
    problem : SearchProblem
    queue : Queue
    x : the input
    score : features of a step → their score
    judge : state → whether it is y-good, while learning
    limit : the largest number of nodes to expand
    """

    def __init__(
        self,
        problem: SearchProblem,
        queue: Queue,
        x: Any,
        score: Callable[[dict[str, float]], float],
        judge: Callable[[Any], bool] | None = None,
        limit: int = 1_000_000,
    ) -> None:
        self.problem, self.queue, self.x, self.score, self.judge = problem, queue, x, score, judge
        self.limit, self.expanded = limit, 0
        self.seen: dict[Hashable, float] = {}
        self.down = 0.0
        state = problem.initial(x)
        self.root = Node(state, h=float(problem.heuristic(x, state)), good=judge is None or self._judged(state))
        if not self.root.good:
            raise InputError(f"the initial state is not y-good: {state!r} cannot lead to the given output")
        if problem.progress(x, state) is not None:
            self.root.level = self._level(self.root)
        self.nodes = [self.root]
        self.seen[self._key(state)] = 0.0

    def _key(self, state: Any) -> Hashable:
        key = self.problem.key(state)
        try:
            hash(key)
        except TypeError:
            what = f"states of {type(self.problem).__name__} cannot be hashed ({type(key).__name__})"
            raise InputError(f"{what}: use tuples, or define key(state)") from None
        return key

    def _level(self, node: Node) -> float:
        if self.is_goal(node):
            return math.inf
        progress = self.problem.progress(self.x, node.state)
        before = -math.inf if node.parent is None else node.parent.level
        level = before + 1.0 if progress is None else float(progress)
        if not level > before:
            raise InputError(f"progress at {node.state!r} is {level:g}, no more than {before:g} at the step before")
        return level

    def is_goal(self, node: Node) -> bool:
        return _truth(self.problem.goal(self.x, node.state), "goal", node.state)

    def _judged(self, state: Any) -> bool:
        return self.judge is not None and _truth(self.judge(state), "good", state)

    def _on_path(self, node: Node | None, key: Hashable) -> bool:
        """Whether the path to a node has visited a state, so that returning there would be a cycle."""
        while node is not None:
            if self._key(node.state) == key:
                return True
            node = node.parent
        return False

    def children(self, node: Node, remember: bool = True) -> list[Node]:
        """The nodes one step away, except those already reached by a path at least as good."""
        given: Any = self.problem.operators(self.x, node.state)
        if not hasattr(given, "__iter__"):
            raise InputError(f"the operators at {node.state!r} must be a list of states, got {given!r}")
        states = list(given)
        if not states:
            raise InputError(f"the operators yield nothing at {node.state!r}, and it is not a goal")
        found = []
        for state in states:
            active = _named(self.problem.features(self.x, state), state)
            child = Node(state, node, node.g + self.score(active), active=active)
            key = self._key(state)
            if remember:
                known = self.seen.get(key)
                if known is not None:
                    better = self.queue.reopens and child.g > known
                    if not better or self._on_path(node, key):
                        continue
                self.seen[key] = child.g
            child.h = float(self.problem.heuristic(self.x, state))
            child.good = node.good and self._judged(state)
            child.down = self.down if child.good else 0.0
            child.level = self._level(child)
            found.append(child)
        return found

    def take(self) -> tuple[list[Node], list[Node]]:
        """(front, cut): take nodes off the queue."""
        if not self.nodes:
            raise InputError(
                f"the search from {self.root.state!r} ran out of states before it found a goal: every step leads to "
                "a state that was visited before or was pruned by the queue"
            )
        front, self.nodes, cut = self.queue.take(self.nodes)
        return front, cut

    def expand(self, front: list[Node]) -> None:
        """Put the children of nodes that were taken off into the queue."""
        if self.queue.reopens:  # to a state that has been reached by a better path since, there is no need to go
            front = [node for node in front if node.g >= self.seen[self._key(node.state)]]
        following = [child for node in front for child in self.children(node)]
        self.expanded += len(front)
        if self.expanded > self.limit:
            raise InputError(
                f"no goal was found within {self.limit} expanded nodes; the last one was {front[-1].state!r}"
            )
        self.nodes = self.queue.enqueue(self.nodes, following)

    def run(self) -> Searched:
        """Figure 1: until the first node that is taken off is a goal."""
        while True:
            front, _ = self.take()
            if self.is_goal(front[0]):
                return Searched(front[0], self.expanded, [*front, *self.nodes])
            self.expand(front)


def _truth(said: Any, method: str, state: Any) -> bool:
    if said is None:
        raise InputError(f"{method} at {state!r} must be True or False, got None: is a return missing?")
    return bool(said)


def _named(features: Any, state: Any) -> dict[str, float]:
    if isinstance(features, str) or not hasattr(features, "__iter__"):
        raise InputError(f"features at {state!r} must be a dict or a list of names, got {features!r}")
    named: dict[str, float] = {}
    for name, value in features.items() if hasattr(features, "items") else ((name, 1.0) for name in features):
        if not isinstance(name, str):
            raise InputError(f"names of features at {state!r} must be strings, got {name!r}")
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise InputError(f"the feature {name!r} at {state!r} must be a finite number, got {value!r}")
        named[name] = named.get(name, 0.0) + number
    return named


def descendants(nodes: Sequence[Node], search: Search) -> list[Node]:
    """The y-good children of y-good nodes; an error names a y-good state that has none."""
    found: list[Node] = []
    for node in nodes:
        if search.is_goal(node):
            found.append(node)
            continue
        right = [child for child in search.children(node, remember=False) if child.good]
        if not right:
            raise InputError(f"the y-good test contradicts itself: {node.state!r} is y-good, none of its children is")
        found += right
    return found
