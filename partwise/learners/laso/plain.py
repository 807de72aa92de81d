"""Learning inside the search of a problem in plain Python: Figure 2 of Daumé & Marcu with any queue."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.learners.laso._learning import (
    AHEAD,
    ALMA,
    EARLY,
    ERRORS,
    GENERATION,
    LARGEST,
    MASS,
    MAX_VIOLATION,
    NORM2,
    SCALE,
    STANDARD,
    STEPS,
    TIE,
    UPDATES,
    Rule,
)
from partwise.learners.laso.queues import Beam, Node, Queue, Search, descendants
from partwise.learners.laso.spaces import SearchProblem
from partwise.objective import TrainingData

__all__ = ["PlainSearch"]

State = dict[str, Any]


class PlainSearch(TrainingData):
    """Inputs and outputs of a :class:`SearchProblem`, for :class:`~partwise.learners.laso.learner.LaSO`.

    Weights belong to the names of features, which are numbered as they are met. ``limit`` is the largest number of
    nodes that the search of an input may expand.
    """

    def __init__(
        self, problem: SearchProblem, X: Sequence[Any], Y: Sequence[Any], queue: Queue, *, limit: int = 1_000_000
    ) -> None:
        if len(X) != len(Y):
            raise InputError(f"X has {len(X)} inputs but y has {len(Y)}")
        if len(X) == 0:
            raise InputError("a problem needs at least one input")
        self.problem, self.X, self.Y, self.queue, self.limit = problem, X, Y, queue, limit
        self.m = len(X)
        self.number: dict[str, int] = {}

    @property
    def dim(self) -> int:
        return len(self.number)

    @property
    def names(self) -> list[str]:
        return list(self.number)

    def run(self, order: NDArray[np.int64], rule: Rule, state: State) -> None:
        """One pass, in place."""
        state.setdefault("names", [])
        self.recall(state)
        weights = _Weights(self.number, state, rule)
        for i in order.tolist():
            self._learn(i, rule, weights)
            weights.numbers[MASS] += weights.numbers[SCALE]
            weights.numbers[STEPS] += 1.0
        state["theta"], state["shift"] = np.array(weights.theta), np.array(weights.shift)
        state["names"] = list(self.number)

    def recall(self, state: State) -> None:
        """The numbers of the features that a state has weights of."""
        self.number = {name: j for j, name in enumerate(state.get("names", []))}

    def digest(self) -> bytes:
        """Of the inputs and outputs, by their ``repr``."""
        return hashlib.blake2b(repr((list(self.X), list(self.Y), self.queue)).encode()).digest()

    def _learn(self, i: int, rule: Rule, weights: _Weights) -> None:
        """Figure 2 for one input."""
        x, y = self.X[i], self.Y[i]

        def judge(state: Any) -> Any:
            return self.problem.good(x, y, state)

        try:
            if rule.mode in (STANDARD, MAX_VIOLATION):
                self._whole(x, judge, rule, weights)
            else:
                self._follow(x, judge, rule, weights)
        except InputError as error:
            raise InputError(f"input {i}: {error}") from None

    def _follow(self, x: Any, judge: Any, rule: Rule, weights: _Weights) -> None:
        search = Search(self.problem, self.queue, x, weights.score, judge, self.limit)
        while True:
            search.down = weights.margin()
            front, cut = search.take()
            head, good = front[0], [node for node in front if node.good]
            goal = search.is_goal(head)
            if goal and head.good:
                return
            waiting = [node for node in search.nodes if node.good]
            lost = [node for node in cut if node.good]
            if not goal and (good or waiting):
                search.expand(front)
                if not any(node.good for node in search.nodes):
                    descendants(good, search)  # names the state whose y-good test contradicts itself
                continue
            nodes = front if isinstance(self.queue, Beam) else [*front, *search.nodes]
            if rule.rivals == AHEAD:
                nodes = list(takewhile(lambda node: not node.good, front))
            siblings = good or lost or waiting or self._siblings(head, search)
            weights.update(siblings, nodes)
            if rule.mode == EARLY:
                return
            for node in siblings:
                node.g = weights.rescored(node)
            search.nodes = siblings
            search.seen = {search._key(node.state): node.g for node in siblings}

    def _siblings(self, node: Node, search: Search) -> list[Node]:
        """Back to the first y-good ancestor, then forward through y-good nodes to the depth of the node."""
        depth, ancestor = node.depth, node
        while not ancestor.good:
            assert ancestor.parent is not None  # the root is y-good
            ancestor = ancestor.parent
        found = [ancestor]
        for _ in range(depth - ancestor.depth):
            found = descendants(found, search)
        return found

    def _whole(self, x: Any, judge: Any, rule: Rule, weights: _Weights) -> None:
        """Complete outputs are compared (standard), or the nodes of the largest violation."""
        search = Search(self.problem, self.queue, x, weights.score, judge, self.limit)
        search.down = weights.margin()
        best, worst = search.root, (-math.inf, search.root, search.root)
        while True:
            front, _ = search.take()
            head = front[0]
            while best.level < head.level:
                best = max(descendants([best], search), key=lambda node: node.g)
            violation = head.g - best.g + search.down
            if best.level == head.level and not head.good and violation > worst[0] + TIE:
                worst = (violation, best, head)
            if search.is_goal(head):
                break
            search.expand(front)
        while not search.is_goal(best):
            best = max(descendants([best], search), key=lambda node: node.g)
        if rule.mode == STANDARD and not head.good:
            weights.update([best], [head])
        elif rule.mode == MAX_VIOLATION and worst[0] >= 0.0:
            weights.update([worst[1]], [worst[2]])


class _Weights:
    """Weights during learning: w = scale·theta, their sum so far mass·theta + shift; see ``_learning.step``."""

    def __init__(self, number: dict[str, int], state: State, rule: Rule) -> None:
        self.number, self.rule, self.numbers = number, rule, state["numbers"]
        size = len(number)
        self.theta: list[float] = state["theta"].tolist() + [0.0] * (size - len(state["theta"]))
        self.shift: list[float] = state["shift"].tolist() + [0.0] * (size - len(state["shift"]))

    def score(self, active: dict[str, float]) -> float:
        number, theta = self.number, self.theta
        total = sum(theta[number[name]] * value for name, value in active.items() if name in number)
        return float(self.numbers[SCALE]) * total

    def rescored(self, node: Node) -> float:
        total, step = 0.0, node
        while step.parent is not None:
            total += self.score(step.active)
            step = step.parent
        return total

    def margin(self) -> float:
        """(1 − α)B k^{−1/2}."""
        if self.rule.update != ALMA:
            return 0.0
        return (1.0 - self.rule.alpha) * self.rule.b / math.sqrt(self.numbers[GENERATION])

    def update(self, siblings: Sequence[Node], nodes: Sequence[Node]) -> None:
        """Eq. (2) or eq. (3) with these siblings and nodes."""
        delta: dict[str, float] = {}
        for group, share in ((siblings, 1.0 / len(siblings)), (nodes, -1.0 / max(len(nodes), 1))):
            for node in group:
                step: Node | None = node
                while step is not None:
                    for name, value in step.active.items():
                        delta[name] = delta.get(name, 0.0) + share * value
                    step = step.parent
        for name in delta:
            if name not in self.number:
                self.number[name] = len(self.number)
                self.theta.append(0.0)
                self.shift.append(0.0)
        numbers, scale = self.numbers, float(self.numbers[SCALE])
        norm2 = sum(value * value for value in delta.values())
        dot = sum(value * self.theta[self.number[name]] for name, value in delta.items())
        eta = 1.0
        if self.rule.update == ALMA:
            eta = self.rule.c / math.sqrt(numbers[GENERATION]) / max(1.0, math.sqrt(norm2))
        for name, value in delta.items():
            j = self.number[name]
            self.theta[j] += eta / scale * value
            self.shift[j] -= float(numbers[MASS]) * eta / scale * value
        numbers[NORM2] += 2.0 * eta * scale * dot + eta * eta * norm2
        if self.rule.update == ALMA and numbers[NORM2] > 1.0:
            numbers[SCALE] = scale / math.sqrt(numbers[NORM2])
            numbers[NORM2] = 1.0
        numbers[LARGEST] = max(numbers[LARGEST], numbers[NORM2])
        numbers[[GENERATION, UPDATES, ERRORS]] += 1.0
