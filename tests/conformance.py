"""One suite for every structure: each oracle that it declares, against enumeration.

A structure joins by registering a strategy that draws a :class:`Case`, a structure of a few small instances
with the enumeration of each, and inherits every check. A check takes (case, instance, scores, rng).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import oracles
import pytest
import scipy.optimize
import scipy.sparse
import segment_oracles
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import Enumeration

from partwise.exceptions import CapabilityError, InputError
from partwise.structures import base
from partwise.structures.arborescence import Arborescence
from partwise.structures.assignment import PAIRS, Assignment, RelaxedAssignment
from partwise.structures.base import ORACLES, Structure
from partwise.structures.chain import Chain
from partwise.structures.cut import Cut
from partwise.structures.matching import Matching
from partwise.structures.multiclass import Multiclass
from partwise.structures.registry import STRUCTURES
from partwise.structures.segments import Segments

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A structure and the enumeration of each of its instances."""

    structure: Structure
    instances: list[Enumeration]
    tame: Callable[[int, Floats], Floats] | None = None  # makes any scores such as the oracles accept
    relaxed: bool = False  # argmax ranges over all corners of the polytope, which the outputs are only some of

    def candidates(self, i: int) -> Enumeration:
        """The outputs of an instance, or all corners if argmax may answer with any of them."""
        return replace(self.instances[i], parts=self.instances[i].hull) if self.relaxed else self.instances[i]


Check = Callable[[Case, int, Floats, np.random.Generator], None]

#: The structures under test; add yours with a strategy that draws cases of it.
REGISTRY: dict[type[Structure], st.SearchStrategy[Case]] = {}


# --------------------------------------------------------------------------------------------------
# Cases


def _mask(rng: np.random.Generator, shape: tuple[int, ...], constrained: bool) -> NDArray[np.bool_]:
    return rng.random(shape) < 0.6 if constrained else np.ones(shape, bool)


@st.composite
def multiclass_cases(draw: st.DrawFn) -> Case:
    n, n_labels = draw(st.integers(1, 3)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    constrained = draw(st.booleans())
    allowed = _mask(rng, (n, n_labels), constrained)
    allowed[np.arange(n), rng.integers(n_labels, size=n)] = True
    structure = Multiclass(n, n_labels, allowed=allowed if constrained else None)
    return Case(structure, [oracles.enumerate_multiclass(n_labels, row) for row in allowed])


@st.composite
def chain_cases(draw: st.DrawFn) -> Case:
    """Orders 1 to 3, lengths from 1 (shorter than the order) up, tied or not, any mix of hard constraints."""
    n_labels, order, tied = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.booleans())
    lengths = draw(st.lists(st.integers(1, 5 if n_labels < 3 else 4), min_size=1, max_size=3))
    constrained = [draw(st.booleans()) for _ in range(4)]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    offsets = np.append(0, np.cumsum(lengths))
    shapes = [(int(offsets[-1]), n_labels), (n_labels, n_labels), (n_labels,), (n_labels,)]
    masks = [_mask(rng, shape, limit) for shape, limit in zip(shapes, constrained, strict=True)]
    allowed, transitions, start, stop = masks
    rows = [allowed[a:b] for a, b in pairwise(offsets)]
    for row in rows:  # one sequence of each instance stays possible
        y = rng.integers(n_labels, size=len(row))
        row[np.arange(len(y)), y] = True
        transitions[y[:-1], y[1:]] = True
        start[y[0]] = stop[y[-1]] = True
    names = ("allowed", "transitions", "start", "stop")
    given = {name: mask for name, mask, limit in zip(names, masks, constrained, strict=True) if limit}
    structure = Chain(lengths, n_labels, order=order, tied=tied, **given)
    return Case(
        structure,
        [oracles.enumerate_chain(n_labels, order, tied, row, transitions, start, stop) for row in rows],
    )


@st.composite
def interval_cases(draw: st.DrawFn) -> Case:
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    return Case(oracles.Interval(sizes), [oracles.enumerate_interval(n) for n in sizes])


def penalties(structure: Matching | Assignment) -> Callable[[int, Floats], Floats]:
    """Turns fertility scores into penalties that grow with the fertility."""

    def tame(i: int, scores: Floats) -> Floats:
        start, levels = structure.n_atoms(i), structure.max_fertility - 1
        stop = start + levels * sum(structure.size(i))
        if levels:
            scores[start:stop] = -np.sort(np.abs(scores[start:stop].reshape(-1, levels)), axis=1).ravel()
        return scores

    return tame


@st.composite
def link_sizes(draw: st.DrawFn, largest: int) -> list[tuple[int, int]]:
    """Sizes (J, K) of at most ``largest`` cells."""
    pairs = [(j, k) for j in range(1, 5) for k in range(1, 5) if j * k <= largest]
    return draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2))


@st.composite
def matching_cases(draw: st.DrawFn) -> Case:
    """All matchings up to 4 × 4; with fertility parts few cells, because their polytope has many corners."""
    fertility = draw(st.integers(1, 3))
    sizes = draw(link_sizes({1: 16, 2: 4, 3: 2}[fertility]))
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    masks = [_mask(rng, size, constrained) for size in sizes]
    structure = Matching(sizes, max_fertility=fertility, allowed=masks if constrained else None)
    return Case(structure, [oracles.enumerate_links(fertility, mask) for mask in masks], penalties(structure))


@st.composite
def cut_cases(draw: st.DrawFn) -> Case:
    """Graphs of 1 to 4 nodes with any edges, connected or not; some labels forbidden. Edges never reward difference."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=2))
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    edges, masks = [], []
    for n in sizes:
        pairs = np.array([(j, k) for j in range(n) for k in range(j)]).reshape(-1, 2)
        edges.append(rng.permutation(pairs)[: rng.integers(0, 5)])
        masks.append(_mask(rng, (n, 2), constrained))
        masks[-1][np.arange(n), rng.integers(2, size=n)] = True
    structure = Cut(sizes, edges, allowed=masks if constrained else None)

    def tame(i: int, scores: Floats) -> Floats:
        scores[2 * sizes[i] :] = -np.abs(scores[2 * sizes[i] :])
        return scores

    return Case(structure, [oracles.enumerate_cuts(*pair) for pair in zip(edges, masks, strict=True)], tame)


@st.composite
def assignment_cases(draw: st.DrawFn) -> Case:
    """Any mix of pairs; scores of any sign."""
    fertility = draw(st.integers(1, 3))
    sizes = draw(link_sizes({1: 12, 2: 9, 3: 6}[fertility]))
    kinds = draw(st.lists(st.sampled_from([*PAIRS][: 2 if fertility == 1 else 3]), unique=True))
    kinds.sort(key=[*PAIRS].index)
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    masks = [_mask(rng, size, constrained) for size in sizes]
    structure = Assignment(sizes, max_fertility=fertility, pairs=kinds, allowed=masks if constrained else None)
    return Case(structure, [oracles.enumerate_links(fertility, mask, kinds, hull=False) for mask in masks])


@st.composite
def relaxed_cases(draw: st.DrawFn) -> Case:
    """Polytopes in few dimensions, whose corners can be listed."""
    fertility = draw(st.integers(1, 2))
    shapes = [(2, 2), (1, 3), (2, 1)] if fertility == 1 else [(1, 2), (2, 1)]
    sizes = draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=2))
    kinds = tuple(PAIRS)[: 2 if fertility == 1 else 3]
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    masks = [_mask(rng, size, constrained) for size in sizes]
    structure = RelaxedAssignment(sizes, max_fertility=fertility, pairs=kinds, allowed=masks if constrained else None)
    instances = []
    for mask in masks:
        corners = oracles.relaxed_corners(*mask.shape, fertility, kinds)
        corners = corners[(corners[:, : mask.size][:, ~mask.ravel()] == 0).all(axis=1)]
        instances.append(replace(oracles.enumerate_links(fertility, mask, kinds, hull=False), corners=corners))
    return Case(structure, instances, penalties(structure), relaxed=True)


@st.composite
def segment_cases(draw: st.DrawFn) -> Case:
    """Limits per label, instances shorter than them, any mix of hard constraints."""
    limits = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    lengths = draw(st.lists(st.integers(1, 5 if len(limits) < 3 else 4), min_size=1, max_size=3))
    constrained = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    n = len(limits)
    names = [segment_oracles.segment_parts(length, limits) for length in lengths]
    allowed = [_mask(rng, (len(parts) - n * n,), constrained[0]) for parts in names]
    transitions = _mask(rng, (n, n), constrained[1])
    for parts, mask, length in zip(names, allowed, lengths, strict=True):  # single tokens of label 0 stay possible
        mask[[parts.index(("segment", t, t + 1, 0)) for t in range(length)]] = True
    transitions[0, 0] = True
    given = {"allowed": allowed if constrained[0] else None, "transitions": transitions if constrained[1] else None}
    structure = Segments(lengths, n, max_length=limits, **given)
    instances = [
        segment_oracles.enumerate_segments(length, limits, mask, transitions)
        for length, mask in zip(lengths, allowed, strict=True)
    ]
    return Case(structure, instances)


@st.composite
def arborescence_cases(draw: st.DrawFn) -> Case:
    """Up to 5 words without labels, 3 with; one root or several, projective or not, any mix of constraints."""
    n_labels = draw(st.sampled_from([None, None, 1, 2, 3]))
    longest = 5 if n_labels is None else {1: 4, 2: 3, 3: 3}[n_labels]
    lengths = draw(st.lists(st.integers(1, longest), min_size=1, max_size=2))
    single_root, projective = draw(st.booleans()), draw(st.booleans())
    barred, pinned = draw(st.booleans()), n_labels is not None and draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    masks = [_mask(rng, (n + 1, n), barred) for n in lengths]
    pins = [np.where(rng.random(n) < 0.5, rng.integers(n_labels or 1, size=n), -1) for n in lengths]
    for mask in masks:  # a tree of each instance stays possible: a chain from the root
        mask[np.arange(mask.shape[1]), np.arange(mask.shape[1])] = True
    given = {"allowed": masks if barred else None, "labels": pins if pinned else None}
    structure = Arborescence(lengths, n_labels, single_root=single_root, projective=projective, **given)
    free = [pin if pinned else np.full(len(pin), -1) for pin in pins]
    settings = (n_labels, single_root, projective)
    return Case(
        structure,
        [
            oracles.enumerate_trees(n, *settings, mask, pin.tolist())
            for n, mask, pin in zip(lengths, masks, free, strict=True)
        ],
    )


REGISTRY[Multiclass] = multiclass_cases()
REGISTRY[Chain] = chain_cases()
REGISTRY[Segments] = segment_cases()
REGISTRY[oracles.Interval] = interval_cases()
REGISTRY[Matching] = matching_cases()
REGISTRY[Arborescence] = arborescence_cases()
REGISTRY[Cut] = cut_cases()
REGISTRY[Assignment] = assignment_cases()
REGISTRY[RelaxedAssignment] = relaxed_cases()


# --------------------------------------------------------------------------------------------------
# Scores

SCORES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "ties": lambda rng, n: rng.integers(-1, 2, size=n).astype(float),
    "equal": lambda rng, n: np.zeros(n),
    "huge": lambda rng, n: rng.uniform(-1e4, 1e4, size=n),
    "huge ties": lambda rng, n: rng.choice([-1e4, 0.0, 1e4], size=n),
    "inverse temperature": lambda rng, n: 10.0 ** rng.uniform(-3, 6) * rng.normal(size=n),
    "minus infinity": lambda rng, n: np.where(rng.random(n) < 0.3, -np.inf, rng.normal(size=n)),
    "huge and minus infinity": lambda rng, n: np.where(rng.random(n) < 0.3, -np.inf, rng.uniform(-1e4, 1e4, size=n)),
}


def draw_scores(kind: str, case: Case, i: int, rng: np.random.Generator) -> Floats:
    """Part scores of that kind, of which some output has a finite sum."""
    instance = case.instances[i]
    scores = SCORES[kind](rng, instance.parts.shape[1])
    possible = instance.parts[rng.integers(len(instance.outputs))] != 0
    scores[possible & np.isneginf(scores)] = 0.5
    return scores if case.tame is None else case.tame(i, scores)


def _slack(instance: Enumeration, scores: Floats) -> float:
    """What rounding may do to a sum of scores."""
    finite = np.abs(scores[np.isfinite(scores)])
    return 1e-9 + 1e-14 * float(finite.max(initial=0.0)) * float(instance.parts.sum(axis=1).max())


def _rank_of(instance: Enumeration, parts: Floats) -> int:
    """Which of the enumerated outputs these parts are."""
    rounding = 1e-9 if instance.parts is instance.corners else 0.0  # corners are computed, outputs are not
    found = np.flatnonzero((np.abs(instance.parts - parts) <= rounding).all(axis=1))
    assert len(found) == 1, f"not an output of the space: {parts}"
    return int(found[0])


def _dirty(case: Case, i: int) -> tuple[Floats, Floats]:
    """Work and parts as a learner hands them over: full of what the last instance left, work too long."""
    size = base.work_size(case.structure.pack, i) + 3
    return np.full(size, np.nan), np.full(case.structure.n_parts(i), np.nan)


# --------------------------------------------------------------------------------------------------
# Checks of the oracles


def check_argmax(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    instance, slack = case.candidates(i), _slack(case.instances[i], scores)
    values, given = instance.values(scores), scores.copy()
    work, parts = _dirty(case, i)
    value = base.argmax(case.structure.pack, i, scores, work, parts)
    np.testing.assert_allclose(value, values.max(), rtol=0, atol=slack)
    np.testing.assert_allclose(values[_rank_of(instance, parts)], values.max(), rtol=0, atol=slack)
    np.testing.assert_array_equal(case.structure.argmax(i, scores), parts)
    np.testing.assert_array_equal(scores, given, "the scores were changed")


def check_bound(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """Nothing scores above it, and an exact argmax needs none beside its own value."""
    best = case.instances[i].values(scores).max()
    assert case.structure.bound(i, scores) >= best - _slack(case.instances[i], scores)
    found = case.structure.solve(i, scores)
    assert found.value <= best + _slack(case.instances[i], scores) and found.bound >= found.value
    if case.structure.guarantee("argmax") == "exact":
        np.testing.assert_allclose(found.value, best, rtol=0, atol=_slack(case.instances[i], scores))


def check_argmax_of_nothing(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """An error, unless some output has no parts at all."""
    nothing = np.full_like(scores, -np.inf)
    if case.instances[i].values(nothing).max() > -np.inf:
        check_argmax(case, i, nothing, rng)
        return
    with pytest.raises(InputError, match=f"no output of instance {i} has a finite score"):
        case.structure.argmax(i, nothing)


def check_marginals(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    instance, slack = case.instances[i], _slack(case.instances[i], scores)
    given = scores.copy()
    work, parts = _dirty(case, i)
    log_partition = base.marginals(case.structure.pack, i, scores, work, parts)
    np.testing.assert_allclose(log_partition, instance.log_partition(scores), rtol=0, atol=slack)
    np.testing.assert_allclose(parts, instance.marginals(scores), rtol=0, atol=slack)
    np.testing.assert_array_equal(case.structure.marginals(i, scores)[1], parts)
    np.testing.assert_array_equal(scores, given, "the scores were changed")


def check_marginals_of_nothing(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    work, parts = _dirty(case, i)
    assert base.marginals(case.structure.pack, i, np.full_like(scores, -np.inf), work, parts) == -np.inf
    assert not parts.any()


def check_entropy(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """H = log Z − s·E[z]: a marginal that is off by the slack weighs as much as its score."""
    instance, slack = case.instances[i], _slack(case.instances[i], scores)
    slack *= 1.0 + 0.1 * np.abs(scores[np.isfinite(scores)]).max()
    np.testing.assert_allclose(case.structure.entropy(i, scores), instance.entropy(scores), rtol=0, atol=slack)


def check_gradient(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """∇ log Z = E[z], by central differences of the structure's own log Z."""
    scores = np.where(np.isneginf(scores), scores, np.clip(scores, -5.0, 5.0))
    _, mean = case.structure.marginals(i, scores)
    step = 1e-5
    for r in np.flatnonzero(scores > -np.inf):
        above, below = scores.copy(), scores.copy()
        above[r] += step
        below[r] -= step
        slope = (case.structure.marginals(i, above)[0] - case.structure.marginals(i, below)[0]) / (2 * step)
        assert abs(slope - mean[r]) < 1e-7, f"part {r}: slope {slope}, marginal {mean[r]}"


def check_kbest(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """In order, distinct, none missing; also where k exceeds the number of outputs."""
    instance, slack = case.instances[i], _slack(case.instances[i], scores)
    n = len(instance.outputs)
    for k in {1, 2, int(rng.integers(1, n + 1)), n + 3}:
        expected = instance.best_values(scores, k)
        found = case.structure.kbest(i, scores, k)
        assert found.shape == (len(expected), case.structure.n_parts(i))
        ranks = [_rank_of(instance, row) for row in found]
        assert len(set(ranks)) == len(ranks), "an output twice"
        np.testing.assert_allclose(instance.values(scores)[ranks], expected, rtol=0, atol=slack)
        work, _ = _dirty(case, i)
        parts, values = np.full((k, case.structure.n_parts(i)), np.nan), np.full(k, np.nan)
        assert base.kbest(case.structure.pack, i, scores, work, parts, values) == len(expected)
        np.testing.assert_array_equal(parts[: len(expected)], found)
        np.testing.assert_allclose(values[: len(expected)], expected, rtol=0, atol=slack)
    nothing = np.full_like(scores, -np.inf)
    assert len(case.structure.kbest(i, nothing, 2)) == len(instance.best_values(nothing, 2))


def check_sample(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """Frequencies within a chi-square bound that a right sampler breaks less than once in 10^5 cases."""
    instance, size = case.instances[i], 2000
    rank = {row.tobytes(): j for j, row in enumerate(instance.parts)}
    draws = case.structure.sample(i, scores, size, rng)
    assert draws.shape == (size, case.structure.n_parts(i))
    counts = np.bincount([rank[row.tobytes()] for row in draws], minlength=len(rank))
    expected = size * instance.probabilities(scores)
    assert not counts[expected < 1e-6].any(), "an output without probability was drawn"
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum() + 1e-9)
    freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / np.maximum(expected, 1.0)).sum()
    assert statistic < freedom + 5 * np.sqrt(2 * freedom) + 15
    with pytest.raises(InputError, match=f"no output of instance {i} has a finite score"):
        case.structure.sample(i, np.full_like(scores, -np.inf), 2, rng)


def check_project(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """Against a QP over the hull of the outputs; and (point − z)·(v − z) ≤ 0 for every output v."""
    instance, slack = case.instances[i], _slack(case.instances[i], scores)
    z = case.structure.project(i, scores)
    near = np.where(np.isneginf(scores), scores, np.clip(scores, -5.0, 5.0))
    np.testing.assert_allclose(case.structure.project(i, near), instance.project(near), rtol=0, atol=1e-7)
    np.testing.assert_allclose(oracles.nearest_in_hull(instance.hull, z), z, rtol=0, atol=1e-9)
    hopeless = np.isneginf(scores)
    assert not z[hopeless].any()
    vertices = instance.hull[~instance.hull[:, hopeless].any(axis=1)]
    angles = (vertices - z) @ np.where(hopeless, 0.0, scores - z)
    assert angles.max() <= 10 * slack


def check_slack(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """max (p·z + q)(o + s·z) for integer costs of the atoms, the least cost of an output being 0 or more."""
    structure, instance = case.structure, case.instances[i]
    costs = np.zeros(structure.n_parts(i))
    n_atoms = structure.n_atoms(i)
    costs[:n_atoms] = rng.choice([1, 2, 6]) * rng.integers(-2, 3, size=n_atoms)
    prices = instance.parts @ costs
    constant = float(rng.integers(0, 3) - prices.min())
    offset = float(rng.normal() * (1.0 + 0.5 * np.abs(scores[np.isfinite(scores)]).max()))
    with np.errstate(invalid="ignore"):
        values = (prices + constant) * (offset + instance.values(scores))
    values[np.isneginf(instance.values(scores))] = -np.inf
    slack = (1.0 + (prices + constant).max()) * _slack(instance, scores)
    given, paid = scores.copy(), costs.copy()
    work, parts = _dirty(case, i)
    value = base.slack_argmax(structure.pack, i, scores, costs, constant, offset, work, parts)
    np.testing.assert_allclose(value, values.max(), rtol=0, atol=slack)
    np.testing.assert_allclose(values[_rank_of(instance, parts)], values.max(), rtol=0, atol=slack)
    np.testing.assert_array_equal(structure.slack(i, scores, costs, constant, offset), parts)
    np.testing.assert_array_equal(scores, given, "the scores were changed")
    np.testing.assert_array_equal(costs, paid, "the costs were changed")
    with pytest.raises(InputError, match=f"no output of instance {i} has a finite score"):
        structure.slack(i, np.full_like(scores, -np.inf), costs, constant, offset)


def check_marginal_entropy(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """H of the marginals of a Gibbs distribution is its entropy: there is no larger one; and its slope."""
    structure, instance = case.structure, case.instances[i]
    scores = np.where(np.isneginf(scores), scores, np.clip(scores, -5.0, 5.0))
    mean = instance.marginals(scores)
    if "marginal_entropy" not in structure.oracles:  # a tied chain, which is in check_missing_oracles
        return
    np.testing.assert_allclose(structure.marginal_entropy(i, mean)[0], instance.entropy(scores), rtol=0, atol=1e-9)
    other = instance.marginals(np.where(np.isneginf(scores), scores, rng.normal(size=len(scores))))
    point, direction, step = 0.5 * (mean + other), other - mean, 1e-5
    _, slope = structure.marginal_entropy(i, point, direction)
    above, below = (structure.marginal_entropy(i, point + sign * step * direction)[0] for sign in (1, -1))
    assert abs(slope - (above - below) / (2 * step)) < 1e-6
    corner = instance.parts[rng.integers(len(instance.outputs))]
    assert structure.marginal_entropy(i, corner)[0] == 0.0


def _mixture(instance: Enumeration, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The marginals of a mixture of up to three outputs, and which outputs lie within its support."""
    chosen = rng.choice(len(instance.outputs), size=min(3, len(instance.outputs)), replace=False)
    mass = rng.dirichlet(np.ones(len(chosen))) @ instance.parts[chosen]
    return mass, ~(instance.parts[:, mass <= base.LEAST_MASS] != 0).any(axis=1)


def check_support(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """The least score within the support; and mass moved off that output leaves a point of the polytope."""
    if "support" not in case.structure.oracles:
        return  # a tied chain
    instance = case.instances[i]
    finite = np.where(np.isneginf(scores), 0.0, scores)
    mass, inside = _mixture(instance, rng)
    values = instance.values(finite)
    work, parts = _dirty(case, i)
    value = base.support_argmin(case.structure.pack, i, finite, mass, work, parts)
    rank, slack = _rank_of(instance, parts), _slack(instance, finite)
    assert inside[rank]
    np.testing.assert_allclose([value, values[rank]], values[inside].min(), rtol=0, atol=slack)
    np.testing.assert_array_equal(case.structure.support(i, finite, mass), parts)
    goal = instance.parts[rng.integers(len(instance.outputs))]
    limit = min((mass[r] for r in np.flatnonzero(parts > goal)), default=0.0)
    moved = mass + limit * (goal - parts)
    np.testing.assert_allclose(oracles.nearest_in_hull(instance.parts, moved), moved, rtol=0, atol=1e-8)
    with pytest.raises(InputError, match=f"no output of instance {i} lies within the support"):
        case.structure.support(i, finite, np.zeros_like(mass))


def check_gibbs(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """Scores whose marginals are those given, with log Z = 0, also where parts have no mass."""
    if "gibbs" not in case.structure.oracles:
        return
    for mass in (_mixture(case.instances[i], rng)[0], case.instances[i].marginals(np.clip(scores, -5.0, 5.0))):
        found = case.structure.gibbs(i, mass)
        np.testing.assert_allclose(case.instances[i].marginals(found), mass, rtol=0, atol=1e-9)
        np.testing.assert_allclose(case.instances[i].log_partition(found), 0.0, rtol=0, atol=1e-9)


def check_polytope(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """Every output lies in it, and a linear program over it finds the best output: nothing else does."""
    instance, polytope = case.instances[i], case.structure.polytope(i)
    n = instance.parts.shape[1]
    lift = scipy.sparse.eye_array(n) if polytope.lift is None else polytope.lift
    hopeless = np.isneginf(scores)
    size = max(np.abs(scores[~hopeless]).max(initial=0.0), 1e-300)
    bounds = [(0, 0 if out else None) for out in lift.T @ hopeless.astype(float) > 0]
    gains = lift.T @ np.where(hopeless, 0.0, scores / size)
    limits = (polytope.below, polytope.limit, polytope.equal, polytope.equal_to)
    best = scipy.optimize.linprog(-gains, *limits, bounds=bounds)
    np.testing.assert_allclose(-best.fun, instance.values(scores).max() / size, rtol=0, atol=1e-6)
    z = instance.parts[rng.integers(len(instance.parts))]
    lifted = (scipy.sparse.vstack([polytope.equal, lift]), np.append(polytope.equal_to, z))
    assert scipy.optimize.linprog(np.zeros(lift.shape[1]), *limits[:2], *lifted).status == 0, "an output is missing"


# --------------------------------------------------------------------------------------------------
# Checks of every structure, whatever it declares


def check_round_trip(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    structure, instance = case.structure, case.instances[i]
    assert len(structure) == len(case.instances)
    assert structure.n_parts(i) == instance.parts.shape[1] >= structure.n_atoms(i)
    for y, parts in zip(instance.outputs, instance.parts, strict=True):
        np.testing.assert_array_equal(structure.encode(i, y), parts)
        np.testing.assert_array_equal(structure.decode(i, parts), y)
        assert structure.allows(i, parts)


def check_constraints(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    assert case.structure.constrained or not case.instances[i].forbidden
    for y in case.instances[i].forbidden:
        parts = case.structure.encode(i, y)
        assert not case.structure.allows(i, parts)
        assert "forbidden by the constraints" in case.structure.forbidden_part(i, parts)


def check_encode_all(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    ys = [instance.outputs[rng.integers(len(instance.outputs))] for instance in case.instances]
    offsets, numbers, values = case.structure.encode_all(ys)
    assert (offsets.dtype, numbers.dtype, values.dtype) == (np.int64, np.int32, np.float64)
    for j, y in enumerate(ys):
        span = slice(offsets[j], offsets[j + 1])
        parts = np.zeros(case.structure.n_parts(j))
        np.add.at(parts, numbers[span], values[span])
        np.testing.assert_array_equal(parts, case.structure.encode(j, y))


def check_missing_oracles(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """What is not declared fails by name, and nothing stands in for it."""
    arguments = {"kbest": (1,), "sample": (1, rng), "slack": (scores,), "support": (scores,)}
    for oracle in ORACLES.keys() - case.structure.oracles - {"bound"}:  # every exact argmax has one
        given = () if oracle == "polytope" else (scores, *arguments.get(oracle, ()))
        with pytest.raises(CapabilityError, match=f"{type(case.structure).__name__} has no {oracle}"):
            getattr(case.structure, oracle)(i, *given)


CHECKS: dict[str, list[Check]] = {
    "argmax": [check_argmax, check_argmax_of_nothing, check_bound],
    "bound": [],
    "marginals": [check_marginals, check_marginals_of_nothing, check_entropy, check_gradient],
    "kbest": [check_kbest],
    "sample": [check_sample],
    "project": [check_project],
    "marginal_entropy": [check_marginal_entropy],
    "slack": [check_slack],
    "support": [check_support],
    "gibbs": [check_gibbs],
    "polytope": [check_polytope],
    "": [check_round_trip, check_constraints, check_encode_all, check_missing_oracles],
}


def checks_of(kind: type[Structure]) -> list[Check]:
    """The checks of every oracle that some space of this kind has, then those of all structures."""
    examples = [oracles.Interval([3]), *(make() for make in STRUCTURES.values())]
    able = frozenset().union(*(space.oracles for space in examples if type(space) is kind))
    return [check for oracle in [*ORACLES, ""] if oracle in able or not oracle for check in CHECKS[oracle]]
