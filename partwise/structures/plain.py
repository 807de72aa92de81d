"""Structures in plain Python: the generic functions call their methods, and check what comes back."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.exceptions import InputError
from partwise.structures.base import (
    Floats,
    Structure,
    argmax,
    bound,
    gibbs_scores,
    kbest,
    marginal_entropy,
    marginals,
    part_count,
    project,
    sample,
    score_of,
    slack_argmax,
    support_argmin,
    work_size,
)

__all__: list[str] = []


def _checked(space: Structure, i: int, oracle: str, result: Any, shape: tuple[int, ...]) -> Floats:
    array = np.asarray(result, float)
    if array.shape != shape:
        raise InputError(
            f"{type(space).__name__}.{oracle} returned shape {array.shape} for instance {i}; expected {shape}"
        )
    if not np.isfinite(array).all():
        raise InputError(f"{type(space).__name__}.{oracle} returned NaN or infinity for instance {i}")
    return array


def _output(space: Structure, i: int, oracle: str, result: Any) -> Floats:
    """The parts of one output, as a maximising oracle returned them: of the right shape and inside the space."""
    best = _checked(space, i, oracle, result, (space.n_parts(i),))
    if not space.allows(i, best):
        raise InputError(
            f"{type(space).__name__}.{oracle} left the output space of instance {i}: " + space.forbidden_part(i, best)
        )
    return best


@part_count.register(Structure)
def _(space: Structure, i: int) -> int:
    return space.n_parts(i)


@work_size.register(Structure)
def _(space: Structure, i: int) -> int:
    return 0


@argmax.register(Structure)
def _(space: Structure, i: int, scores: Floats, work: Floats, parts: Floats) -> float:
    n = space.n_parts(i)
    best = _output(space, i, "argmax", space.argmax(i, scores[:n]))
    parts[:n] = best
    return score_of(scores[:n], best)


@bound.register(Structure)
def _(space: Structure, i: int, scores: Floats, value: float, work: Floats) -> float:
    return max(float(space.bound(i, scores[: space.n_parts(i)])), value)


@sample.register(Structure)
def _(space: Structure, i: int, scores: Floats, work: Floats, seed: Any, parts: Floats) -> float:
    n = space.n_parts(i)
    draws = space.sample(i, scores[:n], len(parts), np.random.default_rng(int(seed)))
    parts[:, :n] = _checked(space, i, "sample", draws, (len(parts), n))
    return 0.0


@marginals.register(Structure)
def _(space: Structure, i: int, scores: Floats, work: Floats, parts: Floats) -> float:
    n = space.n_parts(i)
    log_partition, mean = space.marginals(i, scores[:n])
    parts[:n] = _checked(space, i, "marginals", mean, (n,))
    return float(log_partition)


@kbest.register(Structure)
def _(space: Structure, i: int, scores: Floats, work: Floats, parts: Floats, values: Floats) -> int:
    n = space.n_parts(i)
    found = np.asarray(space.kbest(i, scores[:n], len(values)), float)
    found = _checked(space, i, "kbest", found, (len(found), n))
    parts[: len(found), :n] = found
    for rank, row in enumerate(found):
        values[rank] = score_of(scores[:n], row)
    return len(found)


@project.register(Structure)
def _(space: Structure, i: int, point: Floats, work: Floats, parts: Floats) -> float:
    n = space.n_parts(i)
    parts[:n] = _checked(space, i, "project", space.project(i, point[:n]), (n,))
    return 0.0


@slack_argmax.register(Structure)
def _(
    space: Structure,
    i: int,
    scores: Floats,
    costs: Floats,
    constant: float,
    offset: float,
    work: Floats,
    parts: Floats,
) -> float:
    n = space.n_parts(i)
    best = _output(space, i, "slack", space.slack(i, scores[:n], costs[:n], constant, offset))
    parts[:n] = best
    price = score_of(costs[:n], best) + constant
    return price * (offset + score_of(scores[:n], best)) if price != 0.0 else 0.0


@marginal_entropy.register(Structure)
def _(space: Structure, i: int, parts: Floats, direction: Floats) -> tuple[float, float]:
    n = space.n_parts(i)
    return space.marginal_entropy(i, parts[:n], direction[:n])


@support_argmin.register(Structure)
def _(space: Structure, i: int, scores: Floats, mass: Floats, work: Floats, parts: Floats) -> float:
    n = space.n_parts(i)
    parts[:n] = _checked(space, i, "support", space.support(i, scores[:n], mass[:n]), (n,))
    return score_of(scores[:n], parts[:n])


@gibbs_scores.register(Structure)
def _(space: Structure, i: int, mass: Floats, scores: Floats) -> None:
    n = space.n_parts(i)
    found = np.asarray(space.gibbs(i, mass[:n]), float)
    if found.shape != (n,) or np.isnan(found).any() or np.isposinf(found).any():
        raise InputError(f"{type(space).__name__}.gibbs of instance {i}: expected {n} numbers, finite or −inf")
    scores[:n] = found
