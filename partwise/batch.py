"""Batch: every oracle for all instances at once, from weights or from packed scores, in threads.

Prediction of every estimator runs on it. Without a feature map θ is the packed scores themselves, one instance after
another: for scores computed elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import kernel, native
from partwise._random import named_stream
from partwise._threads import Threads
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features.base import Features, feature_scores
from partwise.features.given import GivenScores, packed_scores
from partwise.structures.base import Floats, Structure, argmax, kbest, marginals, part_count, sample

__all__ = ["Batch", "Best", "Marginals", "Ranked"]


class Best(NamedTuple):
    """The output with the highest score of every instance."""

    values: Floats  # (n,)
    parts: Floats  # (total,), one instance after another


class Marginals(NamedTuple):
    """Part marginals of every instance."""

    log_partitions: Floats  # (n,)
    parts: Floats  # (total,)


class Ranked(NamedTuple):
    """The outputs with the highest score of every instance; instance i has counts[i] ≤ k of them."""

    counts: NDArray[np.int64]  # (n,)
    values: Floats  # (n, k), −inf where there is no such output
    parts: Floats  # (k, total)


class _Places(NamedTuple):
    """What the kernels below share: where the parts of an instance lie, and scratch memory of one thread."""

    offsets: NDArray[np.int64]
    scores: Floats
    work: Floats


@kernel
def block_argmax(space, features, theta, start, stop, places, values, parts):
    for i in range(start, stop):
        n = part_count(space, i)
        feature_scores(features, i, theta, places.scores, 0)
        own = parts[places.offsets[i] : places.offsets[i + 1]]
        values[i] = argmax(space, i, places.scores[:n], places.work, own)


@kernel
def block_marginals(space, features, theta, start, stop, places, beta, values, parts):
    for i in range(start, stop):
        n = part_count(space, i)
        feature_scores(features, i, theta, places.scores, 0)
        if beta != 1.0:
            for r in range(n):
                places.scores[r] *= beta
        own = parts[places.offsets[i] : places.offsets[i + 1]]
        values[i] = marginals(space, i, places.scores[:n], places.work, own)


@kernel
def block_kbest(space, features, theta, start, stop, places, counts, values, parts):
    for i in range(start, stop):
        n = part_count(space, i)
        feature_scores(features, i, theta, places.scores, 0)
        own = parts[:, places.offsets[i] : places.offsets[i + 1]]
        counts[i] = kbest(space, i, places.scores[:n], places.work, own, values[i])


@kernel
def block_sample(space, features, theta, start, stop, places, seeds, values, parts):
    for i in range(start, stop):
        n = part_count(space, i)
        feature_scores(features, i, theta, places.scores, 0)
        own = parts[:, places.offsets[i] : places.offsets[i + 1]]
        values[i] = sample(space, i, places.scores[:n], places.work, seeds[i], own)


@kernel
def block_scores(space, features, theta, start, stop, places, values, parts):
    for i in range(start, stop):
        feature_scores(features, i, theta, parts, places.offsets[i])


class Batch:
    """argmax, marginals, k-best and samples of all instances of a space.

    Parameters
    ----------
    space : Structure
    features : Features, optional
        Gives the scores F_iᵀθ. Without it, θ is the packed scores, or a list of one array per instance.
    n_threads : int
        Results do not depend on it. A structure in plain Python runs in one thread unless it is ``concurrent``.

    Notes
    -----
    Memory is one float64 per part of all instances, times k or the number of draws: give large data in blocks.

    Examples
    --------
    >>> from partwise import Chain
    >>> batch = Batch(Chain([2, 1], n_labels=2))
    >>> scores = [np.array([0.0, 1.0, 0.5, 0.0, 0.0, 0.0, -3.0, 0.0]), np.array([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])]
    >>> [y.tolist() for y in batch.outputs(scores)]
    [[1, 1], [0]]
    >>> batch.marginals(scores).log_partitions.round(3).tolist()
    [1.721, 0.798]
    """

    def __init__(self, space: Structure, features: Features | None = None, *, n_threads: int = 1) -> None:
        if n_threads < 1:
            raise ParameterError("n_threads", "Batch", "at least 1", n_threads)
        parts, work = space.instance_sizes()
        self.space, self._sizes = space, parts
        self.features = GivenScores(parts) if features is None else features
        scored = self.features.instance_sizes(len(space))
        if len(scored) != len(space) or (scored != parts).any():
            raise InputError("the features do not score the parts of this structure")
        #: Where the parts of instance i begin: (n + 1,)
        self.offsets: NDArray[np.int64] = np.concatenate([[0], np.cumsum(parts)]).astype(np.int64)
        self._scratch = (int(parts.max(initial=0)), int(work.max(initial=0)))
        self._packs = (space.pack, self.features.pack)
        self._compiled = native(self._packs)
        self._threads = Threads(n_threads if self._compiled or space.concurrent else 1)

    def _run(self, function: Any, theta: Any, *outs: Any) -> None:
        """function over blocks of instances of about equally many parts."""
        if isinstance(self.features, GivenScores):
            theta = packed_scores(self._sizes, theta)
        n = len(self.space)
        blocks = 1 if self._threads.count == 1 else 4 * self._threads.count
        ends = np.searchsorted(self.offsets[1:], self.offsets[-1] * np.arange(1, blocks) / blocks)
        borders = np.unique(np.concatenate([[0], ends, [n]])).tolist()
        run = function if self._compiled else getattr(function, "py_func", function)

        def one(start: int, stop: int) -> None:
            places = _Places(self.offsets, np.empty(self._scratch[0]), np.empty(self._scratch[1]))
            run(*self._packs, theta, start, stop, places, *outs)

        self._threads.each(one, itertools.pairwise(borders))

    def _need(self, oracle: str) -> None:
        if oracle not in self.space.oracles:
            raise CapabilityError(f"{type(self.space).__name__} has no {oracle}")

    def _check(self, values: Floats) -> None:
        if (values == -np.inf).any():
            raise InputError(f"no output of instance {int(np.argmin(values))} has a finite score")

    def argmax(self, theta: Floats | Sequence[Floats]) -> Best:
        """The output with the highest score of every instance."""
        self._need("argmax")
        best = Best(np.empty(len(self.space)), np.zeros(self.offsets[-1]))
        self._run(block_argmax, theta, *best)
        self._check(best.values)
        return best

    def outputs(self, theta: Floats | Sequence[Floats]) -> list[Any]:
        """The output with the highest score of every instance, decoded."""
        parts = self.argmax(theta).parts
        return [self.space.decode(i, self.of(i, parts)) for i in range(len(self.space))]

    def of(self, i: int, parts: Floats) -> Floats:
        """The parts of instance i among those of all, the last axis of ``parts``."""
        return parts[..., self.offsets[i] : self.offsets[i + 1]]

    def marginals(self, theta: Floats | Sequence[Floats], beta: float = 1.0) -> Marginals:
        """log Z and E[z] of every instance at inverse temperature β."""
        self._need("marginals")
        found = Marginals(np.empty(len(self.space)), np.zeros(self.offsets[-1]))
        self._run(block_marginals, theta, float(beta), *found)
        self._check(found.log_partitions)
        return found

    def kbest(self, theta: Floats | Sequence[Floats], k: int) -> Ranked:
        """The k outputs with the highest score of every instance, best first."""
        self._need("kbest")
        if k < 1:
            raise ParameterError("k", "Batch.kbest", "at least 1", k)
        n = len(self.space)
        found = Ranked(np.zeros(n, np.int64), np.full((n, k), -np.inf), np.zeros((k, self.offsets[-1])))
        self._run(block_kbest, theta, *found)
        return found

    def sample(self, theta: Floats | Sequence[Floats], size: int, random_state: int = 0) -> Floats:
        """``size`` draws from the Gibbs distribution of every instance, shape (size, total parts)."""
        self._need("sample")
        n = len(self.space)
        seeds = np.array([named_stream(random_state, i, 0) for i in range(n)], np.uint64)
        values, parts = np.empty(n), np.zeros((size, self.offsets[-1]))
        self._run(block_sample, theta, seeds, values, parts)
        self._check(values)
        return parts

    def scores(self, theta: Floats | Sequence[Floats]) -> Floats:
        """F_iᵀθ of every instance side by side, shape (total parts,)."""
        parts = np.empty(self.offsets[-1])
        self._run(block_scores, theta, np.zeros(0), parts)
        return parts
