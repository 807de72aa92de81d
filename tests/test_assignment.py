"""Quadratic assignments: programs against each other, the relaxed projection against a QP, certificates, messages."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import oracles
import pytest
import scipy.optimize
from numpy.typing import NDArray
from problems import solve_qp
from test_matching import HARD, POINTS

from partwise.exceptions import CapabilityError, InputError, ParameterError, SolverError
from partwise.features import MatrixFeatures
from partwise.learners import Perceptron
from partwise.problem import Problem
from partwise.structures import Assignment, Matching, RelaxedAssignment, base
from partwise.structures.assignment import PAIRS

Floats = NDArray[np.float64]


def alignment_scores(space: Assignment, i: int, rng: np.random.Generator) -> Floats:
    """Scores like those of an aligner: most links bad, a noisy diagonal good, penalties, bonuses for pairs."""
    (n_rows, n_cols), n = space.size(i), space.n_atoms(i)
    scores = np.abs(rng.normal(size=space.n_parts(i)))
    links = -3.0 + 1.5 * rng.normal(size=(n_rows, n_cols))
    good = np.clip(np.round(np.arange(n_rows) * n_cols / n_rows + rng.normal(size=n_rows)), 0, n_cols - 1).astype(int)
    links[np.arange(n_rows), good] += 4.0 + 1.5 * rng.normal(size=n_rows)
    stop = n + (space.max_fertility - 1) * (n_rows + n_cols)
    nodes = -np.sort(scores[n:stop].reshape(n_rows + n_cols, -1), axis=1)
    return np.concatenate([links.ravel(), nodes.ravel(), 0.8 * scores[stop:]])


def linear_program(space: Assignment, scores: Floats) -> float:
    """max s·z over the relaxed polytope, written down constraint by constraint."""
    matrix, bounds = oracles.relaxed_inequalities(*space.size(0), space.max_fertility, space.pairs)
    hopeless = np.isneginf(scores)
    limits = [(0.0, 0.0 if out else 1.0) for out in hopeless]
    finite = np.where(hopeless, 0.0, scores)
    scale = max(np.abs(finite).max(), 1e-9)
    return -scale * float(scipy.optimize.linprog(-finite / scale, A_ub=matrix, b_ub=bounds, bounds=limits).fun)


# --------------------------------------------------------------------------------------------------
# Parts


@pytest.mark.parametrize("fertility", [1, 2, 3])
def test_the_order_of_parts(fertility: int) -> None:
    space = Assignment([(3, 4)], max_fertility=fertility)
    names = oracles.link_parts(3, 4, fertility, space.pairs)
    assert space.n_parts(0) == len(names)
    pairs = [name[1:] for name in names if name[0] == "pair"]
    assert [((a, b), (c, d)) for _, a, b, c, d in space.pair_links(0).tolist()] == pairs
    kinds = [list(PAIRS)[kind] for kind in space.pair_links(0)[:, 0]]
    assert list(dict.fromkeys(kinds)) == list(space.pairs) == list(PAIRS)[: 3 if fertility > 1 else 2]


def test_encode_counts_neighbours() -> None:
    space = Assignment([(2, 3)], max_fertility=2)
    parts = space.encode(0, {(0, 1), (1, 0), (1, 2), (1, 1)})
    found = {tuple(row) for row in space.pair_links(0)[parts[space.matching.n_parts(0) :] == 1].tolist()}
    assert found == {(0, 0, 1, 1, 2), (1, 0, 1, 1, 0), (2, 1, 0, 1, 1), (2, 1, 1, 1, 2), (2, 0, 1, 1, 1)}
    assert not space.allows(0, parts)
    assert "source word 1 has 3 links (1-0, 1-1, 1-2)" in space.forbidden_part(0, parts)
    assert len(space.nearest_feasible(0, [(0, 1), (1, 0), (1, 1), (1, 2)])) == 3


# --------------------------------------------------------------------------------------------------
# Programs


@pytest.mark.parametrize("fertility", [1, 2])
def test_exact_and_relaxed_answers_agree_on_their_order(fertility: int) -> None:
    """rounded ≤ exact ≤ relaxation, with equality where the relaxation is integral."""
    rng = np.random.default_rng(0)
    statuses = set()
    for _ in range(25):
        space = Assignment([tuple(rng.integers(3, 9, size=2).tolist())], max_fertility=fertility)
        scores = alignment_scores(space, 0, rng)
        exact, rounded = space.solve(0, scores), space.solve(0, scores, relaxed=True)
        relaxation = linear_program(space, scores)
        assert exact.status == "optimal" and exact.gap == 0.0
        assert exact.value == pytest.approx(base.score_of(scores, exact.parts))
        assert rounded.value <= exact.value + 1e-7 and exact.value <= relaxation + 1e-7
        assert rounded.bound == pytest.approx(relaxation, abs=1e-6) and space.allows(0, rounded.parts)
        assert space.bound(0, scores) == pytest.approx(relaxation, abs=1e-6)
        if rounded.status == "optimal":
            assert rounded.value == pytest.approx(exact.value)
        else:
            assert rounded.status == "rounded" and rounded.gap >= exact.value - rounded.value - 1e-7
        statuses.add(rounded.status)
    assert "optimal" in statuses


def test_a_fractional_relaxation_is_marked() -> None:
    """Three words, two pairs that exclude each other but share halves: the relaxation is above every output."""
    rng = np.random.default_rng(1)
    space = Assignment([(4, 4)])
    fractional = 0
    for _ in range(40):
        scores = np.concatenate([-rng.random(16), 1.5 * rng.random(18)])
        answer, exact = space.solve(0, scores, relaxed=True), space.solve(0, scores)
        corner = space.relax().argmax(0, scores)
        inside = bool(((corner[:16] > 1e-6) & (corner[:16] < 1 - 1e-6)).any())
        assert (answer.status == "rounded") == inside
        assert base.score_of(scores, corner) == pytest.approx(linear_program(space, scores), abs=1e-7)
        assert answer.bound >= exact.value - 1e-9 and answer.value <= exact.value + 1e-9
        fractional += inside
    assert fractional > 0


def test_without_pairs_it_is_a_matching() -> None:
    rng = np.random.default_rng(2)
    for fertility in (1, 2):
        space, plain = (
            Assignment([(5, 6)], max_fertility=fertility, pairs=()),
            Matching([(5, 6)], max_fertility=fertility),
        )
        scores = alignment_scores(space, 0, rng)
        np.testing.assert_array_equal(space.argmax(0, scores), plain.argmax(0, scores))
        np.testing.assert_array_equal(space.relax().project(0, scores), plain.project(0, scores))


def test_pairs_of_negative_score_and_forbidden_pairs() -> None:
    space = Assignment([(2, 2)], pairs=["monotone"])
    links = [1.0, 0.0, 0.0, 1.0]
    for pair, expected in ((0.0, 2), (-0.5, 2), (-1.5, 1), (-np.inf, 1)):
        scores = np.array([*links, pair])
        assert len(space.decode(0, space.argmax(0, scores))) == expected
        assert len(space.decode(0, space.solve(0, scores, relaxed=True).parts)) >= 1


def test_too_many_links_above_one_half() -> None:
    """Three links of 0.6 are inside the polytope of fertility 2, and rounding keeps two of them."""
    space = Assignment([(1, 3)], max_fertility=2).relax()
    z = np.zeros(space.n_parts(0))
    z[:4] = [0.6, 0.7, 0.6, 0.9]
    z[-2:] = 0.35
    assert space.allows(0, z)
    links = space.decode(0, z)
    assert len(links) == 2 and [0, 1] in links.tolist()


def test_a_time_limit_is_never_silent() -> None:
    rng = np.random.default_rng(3)
    space = Assignment([(14, 14)], max_fertility=2, time_limit=1e-6)
    scores = np.concatenate([0.5 * rng.normal(size=196), -rng.random(28), rng.random(space.n_parts(0) - 224)])
    found = space.solve(0, scores)
    assert found.status == "time limit" and found.gap > 0 and space.allows(0, found.parts)
    best = Assignment([(14, 14)], max_fertility=2).solve(0, scores, relaxed=True)
    assert found.value <= best.bound + 1e-6 and best.value <= found.bound + 1e-6
    with pytest.raises(SolverError, match=r"instance 0 reached its time limit of 1e-06 s; the output found has score"):
        space.argmax(0, scores)
    with pytest.raises(SolverError, match="linear program of instance 0 reached its time limit"):
        space.relax().argmax(0, scores)


# --------------------------------------------------------------------------------------------------
# Projection


@pytest.mark.parametrize("kind", POINTS)
def test_relaxed_projection_against_a_quadratic_program(kind: str) -> None:
    rng = np.random.default_rng(4)
    for _ in range(25):
        size, fertility = tuple(rng.integers(1, 6, size=2).tolist()), int(rng.integers(1, 4))
        space = RelaxedAssignment([size], max_fertility=fertility)
        point = POINTS[kind](rng, space.n_parts(0))
        matrix, bounds = oracles.relaxed_inequalities(*size, fertility, space.pairs)
        z = space.project(0, point)
        np.testing.assert_allclose(z, solve_qp(np.eye(len(point)), -point, matrix, bounds), rtol=0, atol=1e-7)
        assert (matrix @ z - bounds).max() <= 1e-10 and space.allows(0, z)


@pytest.mark.parametrize("kind", HARD)
def test_relaxed_projection_of_hard_points(kind: str) -> None:
    """max_v (p − z)·(v − z) = 0 over the polytope, relative to the point."""
    rng = np.random.default_rng(5)
    for _ in range(10):
        space = RelaxedAssignment([tuple(rng.integers(1, 7, size=2).tolist())], max_fertility=int(rng.integers(1, 4)))
        point = HARD[kind](rng, space.n_parts(0))
        z = space.project(0, point)
        assert not z[np.isneginf(point)].any() and space.allows(0, z)
        downhill = np.where(np.isneginf(point), point, point - z)
        gap = linear_program(space, downhill) - base.score_of(downhill, z)
        assert gap <= 1e-8 * max(1.0, np.abs(point[np.isfinite(point)]).max(initial=0.0))


def test_relaxed_projection_of_a_sentence() -> None:
    """A longer pair near a corner, as in dual extragradient steps; both orders of the sides; an allowed mask."""
    rng = np.random.default_rng(6)
    for size in ((14, 9), (9, 14)):
        mask = rng.random(size) < 0.6
        space = RelaxedAssignment([size], max_fertility=2, allowed=[mask])
        gold = [(j, j) for j in range(9) if mask[j, j]]
        point = space.encode(0, gold) + 0.1 * rng.normal(size=space.n_parts(0))
        z = space.project(0, point)
        assert not z[: mask.size][~mask.ravel()].any()
        downhill = point - z
        downhill[: mask.size][~mask.ravel()] = -np.inf
        assert linear_program(space, downhill) - base.score_of(downhill, z) <= 1e-9
        np.testing.assert_allclose(space.project(0, z), z, atol=1e-9)


# --------------------------------------------------------------------------------------------------
# Learning, messages, speed


def test_an_assignment_can_be_learned() -> None:
    """Monotone pairs matter: the weights of links alone cannot tell."""
    rng = np.random.default_rng(7)
    space = Assignment([(4, 4)] * 8, pairs=["monotone"])
    matrices = []
    for i in range(8):
        matrix = np.zeros((2, space.n_parts(i)))
        matrix[0, :16], matrix[1, 16:] = rng.normal(size=16), 1.0
        matrices.append(matrix)
    gold = [space.decode(i, space.argmax(i, np.array([1.0, 1.5]) @ matrices[i])) for i in range(8)]
    problem = Problem(space, MatrixFeatures(matrices), gold, "perceptron")
    theta = Perceptron(max_passes=20).fit(problem).theta
    assert (
        theta[1] > 0 and sum(y.tolist() == z.tolist() for y, z in zip(gold, problem.predict(theta), strict=True)) >= 7
    )


def test_messages_of_assignment() -> None:
    bad: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ParameterError, r"'pairs' .* \(did you mean 'monotone'", {"pairs": ["monoton"]}),
        (ParameterError, "without 'one_to_two' where max_fertility is 1", {"pairs": ["one_to_two"]}),
        (
            ParameterError,
            "'time_limit' parameter of Assignment must be a positive number of seconds",
            {"time_limit": 0},
        ),
        (ParameterError, "'max_fertility' .* must be an integer of at least 1. Got 0", {"max_fertility": 0}),
    ]
    for error, message, arguments in bad:
        with pytest.raises(error, match=message):
            Assignment([(2, 2)], **arguments)
    space = Assignment([(2, 2)], max_fertility=2)
    n = space.n_parts(0)
    with pytest.raises(InputError, match=rf"scores of instance 0 have shape \(3,\); expected \({n},\)"):
        space.argmax(0, np.zeros(3))
    with pytest.raises(InputError, match=r"scores of instance 0 hold NaN or \+inf at part 2"):
        space.argmax(0, np.where(np.arange(n) == 2, np.nan, 0.0))
    with pytest.raises(CapabilityError, match="Assignment has no project"):
        space.project(0, np.zeros(n))
    wrong = np.where(np.arange(n) == 4, 0.5, 0.0)
    assert space.argmax(0, np.ones(n))[:4].sum() == 4  # exact whatever the sign of a fertility score
    with pytest.raises(InputError, match=r"fertility 2 of source word 0 in instance 0 is 0\.5"):
        space.relax().argmax(0, wrong)
    with pytest.raises(InputError, match=r"fertility 2 of source word 0 in instance 0 is 0\.5"):
        space.solve(0, wrong, relaxed=True)
    relaxed = space.relax()
    outside = np.full(n, 0.5)
    outside[-1] = 0.9
    assert relaxed.forbidden_part(0, outside) == "the point is outside the relaxed polytope"


def test_speed() -> None:
    """Several times what was measured: 5 ms a linear program and 20 ms a projection of 16 × 17 words."""
    rng = np.random.default_rng(8)
    space = Assignment([(16, 17)], max_fertility=2)
    relaxed = space.relax()
    scores = [alignment_scores(space, 0, rng) for _ in range(10)]
    points = [space.encode(0, [(j, j) for j in range(16)]) + 0.1 * rng.normal(size=len(s)) for s in scores]
    relaxed.project(0, points[0])
    began = time.process_time()
    for s in scores:
        space.solve(0, s, relaxed=True)
    middle = time.process_time()
    for point in points:
        relaxed.project(0, point)
    assert (middle - began) / 10 < 0.05 and (time.process_time() - middle) / 10 < 0.05
