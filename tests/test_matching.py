"""Matchings: the flow against scipy and linear programs, the projection against a QP, k-best, messages, speed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import oracles
import pytest
import scipy.optimize
from numpy.typing import NDArray
from problems import solve_qp
from test_compile import run

import partwise
from partwise.costs import Hamming
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import DCA, Perceptron
from partwise.problem import Problem
from partwise.structures import Matching, base
from partwise.testing import Case
from partwise.testing._oracle_checks import check_argmax, check_kbest

Floats = NDArray[np.float64]

POINTS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "large": lambda rng, n: 10.0 * rng.normal(size=n),
    "positive": lambda rng, n: rng.random(n),
    "small": lambda rng, n: 0.3 * rng.normal(size=n),
}
HARD: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "ties": lambda rng, n: rng.integers(-1, 3, size=n).astype(float),
    "halves": lambda rng, n: rng.integers(0, 4, size=n) / 2.0,
    "equal": lambda rng, n: np.full(n, 0.7),
    "huge": lambda rng, n: rng.uniform(-1e4, 1e4, size=n),
    "huge ties": lambda rng, n: rng.choice([-1e4, 0.0, 1e4, 1e4 + 0.5], size=n),
    "minus infinity": lambda rng, n: np.where(rng.random(n) < 0.3, -np.inf, 3.0 * rng.normal(size=n)),
    "any size": lambda rng, n: 10.0 ** rng.uniform(-3, 6) * rng.normal(size=n),
}


def penalised(space: Matching, scores: Floats) -> Floats:
    """The same scores with fertility scores that are penalties."""
    n, levels = space.n_atoms(0), space.max_fertility - 1
    if levels:
        scores[n:] = -np.sort(np.abs(scores[n:].reshape(-1, levels)), axis=1).ravel()
    return scores


def linear_maximum(space: Matching, scores: Floats) -> float:
    """max s·z over the polytope of eq. (3.2) by a flow: only fertility parts with s < 0 cost, cheapest first."""
    n, levels = space.n_atoms(0), space.max_fertility - 1
    if not levels:
        return base.score_of(scores, space.argmax(0, scores))
    nodes = scores[n:].reshape(-1, levels)
    flow = np.concatenate([scores[:n], -np.sort(np.maximum(-nodes, 0.0), axis=1).ravel()])
    return base.score_of(flow, space.argmax(0, flow)) + float(np.maximum(nodes, 0.0).sum())


def optimality(space: Matching, point: Floats, z: Floats) -> float:
    """max_v (p − z)·(v − z) over the polytope: 0 at the projection, and at least ½‖z − projection‖² elsewhere."""
    hopeless = np.isneginf(point)
    assert not z[hopeless].any()
    downhill = np.where(hopeless, -np.inf, point - z)
    return linear_maximum(space, downhill) - base.score_of(downhill, z)


def violation(space: Matching, z: Floats) -> float:
    (n_rows, n_cols), n = space.size(0), space.n_atoms(0)
    table = z[:n].reshape(n_rows, n_cols)
    extra = z[n:].reshape(n_rows + n_cols, -1).sum(axis=1) if space.max_fertility > 1 else 0.0
    over = np.concatenate([table.sum(axis=1), table.sum(axis=0)]) - 1.0 - extra
    return float(max(over.max(), -z.min(), z.max() - 1.0))


# --------------------------------------------------------------------------------------------------
# Argmax


@pytest.mark.parametrize("kind", [*POINTS, *HARD])
def test_argmax_against_scipy(kind: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(25):
        size = tuple(rng.integers(1, 26, size=2).tolist())
        space = Matching([size])
        scores = {**POINTS, **HARD}[kind](rng, space.n_parts(0))
        worth = np.maximum(scores, 0.0).reshape(size)
        expected = worth[scipy.optimize.linear_sum_assignment(-worth)].sum()
        parts = space.argmax(0, scores)
        assert space.allows(0, parts)
        assert base.score_of(scores, parts) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", [*POINTS, *HARD])
def test_fertility_argmax_against_a_linear_program(kind: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(12):
        size, fertility = tuple(rng.integers(1, 8, size=2).tolist()), int(rng.integers(2, 4))
        space = Matching([size], max_fertility=fertility)
        scores = penalised(space, {**POINTS, **HARD}[kind](rng, space.n_parts(0)))
        matrix, bounds = oracles.relaxed_inequalities(*size, fertility, ())
        hopeless = np.isneginf(scores)
        finite = np.where(hopeless, 0.0, scores)
        scale = max(np.abs(finite).max(), 1e-9)
        limits = [(0.0, 0.0 if out else 1.0) for out in hopeless]
        program = scipy.optimize.linprog(-finite / scale, A_ub=matrix, b_ub=bounds, bounds=limits)
        parts = space.argmax(0, scores)
        assert space.allows(0, parts)
        np.testing.assert_array_equal(parts, space.encode(0, space.decode(0, parts)))
        assert base.score_of(scores, parts) / scale == pytest.approx(-program.fun, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("size", [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("fertility", [2, 3])
def test_fertility_against_enumeration(size: tuple[int, int], fertility: int) -> None:
    """More words than the conformance suite has, where the links of one word push out another's."""
    rng = np.random.default_rng(11)
    space = Matching([size], max_fertility=fertility)
    case = Case(space, [oracles.enumerate_links(fertility, np.ones(size, bool), hull=False)])
    for turn in range(40):
        scores = [*POINTS.values(), *HARD.values()][turn % (len(POINTS) + len(HARD))](rng, space.n_parts(0))
        scores = penalised(space, scores)
        scores[space.n_atoms(0) :] *= rng.choice([0.2, 1.0])
        check_argmax(case, 0, scores, rng)
        if turn % 4 == 0:
            check_kbest(case, 0, scores, rng)


def test_without_limits_every_good_link_is_taken() -> None:
    rng = np.random.default_rng(2)
    space = Matching([(5, 7)], max_fertility=7)
    scores = np.zeros(space.n_parts(0))
    scores[:35] = rng.normal(size=35)
    np.testing.assert_array_equal(space.argmax(0, scores)[:35], scores[:35] > 0)


def test_fertility_costs_decide() -> None:
    """Word 0 takes its two links as long as the second is worth its price on both sides."""
    space = Matching([(2, 2)], max_fertility=2)
    links = {(0, 0): 2.0, (0, 1): 1.5, (1, 0): -9.0, (1, 1): 1.0}
    for penalty, expected in ((0.4, [[0, 0], [0, 1], [1, 1]]), (0.9, [[0, 0], [1, 1]]), (9.0, [[0, 0], [1, 1]])):
        scores = np.concatenate([list(links.values()), [-penalty, 0.0, 0.0, -penalty]])
        assert space.decode(0, space.argmax(0, scores)).tolist() == expected


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        (6, 0.5, "fertility 2 of source word 0 in instance 0 is 0.5"),
        (9, -0.1, "fertility 3 of source word 1 in instance 0 is -0.1"),
        (11, 0.0, "fertility 3 of target word 0 in instance 0 is 0"),
    ],
)
def test_scores_that_are_no_convex_penalty(where: int, value: float, words: str) -> None:
    space = Matching([(2, 3)], max_fertility=3)
    scores = np.concatenate([np.ones(6), np.tile([-0.5, -0.7], 5)])
    space.argmax(0, scores)
    scores[where] = value
    for call in (lambda: space.argmax(0, scores), lambda: space.kbest(0, scores, 2)):
        with pytest.raises(InputError, match=f"{words}; it must be ≤ 0 and must not exceed"):
            call()
    work, parts = np.empty(base.work_size(space.pack, 0)), np.empty(space.n_parts(0))
    with pytest.raises(InputError, match="fertility scores must be ≤ 0 and must not rise"):
        base.argmax(space.pack, 0, scores, work, parts)
    space.project(0, scores)  # a point to project may be anything


def test_rounding_is_no_broken_penalty() -> None:
    space = Matching([(1, 3)], max_fertility=3)
    scores = np.array([1.0, 1.0, 1.0, -0.3, -0.3 + 1e-16, *np.zeros(6)])
    assert space.argmax(0, scores)[:3].tolist() == [1.0, 1.0, 1.0]


# --------------------------------------------------------------------------------------------------
# K-best


@pytest.mark.parametrize("fertility", [1, 2])
def test_ranked_outputs_of_larger_instances(fertility: int) -> None:
    rng = np.random.default_rng(3)
    space = Matching([(9, 12)], max_fertility=fertility)
    scores = penalised(space, rng.normal(size=space.n_parts(0)))
    found = space.kbest(0, scores, 200)
    values = found @ scores
    assert len({row.tobytes() for row in found}) == len(found) == 200
    assert (np.diff(values) <= 1e-12).all()
    np.testing.assert_array_equal(found[0], space.argmax(0, scores))
    assert all(space.allows(0, row) for row in found)
    # no link of the best can be left out for more than the second
    without = [
        space.argmax(0, np.where(np.arange(len(scores)) == e, -np.inf, scores)) for e in np.flatnonzero(found[0, :108])
    ]
    assert max(row @ scores for row in without) <= values[1] + 1e-12


def test_the_empty_output_counts() -> None:
    assert Matching([(1, 1)]).kbest(0, np.array([-1.0]), 5).tolist() == [[0.0], [1.0]]
    assert Matching([(1, 1)]).kbest(0, np.array([-np.inf]), 5).tolist() == [[0.0]]


# --------------------------------------------------------------------------------------------------
# Projection


@pytest.mark.parametrize("kind", POINTS)
def test_projection_against_a_quadratic_program(kind: str) -> None:
    """50 instances a kind, 200 in all."""
    rng = np.random.default_rng(4)
    for _ in range(50):
        size, fertility = tuple(rng.integers(1, 7, size=2).tolist()), int(rng.integers(1, 4))
        space = Matching([size], max_fertility=fertility)
        point = POINTS[kind](rng, space.n_parts(0))
        matrix, bounds = oracles.relaxed_inequalities(*size, fertility, ())
        z = space.project(0, point)
        np.testing.assert_allclose(z, solve_qp(np.eye(len(point)), -point, matrix, bounds), rtol=0, atol=1e-8)
        assert (matrix @ z - bounds).max() <= 1e-12


@pytest.mark.parametrize("kind", HARD)
def test_projection_of_hard_points(kind: str) -> None:
    """Ties, huge points, forbidden links: optimal by the variational inequality, to the rounding of the point."""
    rng = np.random.default_rng(5)
    for turn in range(40):
        size = tuple(rng.integers(1, 9 if turn else 45, size=2).tolist())
        space = Matching([size], max_fertility=int(rng.integers(1, 4)))
        point = HARD[kind](rng, space.n_parts(0))
        z = space.project(0, point)
        assert violation(space, z) <= 1e-11
        assert optimality(space, point, z) <= 1e-10 * max(1.0, np.abs(point[np.isfinite(point)]).max())


def test_projection_keeps_what_is_inside() -> None:
    rng = np.random.default_rng(6)
    space = Matching([(6, 5)], max_fertility=2)
    corners = [space.argmax(0, penalised(space, rng.normal(size=space.n_parts(0)))) for _ in range(4)]
    inside = rng.dirichlet(np.ones(4)) @ corners
    np.testing.assert_allclose(space.project(0, inside), inside, atol=1e-14)


def test_forbidden_links_stay_empty() -> None:
    rng = np.random.default_rng(7)
    mask = rng.random((6, 5)) < 0.5
    space = Matching([(6, 5)], allowed=[mask])
    assert not space.argmax(0, np.ones(30)).reshape(6, 5)[~mask].any()
    point = rng.random(30)
    barred = np.where(mask.ravel(), point, -np.inf)
    np.testing.assert_array_equal(space.project(0, point), Matching([(6, 5)]).project(0, barred))


# --------------------------------------------------------------------------------------------------
# Outputs


def test_encode_takes_sets_lists_and_arrays() -> None:
    space = Matching([(2, 3)], max_fertility=2)
    expected = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    for links in ({(0, 0), (0, 2), (1, 2)}, [(1, 2), (0, 0), (0, 2)], np.array([[0, 0], [0, 2], [1, 2]])):
        assert space.encode(0, links).tolist() == expected
    assert not space.encode(0, []).any() and not space.encode(0, set()).any()
    assert space.decode(0, space.encode(0, [])).shape == (0, 2)


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ([(0, 0), (2, 1)], "link 2-1 of instance 1 is out of range: there are 2 source and 3 target words"),
        ([(0, 3)], "link 0-3 of instance 1 is out of range"),
        ([(-1, 0)], "link -1-0 of instance 1 is out of range"),
        ([(1, 2), (0, 0), (1, 2)], "link 1-2 of instance 1 is given more than once"),
        ([(0.0, 1.0)], "links of instance 1 must be pairs of integers"),
        ([0, 1], "links of instance 1 must be pairs of integers"),
        ([(0, 1, 2)], "links of instance 1 must be pairs of integers"),
    ],
)
def test_bad_links_are_named(links: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Matching([(1, 1), (2, 3)]).encode(1, links)


def test_infeasible_gold_is_named_before_training() -> None:
    space = Matching([(1, 1), (2, 2)])
    features = MatrixFeatures([np.ones((1, 1)), np.ones((1, 4))])
    words = (
        r"gold output of instance 1: source word 1 has 2 links \(1-0, 1-1\), and more than 1 of one word are "
        r"forbidden by the constraints \(max_fertility\)"
    )
    with pytest.raises(InputError, match=words):
        Problem(space, features, [[], [(1, 0), (1, 1)]], "svm")
    with pytest.raises(InputError, match=r"instance 1: target word 0 has 2 links \(0-0, 1-0\)"):
        Problem(space, features, [[], [(0, 0), (1, 0)]], "svm")
    barred = Matching([(1, 1), (2, 2)], allowed=[[[1]], [[1, 0], [1, 1]]])
    with pytest.raises(InputError, match="instance 1: link 0-1 is forbidden by the constraints"):
        Problem(barred, features, [[], [(0, 1)]], "svm")
    assert space.forbidden_part(0, np.ones(1)) == "nothing is forbidden"


def test_nearest_feasible_is_the_largest_part_of_gold() -> None:
    rng = np.random.default_rng(8)
    for fertility in (1, 2):
        mask = rng.random((3, 3)) < 0.8
        space = Matching([(3, 3)], max_fertility=fertility, allowed=[mask])
        outputs = oracles.enumerate_links(fertility, mask).outputs
        for _ in range(20):
            gold = set(map(tuple, np.argwhere(rng.random((3, 3)) < 0.6).tolist()))
            kept = set(map(tuple, space.nearest_feasible(0, gold).tolist()))
            inside = [y for y in outputs if set(map(tuple, y.tolist())) <= gold]
            assert kept <= gold and len(kept) == max(map(len, inside))


def test_messages_of_matching() -> None:
    bad: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ParameterError, "'sizes' parameter of Matching must be a sequence of pairs of integers", {"sizes": [3, 4]}),
        (ParameterError, "'sizes' parameter of Matching must be a sequence of pairs", {"sizes": [(1.0, 2.0)]}),
        (InputError, "instance 1 has 2 source and 0 target words; expected at least one", {"sizes": [(1, 1), (2, 0)]}),
        (ParameterError, "'max_fertility' .* must be an integer of at least 1. Got 0", {"max_fertility": 0}),
        (ParameterError, "'max_fertility' .* must be an integer of at least 1. Got 1.5", {"max_fertility": 1.5}),
        (ParameterError, "'allowed' .* must be one mask per instance, 2 in all. Got 1", {"allowed": [[[1]]]}),
        (
            ParameterError,
            r"'allowed' .* an array of shape \(2, 3\) for instance 1. Got \(3, 2\)",
            {"allowed": [[[1]], np.ones((3, 2))]},
        ),
    ]
    for error, message, arguments in bad:
        with pytest.raises(error, match=message):
            Matching(**{"sizes": [(1, 1), (2, 3)], **arguments})
    with pytest.raises(InputError, match=r"scores of instance 0 have shape \(2,\); expected \(1,\)"):
        Matching([(1, 1)]).project(0, np.zeros(2))
    with pytest.raises(CapabilityError, match="Matching has no marginals"):
        Matching([(1, 1)]).marginals(0, np.zeros(1))


def test_no_instances_at_all() -> None:
    space = Matching([])
    offsets, numbers, _ = space.encode_all([])
    assert len(space) == 0 and offsets.tolist() == [0] and len(numbers) == 0


# --------------------------------------------------------------------------------------------------
# Learning, interpretation, speed


@pytest.mark.parametrize(("learner", "loss"), [(Perceptron(max_passes=30), "perceptron"), (DCA(max_passes=15), "svm")])
def test_a_matching_can_be_learned(learner: Any, loss: str) -> None:
    rng = np.random.default_rng(9)
    sizes = [tuple(rng.integers(2, 6, size=2).tolist()) for _ in range(20)]
    space, weights = Matching(sizes), rng.normal(size=4)
    matrices = [rng.normal(size=(4, space.n_parts(i))) for i in range(20)]
    gold = [space.decode(i, space.argmax(i, weights @ matrices[i])) for i in range(20)]
    problem = Problem(space, MatrixFeatures(matrices), gold, loss, Hamming(1.0, 3.0))
    before = sum(map(len, gold))
    found = problem.predict(learner.fit(problem).theta)
    missed = sum(len({*map(tuple, y)} - {*map(tuple, z)}) for y, z in zip(gold, found, strict=True))
    assert missed <= 0.1 * before


def oracle_answers() -> dict[str, list[float]]:
    """What every kernel of a matching answers on a few small spaces."""
    rng, answers = np.random.default_rng(0), {}
    mask = rng.random((3, 4)) < 0.7
    spaces = [Matching([(3, 4)]), Matching([(3, 4)], allowed=[mask]), Matching([(4, 3)], max_fertility=3)]
    for number, space in enumerate(spaces):
        for scale in (1.0, 1e3):
            scores = penalised(space, scale * rng.normal(size=space.n_parts(0)))
            scores[1] = -np.inf
            results = [space.argmax(0, scores), space.project(0, scores), space.kbest(0, scores, 6).ravel()]
            answers[f"{number} {scale:g}"] = np.concatenate(results).tolist()
    return answers


def test_kernels_run_without_the_compiler() -> None:
    root = Path(partwise.__file__).parents[1]
    script = (
        "import json, warnings; warnings.simplefilter('ignore'); import test_matching; "
        "print(json.dumps(test_matching.oracle_answers()))"
    )
    plain = json.loads(run(script, [root, Path(__file__).parent], NUMBA_DISABLE_JIT="1"))
    for name, answer in oracle_answers().items():
        np.testing.assert_allclose(plain[name], answer, atol=1e-9, err_msg=name)


def test_speed() -> None:
    """Ten times what was measured: 0.05 ms an argmax and 0.2 ms a projection of 20 × 22 words."""
    rng = np.random.default_rng(10)
    space = Matching([(20, 22)])
    points = [rng.normal(size=440) for _ in range(50)]
    for oracle, limit in ((space.argmax, 0.5e-3), (space.project, 2e-3)):
        oracle(0, points[0])
        began = time.process_time()
        for point in points:
            oracle(0, point)
        assert (time.process_time() - began) / 50 < limit
