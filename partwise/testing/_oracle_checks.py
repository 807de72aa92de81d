"""argmax, marginals, k-best lists and samples against enumeration, each as good as its guarantee says."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.structures import base
from partwise.testing._helpers import dirty, raises, rank_of, rounding
from partwise.testing.cases import Case

Floats = NDArray[np.float64]


def check_argmax(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """exact: a best output. inner: an output. outer: no output is better. Always: the value is scores·parts."""
    instance, slack = case.candidates(i), rounding(case.instances[i], scores)
    values, given = instance.values(scores), scores.copy()
    work, parts = dirty(case, i)
    value = base.argmax(case.structure.pack, i, scores, work, parts)
    guarantee = "exact" if case.relaxed else case.structure.guarantee("argmax")
    np.testing.assert_allclose(value, base.score_of(scores, parts), rtol=0, atol=slack)
    if guarantee == "exact":
        np.testing.assert_allclose(value, values.max(), rtol=0, atol=slack)
    if guarantee in ("exact", "inner"):
        np.testing.assert_allclose(value, values[rank_of(instance, parts)], rtol=0, atol=slack)
    if guarantee == "outer":
        assert value >= values.max() - slack, "an outer argmax is below the best output"
    np.testing.assert_array_equal(case.structure.argmax(i, scores), parts)
    np.testing.assert_array_equal(scores, given, "the scores were changed")


def check_bound(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """No output scores above it; ``solve`` returns an output and a bound that hold."""
    structure, best, slack = case.structure, case.instances[i].values(scores).max(), rounding(case.instances[i], scores)
    if structure.guarantee("argmax") in ("exact", "outer") or "bound" in structure.oracles:
        assert structure.bound(i, scores) >= best - slack
    found = structure.solve(i, scores)
    assert found.value <= best + slack and found.bound >= max(found.value, best) - slack
    if structure.guarantee("argmax") == "exact":
        np.testing.assert_allclose(found.value, best, rtol=0, atol=slack)


def check_argmax_of_nothing(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """An error, unless some output has no parts at all."""
    nothing = np.full_like(scores, -np.inf)
    if case.instances[i].values(nothing).max() > -np.inf:
        check_argmax(case, i, nothing, rng)
        return
    with raises(InputError, f"no output of instance {i} has a finite score"):
        case.structure.argmax(i, nothing)


def check_marginals(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """exact: log Z and marginals. outer: never below log Z. inner: never above. Always: finite."""
    instance, slack = case.instances[i], rounding(case.instances[i], scores)
    given, truth, guarantee = scores.copy(), instance.log_partition(scores), case.structure.guarantee("marginals")
    work, parts = dirty(case, i)
    log_partition = base.marginals(case.structure.pack, i, scores, work, parts)
    assert np.isfinite(log_partition) and np.isfinite(parts).all()
    if guarantee == "exact":
        np.testing.assert_allclose(log_partition, truth, rtol=0, atol=slack)
        np.testing.assert_allclose(parts, instance.marginals(scores), rtol=0, atol=slack)
    assert guarantee != "outer" or log_partition >= truth - slack, "an upper bound is below log Z"
    assert guarantee != "inner" or log_partition <= truth + slack, "a lower bound is above log Z"
    np.testing.assert_array_equal(case.structure.marginals(i, scores)[1], parts)
    np.testing.assert_array_equal(scores, given, "the scores were changed")


def check_marginals_of_nothing(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    work, parts = dirty(case, i)
    assert base.marginals(case.structure.pack, i, np.full_like(scores, -np.inf), work, parts) == -np.inf
    assert not parts.any()


def check_entropy(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """H = log Z − s·E[z]: a marginal that is off by the slack weighs as much as its score."""
    if case.structure.guarantee("marginals") != "exact":
        return
    instance, slack = case.instances[i], rounding(case.instances[i], scores)
    slack *= 1.0 + 0.1 * np.abs(scores[np.isfinite(scores)]).max()
    np.testing.assert_allclose(case.structure.entropy(i, scores), instance.entropy(scores), rtol=0, atol=slack)


def check_gradient(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """∇ log Z = E[z], by central differences of the structure's own log Z."""
    if case.structure.guarantee("marginals") not in ("exact", "outer"):
        return
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
    instance, slack = case.instances[i], rounding(case.instances[i], scores)
    n = len(instance.outputs)
    for k in {1, 2, int(rng.integers(1, n + 1)), n + 3}:
        expected = instance.best_values(scores, k)
        found = case.structure.kbest(i, scores, k)
        assert found.shape == (len(expected), case.structure.n_parts(i))
        ranks = [rank_of(instance, row) for row in found]
        assert len(set(ranks)) == len(ranks), "an output twice"
        np.testing.assert_allclose(instance.values(scores)[ranks], expected, rtol=0, atol=slack)
        work, _ = dirty(case, i)
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
    with raises(InputError, f"no output of instance {i} has a finite score"):
        case.structure.sample(i, np.full_like(scores, -np.inf), 2, rng)
