"""Sums over shards: Σ_k Σ_{i in shard k} L_i(θ), added up along one fixed tree.

Floating-point addition is not associative, so the order of the sums is part of the result. It is fixed here by the
number of shards alone: the sum over shards a:b is the sum over its first half plus the sum over its second. Whoever
evaluates a node of that tree gets the same bits, so θ does not depend on how many workers there are, which worker had
which shard, or whether one of them died on the way.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.gold import checked_weights
from partwise.learners.base import Learner
from partwise.losses import LossFunction
from partwise.objective import TrainingData
from partwise.problem import Problem

__all__ = [
    "GONE",
    "Leaf",
    "Scratch",
    "Shard",
    "ShardRunner",
    "ShardedObjective",
    "StateLostError",
    "Total",
    "WeightedShard",
    "add_to",
    "add_totals",
    "dense",
    "group_borders",
    "halves",
    "shard_facts",
    "sparse",
    "sweep_group",
    "tree_total",
    "unless_gone",
]

Floats = NDArray[np.float64]
#: Two sums over some shards, such as (Σ L_i, Σ ∇L_i): a number or a few, and a vector of weights, dense, or sparse as
#: (dim, places, values) where most of it is 0.
Total = tuple[Any, Any]


class Gone:
    """In place of a result: what it builds on was on a worker that is gone."""

    def __reduce__(self) -> str:
        return "GONE"


GONE = Gone()


class StateLostError(Exception):
    """Shards have lost what earlier tasks left with them; the shards themselves are there."""


def unless_gone(results: list[Any]) -> list[Any]:
    """The results; StateLostError where one of them is missing."""
    if any(isinstance(result, Gone) for result in results):
        raise StateLostError
    return results


class Scratch:
    """Memory that goes from one shard to the next: sums of blocks, and vectors of weights that are used up.

    Fresh memory would have to be found and cleared page by page for every shard. Several threads may use one.
    """

    def __init__(self) -> None:
        self.sums: list[Any] = []  # of blocks, between calls zero; see :meth:`partwise.problem.Problem.exchange`
        self._vectors: list[Floats] = []

    def zeros(self, dim: int) -> Floats:
        """A vector of zeros."""
        try:
            vector = self._vectors.pop()
        except IndexError:
            return np.zeros(dim)
        if len(vector) != dim:
            return np.zeros(dim)
        vector.fill(0.0)
        return vector

    def release(self, vector: Any) -> None:
        """Take back a vector that is no longer used."""
        if isinstance(vector, np.ndarray) and vector.flags.writeable:
            self._vectors.append(vector)


#: (problem, what all shards are given, scratch memory that goes from one to the next) → the two sums of one shard.
Leaf = Callable[[Problem, Any, Scratch], Total]


class Shard(Protocol):
    """Where a shard comes from: small, and picklable if it is to be opened elsewhere."""

    def open(self, n_threads: int) -> Any:
        """Its problem, or whatever the tasks work on; the same bits in every process."""

    @property
    def size(self) -> str:
        """A description of its size, for error messages."""

    @property
    def smaller(self) -> str:
        """Advice for when it does not fit into the memory of a worker."""

    def digest(self) -> bytes:
        """Of its contents, to tell the data of one run from that of another."""


class ShardRunner(Protocol):
    """Whoever holds the shards and works on them."""

    @property
    def shards(self) -> Sequence[Shard]: ...

    def each(self, task: Callable[..., Any], common: Any, own: Sequence[Any] | None = None) -> list[Any]:
        """[task(problem_k, memory_k, common, own_k) for every shard k]; ``memory_k`` is a dict that stays with it."""

    def total(self, common: Any, leaf: Leaf = ...) -> tuple[Any, Floats]:
        """The two sums of ``leaf`` over all shards, along the tree; of losses and gradients at θ if none is named."""

    @property
    def n_groups(self) -> int:
        """How many groups of shards can be worked on at the same time."""

    def borders(self, groups: int) -> list[int]:
        """Where the groups of shards begin, and the end: about equally many shards in each."""

    def sweep(
        self, task: Callable[..., Any], finish: Callable[..., Any], borders: Sequence[int], common: Any
    ) -> list[Any]:
        """For every group: carry ← task(problem_k, memory_k, k, carry) from shard to shard, then finish(θ, carry).

        ``common`` is a dict, of which every group gets a copy; ``finish`` is given its "theta" as it was before.
        """

    def exchange(
        self, send: Callable[..., Any], receive: Callable[..., Any], senders: range, receivers: range, common: Any
    ) -> list[Any]:
        """[receive(problem_j, memory_j, common, messages) for the receivers j], a message from every sender in order.

        send(problem_k, memory_k, common) is a list with a message for every receiver: they go from worker to worker.
        Both may build on what ``memory`` has from before. Where that is lost they return :data:`GONE`, and
        StateLostError is raised here.
        """

    def at(self, task: Callable[..., Any], numbers: range, common: Any, own: Sequence[Any] | None = None) -> list[Any]:
        """As ``each``, for these shards alone, and with GONE as in ``exchange``."""

    def replace(self, shards: Sequence[Shard]) -> None:
        """Work on other shards from now on, or on the same ones as if nothing had been done."""

    def close(self) -> None:
        """Release the shards."""


@dataclass(frozen=True)
class WeightedShard:
    """A shard whose instances count with these weights."""

    shard: Shard
    weights: Floats

    def open(self, n_threads: int) -> Problem:
        problem: Problem = self.shard.open(n_threads)
        return problem.reweighted(self.weights, some=True)

    @property
    def size(self) -> str:
        return self.shard.size

    @property
    def smaller(self) -> str:
        return self.shard.smaller

    def digest(self) -> bytes:
        return self.shard.digest() + self.weights.tobytes()


def group_borders(n_shards: int, groups: int) -> list[int]:
    """Where each of that many groups of shards begins, and the end."""
    n = max(1, min(groups, n_shards))
    return [n_shards * k // n for k in range(n + 1)]


def sweep_group(
    shards: Sequence[tuple[int, Problem, dict[str, Any]]],
    task: Callable[..., Any],
    finish: Callable[..., Any],
    common: Any,
) -> Any:
    """One group's part of :meth:`ShardRunner.sweep`."""
    carry = copy.deepcopy(common)
    for number, problem, memory in shards:
        carry = task(problem, memory, number, carry)
    return finish(common.get("theta"), carry)


def halves(first: int, last: int) -> tuple[int, int, int]:
    """The two halves first:middle and middle:last of a node of the tree."""
    return first, (first + last) // 2, last


def shard_total(problem: Problem, theta: Floats, scratch: Scratch) -> Total:
    """(Σ L_i, Σ ∇L_i) of one shard.

    No number in the gradient is −0, since it begins with 0 and x + (−x) = 0: then leaving out a zero changes no bit.
    """
    problem.exchange(scratch.sums.pop() if scratch.sums else None)
    loss, gradient = problem.loss_and_gradient(theta, scratch.zeros(problem.dim))
    scratch.sums.append(problem.exchange(None))
    return loss, gradient


def add_totals(left: Total, right: Total) -> Total:
    """The sum of two nodes; what the left one consists of is used up."""
    gradient = dense(left[1])
    add_to(gradient, right[1])
    return left[0] + right[0], gradient


def tree_total(leaf: Callable[[int], Total], first: int, last: int, scratch: Scratch | None = None) -> Total:
    """The sum over the shards first:last; as many vectors are alive as the tree is deep."""
    if last - first == 1:
        return leaf(first)
    _, middle, _ = halves(first, last)
    left, right = tree_total(leaf, first, middle, scratch), tree_total(leaf, middle, last, scratch)
    total = add_totals(left, right)
    if scratch is not None:
        scratch.release(right[1])
    return total


def sparse(gradient: Floats) -> Any:
    """A vector for the way between machines: (dim, places, values) if that is shorter."""
    places = np.flatnonzero(gradient).astype(np.int32)
    size = gradient.itemsize
    if (4 + size) * len(places) >= size * len(gradient):
        return gradient
    return len(gradient), places, gradient[places]


def add_to(total: Floats, vector: Any) -> None:
    """total ← total + vector, dense or sparse."""
    if isinstance(vector, tuple):
        _, places, values = vector
        total[places] += values
    else:
        total += vector


def dense(gradient: Any) -> Floats:
    """The vector itself, in an array that may be added to."""
    if not isinstance(gradient, tuple):
        answer: Floats = gradient if gradient.flags.writeable else gradient.copy()
        return answer
    dim, places, values = gradient
    out = np.zeros(dim)
    out[places] = values
    return out


def shard_facts(problem: Problem, memory: Any, common: Any, own: Any) -> dict[str, Any]:
    """The facts about an objective that need no weights."""
    names = ("dim", "m", "oracles", "convex", "nonnegative", "guarantee", "bounded", "loose")
    return {name: getattr(problem, name) for name in names}


def shard_unconverged(problem: Problem, memory: Any, common: Any, own: Any) -> int | None:
    return problem.unconverged


def shard_losses(problem: Problem, memory: Any, theta: Floats, own: Any) -> Floats:
    return problem.losses(theta)


def shard_upper_losses(problem: Problem, memory: Any, theta: Floats, own: Any) -> Floats:
    return problem.upper_losses(theta)


class ShardedObjective(TrainingData):
    """Σ_i L_i(θ) over all shards of a runner: an :class:`~partwise.objective.Objective`."""

    def __init__(self, runner: ShardRunner, loss: LossFunction, folder: Any = None) -> None:
        self.runner, self.loss, self._folder = runner, loss, folder  # the folder lives as long as the data in it
        facts = runner.each(shard_facts, None)
        first = facts[0]
        self.dim: int = first["dim"]
        self.sizes = [int(fact["m"]) for fact in facts]
        self.m = sum(self.sizes)
        self.oracles: frozenset[str] = frozenset.intersection(*(fact["oracles"] for fact in facts))
        self.convex = all(fact["convex"] for fact in facts)
        self.bounded = all(fact["bounded"] for fact in facts)
        self.loose = any(fact["loose"] for fact in facts)
        self.nonnegative: NDArray[np.bool_] | None = first["nonnegative"]
        self.weights: Floats | None = None
        self.guarantee: str = first["guarantee"]

    @property
    def unconverged(self) -> int | None:
        """Instances for which iterative inference did not converge when last asked; None where none iterates."""
        found = [count for count in self.runner.each(shard_unconverged, None) if count is not None]
        return sum(found) if found else None

    def losses(self, theta: Floats) -> Floats:
        """L_i(θ) of every instance, shard after shard."""
        return np.concatenate(self.runner.each(shard_losses, theta))

    def upper_losses(self, theta: Floats) -> Floats:
        """Upper bounds of L_i(θ)."""
        return np.concatenate(self.runner.each(shard_upper_losses, theta))

    def loss_and_gradient(self, theta: Floats) -> tuple[float, Floats]:
        """(Σ_i L_i(θ), Σ_i ∇L_i(θ)) along the tree."""
        return self.runner.total(theta)

    def reweighted(self, weights: ArrayLike) -> ShardedObjective:
        """The same data with weights of the instances, those of all shards one after another; takes over the shards."""
        other = copy.copy(self)
        other.weights = checked_weights(weights, self.m)
        parts = np.split(other.weights, np.cumsum(self.sizes)[:-1])
        shards = [WeightedShard(shard, part) for shard, part in zip(self.runner.shards, parts, strict=True)]
        self.runner.replace(shards)
        return other

    def learner_for(self, learner: Learner) -> Learner:
        """The learner, or what it becomes where instances cannot be visited one after another."""
        from partwise.cluster.learners import learner_on_shards

        return learner_on_shards(learner, self.runner.n_groups)

    def digest(self) -> bytes:
        """Of the data, for checkpoints."""
        return b" ".join(shard.digest() for shard in self.runner.shards)

    def close(self) -> None:
        """Release the shards."""
        self.runner.close()
        if self._folder is not None:
            self._folder.cleanup()
