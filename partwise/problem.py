"""Problem: a packed training set behind a few compiled calls; all that a learner sees.

It joins a structure, a feature map, gold parts, costs and a loss, and answers: loss and gradient of instance i, of
all; argmax and k-best of instance i. Whether that runs compiled or in plain Python depends on what it was given, and
no learner can tell the difference.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._compile import composite, kernel, native
from partwise._digest import pack_digest
from partwise._threads import Threads
from partwise.costs import Cost, Hamming
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features.base import Features, accumulate, feature_scores
from partwise.features.given import GivenScores, packed_scores
from partwise.gold import PartialGold, SparseParts, Weighted, checked_weights, encode_gold
from partwise.losses import Loss, LossFunction, loss_bound, loss_parts
from partwise.objective import TrainingData
from partwise.structures.base import GUARANTEES, Floats, Structure, part_count

__all__ = ["PartialGold", "Problem", "SparseParts", "evaluate"]

#: Instances are summed in this many blocks, whatever the number of threads: results do not depend on it.
BLOCKS = 4


class Data(NamedTuple):
    """What the kernels see of a problem."""

    space: Any
    features: Any
    gold: Any
    cost: Any
    loss: Any


class Buffers(NamedTuple):
    """Scratch memory for one thread, large enough for the largest instance."""

    scores: Floats
    parts: Floats
    spare: Floats
    work: Floats


@composite
def instance_loss(data, i, theta, buffers):
    """L_i(θ); leaves z̄ − z in ``buffers.parts``."""
    n = part_count(data.space, i)
    feature_scores(data.features, i, theta, buffers.scores, 0)
    scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
    return loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)


@kernel
def block_losses(data, start, stop, theta, buffers, losses, gradient):
    """losses[i] ← L_i over a block; adds Σ_i F_i(z̄_i − z_i) to ``gradient`` unless that has length 0.

    The body of ``instance_loss`` stands here once more: every level of calls costs seconds of compile time.
    """
    for i in range(start, stop):
        n = part_count(data.space, i)
        feature_scores(data.features, i, theta, buffers.scores, 0)
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        losses[i] = loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)
        if gradient.shape[0] > 0:
            accumulate(data.features, i, parts, 0, 1.0, gradient)


@kernel
def block_bounds(data, start, stop, theta, buffers, losses):
    """losses[i] ← an upper bound on L_i over a block."""
    for i in range(start, stop):
        n = part_count(data.space, i)
        feature_scores(data.features, i, theta, buffers.scores, 0)
        scores, parts, spare = buffers.scores[:n], buffers.parts[:n], buffers.spare[:n]
        losses[i] = loss_bound(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, spare)


@kernel(fast=False)  # in the order of k, whichever way the sums are grouped into calls
def add_blocks(sums, start, stop, total):
    """total ← (total + sums[0]) + sums[1] + … over start:stop; zeroes the sums for the next time."""
    for k in range(sums.shape[0]):
        for j in range(start, stop):
            total[j] += sums[k, j]
            sums[k, j] = 0.0


class Problem(TrainingData):
    """min_θ λ/2 ‖θ‖² + 1/m Σ_i w_i L(θ; x_i, y_i): Martins et al. (2010), eq. (2).

    Without the regulariser, which is the learner's.

    Parameters
    ----------
    space : Structure
    features : Features
    outputs : sequence of m gold outputs, or a Structure
        A Structure stands for partial knowledge: the same parts, but only the outputs that might be gold.
    loss : Loss or its name
    cost : Cost, optional
        The structure's own default if absent.
    nonnegative : (dim,) bool, optional
        Weights that must stay ≥ 0. Only some learners support this; the others raise an error.
    n_threads : int
        How many threads evaluate the sum over instances. The result does not depend on it.
    guarantee : str, optional
        How good the oracle of the loss is, instead of what the structure says: "inner" for an argmax that may not find
        the best output. Certificates depend on it; see ``GUARANTEES``.
    weights : (m,), optional
        w_i ≥ 0, the weight of the loss of each instance: 2 counts it twice, 0 omits it. C keeps its meaning, λ = 1/(Cm)
        with m the number of instances.
    """

    def __init__(
        self,
        space: Structure,
        features: Features,
        outputs: Sequence[Any] | Structure,
        loss: LossFunction | str = "crf",
        cost: Cost | None = None,
        *,
        nonnegative: ArrayLike | None = None,
        n_threads: int = 1,
        guarantee: str | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        if n_threads < 1:
            raise ParameterError("n_threads", "Problem", "at least 1", n_threads)
        if len(outputs) != len(space):
            raise InputError(f"X has {len(space)} instances but y has {len(outputs)}")
        if len(space) == 0:
            raise InputError("a problem needs at least one instance")
        self.space, self.features, self.n_threads = space, features, n_threads
        self.loss = Loss.named(loss) if isinstance(loss, str) else loss
        self.cost = cost or Hamming(*space.default_cost())
        self.guarantee = space.certifies(self.loss.oracle) if guarantee is None else guarantee
        if self.guarantee not in GUARANTEES:
            raise ParameterError("guarantee", "Problem", f"one of {', '.join(GUARANTEES)}", self.guarantee)
        self.m, self.dim = len(space), features.dim
        self.nonnegative = self._nonnegative(nonnegative)
        self.weights = None if weights is None else checked_weights(weights, self.m)
        gold, costs = encode_gold(space, self.cost, self.loss, outputs)
        rescaled = self.loss.rescales_slack
        reason = space.slack_obstacle(costs.offsets, costs.numbers, costs.values) if rescaled else None
        if reason is not None:
            raise InputError(reason)
        self.data = Data(space.pack, features.pack, gold, costs, self.weighted(self.loss.pack))
        self._batch = self.data._replace(features=features.batch_pack)
        self._dead = np.flatnonzero(features.live == 0) if features.live is not None else np.zeros(0, np.int64)
        self.compiled = native(self.data)
        parts, work = self._sizes(space, "features score")
        if isinstance(outputs, Structure):
            work = np.maximum(work, self._sizes(outputs, "gold space does not fit: features score")[1])
        features.check_scale(self.m)
        #: Where the parts of instance i begin in an array that holds the parts of all: (m + 1,)
        self.part_offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(parts)])
        self._size = (int(parts.max()), int(work.max()))
        # block borders: equal numbers of parts, fixed by the data alone
        ends = np.searchsorted(np.cumsum(parts), parts.sum() * np.arange(1, BLOCKS) / BLOCKS)
        self._borders = np.unique(np.concatenate([[0], ends, [self.m]]))
        self._threads = Threads(n_threads if self.compiled else 1)
        self._sums: Floats | None = None  # gradients of blocks, between calls zero

    def _sizes(self, space: Structure, words: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(parts, work) of every instance of a space, whose parts must be those that the features score."""
        (parts, work), scored = space.instance_sizes(), self.features.instance_sizes(self.m)
        if len(scored) != self.m:
            raise InputError(f"the features cover {len(scored)} instances, the structure has {self.m}")
        if (scored != parts).any():
            i = int(np.argmax(scored != parts))
            raise InputError(f"{words} {scored[i]} parts of instance {i}, the structure has {parts[i]}")
        return parts, work

    def _nonnegative(self, mask: ArrayLike | None) -> NDArray[np.bool_] | None:
        if mask is None:
            return None
        array = np.asarray(mask)
        if array.shape != (self.dim,) or array.dtype != bool:
            raise ParameterError("nonnegative", "Problem", f"a bool array of shape ({self.dim},)", array.shape)
        return array

    def weighted(self, pack: Any) -> Any:
        """A loss for the kernels, multiplied by the weights of the instances where they have some."""
        return pack if self.weights is None else Weighted(pack, self.weights)

    def reweighted(self, weights: ArrayLike, *, some: bool = False) -> Problem:
        """The same problem with other weights of the instances; nothing is encoded again.

        ``some`` says that these are only some of the instances, which may all count nothing.
        """
        other = copy.copy(self)
        other.weights, other._sums = checked_weights(weights, self.m, some=some), None
        other.data = self.data._replace(loss=other.weighted(self.loss.pack))
        other._batch = self._batch._replace(loss=other.data.loss)
        return other

    @property
    def oracles(self) -> frozenset[str]:
        """The oracles of the output space."""
        return self.space.oracles

    @property
    def bounded(self) -> bool:
        """Whether ``upper_losses`` are upper bounds on the losses."""
        return self.guarantee in ("exact", "outer") or self.loose

    @property
    def unconverged(self) -> int | None:
        """Instances for which iterative inference did not converge when last asked; None where none iterates."""
        return self.space.unconverged(self.loss.oracle)

    @property
    def loose(self) -> bool:
        """Whether ``upper_losses`` may lie above the losses: the oracle answers with what it attained, and a bound."""
        known = "bound" in self.oracles and type(self.loss.pack) in loss_bound.kinds
        return self.guarantee in ("inner", "outer") and known

    @property
    def convex(self) -> bool:
        """Whether the objective is convex in θ: partly known gold outputs make any loss a difference of two."""
        return self.loss.convex and not isinstance(self.data.gold, PartialGold)

    def run(self, function: Any, *args: Any) -> Any:
        """Call a kernel: compiled where every pack is, else its Python source."""
        try:
            return (function if self.compiled else getattr(function, "py_func", function))(*args)
        except InputError as error:
            raise self.space.explain(error) from None

    def gold_parts(self) -> Floats:
        """z_1, …, z_m side by side, shape (part_offsets[-1],)."""
        gold = self.data.gold
        if isinstance(gold, PartialGold):
            raise InputError("gold outputs are only partly known: they have no parts")
        parts = np.zeros(self.part_offsets[-1])
        np.add.at(parts, gold.numbers + np.repeat(self.part_offsets[:-1], np.diff(gold.offsets)), gold.values)
        return parts

    def buffers(self) -> Buffers:
        """Scratch memory for one thread."""
        n, work = self._size
        return Buffers(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(work))

    def collect(self, task: Callable[[Data, int, int, Floats], Any], rows: int = 1) -> tuple[list[Any], Floats]:
        """(results, (rows, dim) sums) of task(data, start, stop, sums) over the blocks, each adding to its ``sums``."""
        blocks = list(itertools.pairwise(self._borders.tolist()))
        results: list[Any] = [None] * len(blocks)
        sums = np.zeros((len(blocks), rows, self.dim))

        def one(k: int, start: int, stop: int) -> None:
            results[k] = task(self._batch, start, stop, sums[k])

        self._threads.each(one, [(k, *block) for k, block in enumerate(blocks)])
        total = sums.sum(axis=0)
        total[:, self._dead] = 0.0
        return results, total

    def loss_and_gradient(self, theta: Floats, zeros: Floats | None = None) -> tuple[float, Floats]:
        """(Σ_i L_i(θ), Σ_i ∇L_i(θ)) over all instances; the gradient in ``zeros`` where that is given."""
        losses, gradient = self.losses_and_gradient(theta, zeros)
        return float(losses.sum()), gradient

    def losses_and_gradient(self, theta: Floats, zeros: Floats | None = None) -> tuple[Floats, Floats]:
        """(L_1(θ) … L_m(θ), Σ_i ∇L_i(θ)): as many blocks at a time as there are threads.

        With :class:`~partwise.features.GivenScores` the sum is the gradients in part space side by side.
        """
        # given up while in use, so that an error or Ctrl-C cannot leave half a sum for the next call
        sums, self._sums = self._sums, None
        blocks = list(itertools.pairwise(self._borders.tolist()))
        if sums is None:
            sums = np.zeros((min(self.n_threads, len(blocks)), self.dim))
        ranges = list(itertools.pairwise(np.linspace(0, self.dim, self.n_threads + 1).astype(int).tolist()))
        losses, gradient = np.empty(self.m), np.zeros(self.dim) if zeros is None else zeros
        for first in range(0, len(blocks), len(sums)):
            now = blocks[first : first + len(sums)]
            self._threads.each(self._block, [(*block, theta, losses, sums[k]) for k, block in enumerate(now)])
            self._threads.each(self.run, [(add_blocks, sums[: len(now)], *span, gradient) for span in ranges])
        self._sums = sums
        gradient[self._dead] = 0.0
        return losses, gradient

    def losses(self, theta: Floats) -> Floats:
        """L_i(θ) of every instance, shape (m,)."""
        losses = np.empty(self.m)
        blocks = itertools.pairwise(self._borders.tolist())
        self._threads.each(self._block, [(*block, theta, losses, np.zeros(0)) for block in blocks])
        return losses

    def upper_losses(self, theta: Floats) -> Floats:
        """Upper bounds of L_i(θ), shape (m,): the losses themselves unless the oracle has a bound of its own."""
        if self.guarantee in ("exact", "outer") and not self.loose:
            return self.losses(theta)
        if not self.bounded:
            raise CapabilityError(f"{type(self.space).__name__} has no bound for the {self.loss} loss")
        losses = np.empty(self.m)

        def one(start: int, stop: int) -> None:
            self.run(block_bounds, self._batch, start, stop, theta, self.buffers(), losses)

        self._threads.each(one, itertools.pairwise(self._borders.tolist()))
        return losses

    def _block(self, start: int, stop: int, theta: Floats, losses: Floats, gradient: Floats) -> None:
        self.run(block_losses, self._batch, start, stop, theta, self.buffers(), losses, gradient)

    def instance(self, i: int, theta: Floats) -> tuple[float, Floats]:
        """(L_i(θ), z̄ − z): value and gradient in part space of one instance."""
        buffers = self.buffers()
        losses = np.zeros(self.m)
        self.run(block_losses, self.data, i, i + 1, theta, buffers, losses, np.zeros(0))
        return float(losses[i]), buffers.parts[: self.space.n_parts(i)].copy()

    def scores(self, i: int, theta: Floats) -> Floats:
        """F_iᵀθ."""
        return self.features.scores(i, theta)

    def argmax(self, i: int, theta: Floats) -> Floats:
        """Parts of the output with the highest score of instance i."""
        return self.space.argmax(i, self.scores(i, theta))

    def kbest(self, i: int, theta: Floats, k: int) -> Floats:
        """Parts of the k outputs with the highest score of instance i."""
        return self.space.kbest(i, self.scores(i, theta), k)

    def digest(self) -> bytes:
        """Of gold outputs, costs and features; the last by the scores that some random weights give."""
        weights = () if self.weights is None else (self.weights,)
        found = hashlib.blake2b(pack_digest((self.data.gold, self.data.cost, *weights)))
        theta = np.random.default_rng(0).normal(size=self.dim)
        for i in range(self.m):
            found.update(self.scores(i, theta).tobytes())
        return found.digest()

    def on_threads(self, n_threads: int) -> Problem:
        """The same problem, evaluated by that many threads."""
        other = copy.copy(self)
        other.n_threads, other._sums = n_threads, None
        other._threads = Threads(n_threads if self.compiled else 1)
        return other

    def exchange(self, sums: Floats | None) -> Floats | None:
        """Take over another problem's scratch memory, or None, for what is kept here between calls.

        Many problems, worked through one after another, need only one.
        """
        fits = (
            sums is not None and sums.shape[1] == self.dim and len(sums) == min(self.n_threads, len(self._borders) - 1)
        )
        mine, self._sums = self._sums, sums if fits else None
        return mine

    def replace_arrays(
        self, own: Callable[[NDArray[Any]], NDArray[Any]], common: Callable[[NDArray[Any]], NDArray[Any]]
    ) -> None:
        """Put arrays elsewhere: each is replaced by what a function makes of it.

        ``own`` is for gold parts and costs, ``common`` for what all problems with the same weights have alike.
        """
        gold, cost = (_mapped(own, pack) for pack in (self.data.gold, self.data.cost))
        self._dead = common(self._dead)
        self.data = self.data._replace(gold=gold, cost=cost)
        self._batch = self._batch._replace(gold=gold, cost=cost)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sums": None}  # scratch memory does not travel

    def predict(self, theta: Floats) -> list[Any]:
        """The output with the highest score of every instance."""
        return [self.space.decode(i, self.argmax(i, theta)) for i in range(self.m)]


def _mapped(function: Callable[[NDArray[Any]], NDArray[Any]], pack: Any) -> Any:
    """A nested pack with other arrays."""
    if isinstance(pack, np.ndarray):
        return function(pack)
    return type(pack)(*(_mapped(function, item) for item in pack)) if isinstance(pack, tuple) else pack


def evaluate(
    loss: LossFunction, space: Structure, scores: Any, outputs: Any, cost: Cost | None, n_threads: int
) -> tuple[Floats, Floats]:
    """(L_i, z̄ − z side by side) on given scores; see :meth:`partwise.losses.LossFunction.evaluate`."""
    sizes, _ = space.instance_sizes()
    flat = packed_scores(sizes, scores)
    problem = Problem(space, GivenScores(sizes), outputs, loss, cost, n_threads=n_threads)
    return problem.losses_and_gradient(flat)
