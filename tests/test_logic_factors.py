"""Logical factors: messages, argmax and projections against enumeration and a quadratic program."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from graph_oracles import CONDITIONS
from numpy.typing import NDArray

from partwise.structures.graphs import lanes, logic
from partwise.structures.graphs.logic_project import logic_project
from partwise.structures.graphs.quadratic import active_set_table, pair_closed_form
from partwise.testing import nearest_in_hull

KINDS = {
    "exactly_one": logic.XOR, "at_most_one": logic.AT_MOST_ONE, "some": logic.OR, "or_output": logic.OR_OUTPUT,
    "budget": logic.BUDGET, "all_equal": logic.EQUAL,
}  # fmt: skip


def allowed(name: str, n: int, limit: int) -> NDArray[np.float64]:
    return np.array([y for y in product((0, 1), repeat=n) if CONDITIONS[name](y, limit)], float)


def draw(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.choice([0.3, 1.0, 20.0, 300.0]) * rng.normal(size=n)


def log_sum(values: NDArray[np.float64]) -> float:
    return float(np.logaddexp.reduce(values)) if len(values) else -np.inf


@pytest.mark.parametrize("name", KINDS)
def test_logical_factor(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        n = int(rng.integers(2, 7))
        limit = int(rng.integers(1, n + 1))
        rows = allowed(name, n, limit)
        a, out, z = draw(rng, n), np.empty(n), np.empty(n)
        values = rows @ a
        slack = 1e-9 * (1 + np.abs(a).sum())
        for function, reduce in ((logic.logic_sum, log_sum), (logic.logic_max, lambda v: v.max(initial=-np.inf))):
            total = function(KINDS[name], limit, n, a, out)
            assert abs(total - reduce(values)) < slack
            for j in range(n):
                on, off = (reduce(values[rows[:, j] == b] - b * a[j]) for b in (1, 0))
                assert abs(out[j] - (on - off)) < slack, (name, j, a)
        best = logic.logic_best(KINDS[name], limit, n, a, z)
        assert abs(best - values.max()) < slack and (rows == z).all(axis=1).any() and abs(z @ a - best) < slack
        point = rng.choice([0.5, 1.0, 3.0]) * rng.normal(size=n) + 0.5
        logic_project(KINDS[name], limit, n, point, z)
        np.testing.assert_allclose(z, nearest_in_hull(rows, point), rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", KINDS)
def test_factors_side_by_side(name: str) -> None:
    """Eight factors in the lanes of vector instructions have the nearest points that they have one by one."""
    rng = np.random.default_rng(3)
    for trial in range(60):
        n = int(rng.integers(2, 12))
        points = rng.choice([0.3, 1.0, 5.0, 1e4, 1e18]) * rng.normal(size=(n, lanes.LANES)) + 0.5
        if trial % 4 == 0:
            points = np.round(points)  # ties
        limits = rng.integers(1, n + 1, lanes.LANES).astype(float)[None]
        found, expected = points.copy(), np.empty(n)
        lanes.nearest_lanes(KINDS[name], limits, 0, n, found)
        for k in range(lanes.LANES):
            logic_project(KINDS[name], int(limits[0, k]), n, points[:, k].copy(), expected)
            np.testing.assert_allclose(found[:, k], expected, rtol=0, atol=1e-12 * max(1.0, np.abs(points).max()))


def test_projections_of_long_factors_against_clarabel() -> None:
    """z minimises ½‖z − a‖² over the linear description of the hull, 60 literals."""
    clarabel = pytest.importorskip("clarabel")
    import scipy.sparse as sp

    rng, n = np.random.default_rng(1), 60
    one, eye = np.ones((1, n)), np.eye(n)
    box, caps = np.vstack([-eye, eye]), np.concatenate([np.zeros(n), np.ones(n)])
    outputs = np.hstack([np.eye(n - 1), -np.ones((n - 1, 1))])  # z_j − y ≤ 0
    total = np.append(-np.ones(n - 1), 1.0)[None]  # y − Σz ≤ 0
    rows = {
        "exactly_one": (one, [1.0], 1), "at_most_one": (one, [1.0], 0), "some": (-one, [-1.0], 0),
        "budget": (one, [7.0], 0), "or_output": (np.vstack([outputs, total]), np.zeros(n), 0),
    }  # fmt: skip
    for name, (matrix, limit, equal) in rows.items():
        for _ in range(4):
            a, z = rng.normal(size=n) * 0.7, np.empty(n)
            logic_project(KINDS[name], 7, n, a, z)
            settings = clarabel.DefaultSettings()
            settings.verbose = False
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
            cones = [clarabel.ZeroConeT(len(limit)) if equal else clarabel.NonnegativeConeT(len(limit)),
                     clarabel.NonnegativeConeT(2 * n)]  # fmt: skip
            system = sp.csc_matrix(np.vstack([matrix, box]))
            found = clarabel.DefaultSolver(
                sp.csc_matrix(eye), -a, system, np.concatenate([limit, caps]), cones, settings
            ).solve()
            np.testing.assert_allclose(z, np.array(found.x), rtol=0, atol=1e-5)


def test_quadratic_subproblems_of_tables() -> None:
    """scores·q − ½‖Mq − a‖² over configurations, against the nearest point of the lifted hull and the closed form."""
    rng = np.random.default_rng(2)
    for trial in range(120):
        sizes = np.array(rng.choice([1, 2, 3, 4], size=rng.integers(1, 4)) if trial % 3 else [2, 2])
        n, size = len(sizes), int(np.prod(sizes))
        strides = np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)
        table, point = rng.normal(size=size), np.zeros((n, int(max(sizes.max(), 2))))
        digits = np.stack(np.unravel_index(np.arange(size), sizes), 1)
        columns = []
        for j, states in enumerate(sizes):
            bits = [1] if states == 2 else range(states if states > 2 else 0)
            for x in bits:
                point[j, x] = rng.normal()
                columns.append((j, x))
        active = np.array([int(s > 1) for s in sizes])
        bits = np.array([[float(d[j] == x) for j, x in columns] for d in digits]).reshape(size, -1)
        capacity = bits.shape[1] + 2
        configs, weights = np.zeros(capacity, np.int64), np.zeros(capacity)
        scratch = np.empty((capacity, capacity)), np.empty((capacity, capacity)), np.empty((4, capacity))
        count = 0
        for _ in range(2):  # from nothing, then from the last answer for another point
            point[point != 0] += 0.1 * rng.normal(size=(point != 0).sum())
            count = active_set_table(
                table, size, sizes, strides, active, n, point, np.empty_like(point), np.empty(size), configs, weights,
                count, *scratch,
            )  # fmt: skip
        a = np.array([point[j, x] for j, x in columns])
        z = weights[:count] @ bits[configs[:count]]
        np.testing.assert_allclose(weights[:count].sum(), 1.0)
        assert weights[:count].min() > -1e-9
        level = table + bits @ (a - z)  # optimal: no configuration gains more than those in use
        assert level.max() <= level[configs[:count][weights[:count] > 1e-7]].min() + 1e-6
        if list(sizes) == [2, 2]:
            u, v, _ = pair_closed_form(
                a[0] + table[2] - table[0], a[1] + table[1] - table[0], table[3] + table[0] - table[1] - table[2]
            )
            np.testing.assert_allclose([u, v], z, rtol=0, atol=1e-7)
