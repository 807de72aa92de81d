"""Projection, slack, entropies and the polytope itself against enumeration."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.structures import base
from partwise.testing._helpers import dirty, raises, rank_of, rounding
from partwise.testing.cases import Case
from partwise.testing.enumeration import Enumeration, nearest_in_hull

Floats = NDArray[np.float64]


def check_project(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """Against a QP over the hull of the outputs; and (point − z)·(v − z) ≤ 0 for every output v."""
    instance, slack = case.instances[i], rounding(case.instances[i], scores)
    z = case.structure.project(i, scores)
    near = np.where(np.isneginf(scores), scores, np.clip(scores, -5.0, 5.0))
    np.testing.assert_allclose(case.structure.project(i, near), instance.project(near), rtol=0, atol=1e-7)
    np.testing.assert_allclose(nearest_in_hull(instance.hull, z), z, rtol=0, atol=1e-9)
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
    slack = (1.0 + (prices + constant).max()) * rounding(instance, scores)
    given, paid = scores.copy(), costs.copy()
    work, parts = dirty(case, i)
    value = base.slack_argmax(structure.pack, i, scores, costs, constant, offset, work, parts)
    np.testing.assert_allclose(value, values.max(), rtol=0, atol=slack)
    np.testing.assert_allclose(values[rank_of(instance, parts)], values.max(), rtol=0, atol=slack)
    np.testing.assert_array_equal(structure.slack(i, scores, costs, constant, offset), parts)
    np.testing.assert_array_equal(scores, given, "the scores were changed")
    np.testing.assert_array_equal(costs, paid, "the costs were changed")
    with raises(InputError, f"no output of instance {i} has a finite score"):
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
    work, parts = dirty(case, i)
    value = base.support_argmin(case.structure.pack, i, finite, mass, work, parts)
    rank, slack = rank_of(instance, parts), rounding(instance, finite)
    assert inside[rank]
    np.testing.assert_allclose([value, values[rank]], values[inside].min(), rtol=0, atol=slack)
    np.testing.assert_array_equal(case.structure.support(i, finite, mass), parts)
    goal = instance.parts[rng.integers(len(instance.outputs))]
    limit = min((mass[r] for r in np.flatnonzero(parts > goal)), default=0.0)
    moved = mass + limit * (goal - parts)
    np.testing.assert_allclose(nearest_in_hull(instance.parts, moved), moved, rtol=0, atol=1e-8)
    with raises(InputError, f"no output of instance {i} lies within the support"):
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
