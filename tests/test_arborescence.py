"""Trees: high precision at large β, two algorithms for one quantity, long sentences, messages for bad input."""

from __future__ import annotations

import json
import time
from decimal import Decimal, getcontext
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from test_compile import run

import partwise
from partwise.exceptions import InputError, ParameterError
from partwise.structures._arborescence_laplacian import FAINT, tree_gradient
from partwise.structures.arborescence import Arborescence, tree_fault
from partwise.structures.base import score_of

Floats = NDArray[np.float64]


def arc_matrix(n: int, scores: Floats) -> list[list[float]]:
    table = [[-np.inf] * (n + 1) for _ in range(n + 1)]
    for value, head, modifier in zip(scores, *Arborescence([n]).atoms(0)[:2], strict=True):
        table[head][modifier] = float(value)
    return table


def precise(n: int, scores: Floats, single_root: bool) -> tuple[float, Floats]:
    """log Z = log det of the Laplacian and its derivatives, with 900 digits; Koo et al. (2007) for one root."""
    getcontext().prec = 900
    w = [[Decimal(value).exp() if value > -np.inf else Decimal(0) for value in row] for row in arc_matrix(n, scores)]

    def laplacian() -> list[list[Decimal]]:
        matrix = [[-w[h][m] for m in range(1, n + 1)] for h in range(1, n + 1)]
        for m in range(1, n + 1):
            matrix[m - 1][m - 1] = sum((w[h][m] for h in range(0 if not single_root else 1, n + 1)), Decimal(0))
        if single_root:
            matrix[0] = w[0][1:]
        return matrix

    def determinant(matrix: list[list[Decimal]]) -> Decimal:
        total = Decimal(1)
        for k in range(n):
            pivot = max(range(k, n), key=lambda r: abs(matrix[r][k]))
            if pivot != k:
                matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
                total = -total
            total *= matrix[k][k]
            for r in range(k + 1, n):
                factor = matrix[r][k] / matrix[k][k]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[k], strict=True)]
        return total

    z = determinant(laplacian())
    mass = []
    for head, modifier, _ in zip(*Arborescence([n]).atoms(0), strict=True):
        kept, w[head][modifier] = w[head][modifier], Decimal(0)  # Z is linear in every weight
        mass.append(float(1 - determinant(laplacian()) / z))
        w[head][modifier] = kept
    return float(z.ln()), np.array(mass)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("beta", [1.0, 50.0])
def test_matrix_tree_in_high_precision(beta: float, single_root: bool) -> None:
    """Also where all words prefer each other to the root, and the Laplacian is singular in floating point."""
    rng = np.random.default_rng(3)
    for n, attraction in ((5, 0.0), (6, -3.0), (4, -20.0)):
        space = Arborescence([n], single_root=single_root)
        scores = beta * (rng.normal(size=n * n) + attraction * (space.atoms(0).head == 0))
        log_partition, mean = space.marginals(0, scores)
        expected, mass = precise(n, scores, single_root)
        np.testing.assert_allclose(log_partition, expected, rtol=1e-14)
        np.testing.assert_allclose(mean, mass, rtol=0, atol=1e-15 * max(beta, 100.0) * n)


def test_plain_numbers_and_logarithms_agree() -> None:
    rng = np.random.default_rng(0)
    for single_root in (0, 1):
        arcs = rng.normal(size=(13, 13)) * 3.0
        arcs[:, 0] = -np.inf
        np.fill_diagonal(arcs, -np.inf)
        far = arcs.copy()
        far[0] += 2 * FAINT  # the same distribution with one root; several roots become impossible
        results = []
        for table in (arcs, far):
            w, g = np.zeros((2, 13, 13))
            value, log = tree_gradient(table, single_root, w, g)
            assert log == (table is far)
            results.append((value, np.exp(w + g) if log else w * g))
        if single_root:
            np.testing.assert_allclose(results[0][0] + 2 * FAINT, results[1][0], rtol=1e-13)
            np.testing.assert_allclose(results[0][1][:, 1:], results[1][1][:, 1:], rtol=0, atol=1e-12)
        else:
            assert results[1][1][0, 1:].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("single_root", [False, True])
@pytest.mark.parametrize("projective", [False, True])
def test_best_tree_is_the_limit_of_the_log_partition(single_root: bool, projective: bool) -> None:
    """max ≤ 1/β log Z(β·scores) ≤ max + n log(n + 1)/β, from an algorithm that shares nothing with the argmax."""
    rng, beta = np.random.default_rng(1), 1e9
    for n in (2, 3, 17, 40):
        space = Arborescence([n], single_root=single_root, projective=projective)
        for scores in (rng.normal(size=n * n), rng.normal(size=n * n) - 30.0 * (space.atoms(0).head == 0)):
            best = space.argmax(0, scores)
            log_partition, mean = space.marginals(0, beta * scores)
            assert scores @ best == pytest.approx(log_partition / beta, abs=1e-6)
            np.testing.assert_allclose(mean, best, atol=1e-4)
            fault = tree_fault(space.decode(0, best), single_root=single_root, projective=projective)
            assert fault is None


def test_nested_cycles_are_contracted() -> None:
    """Words that prefer their neighbour, pairs that prefer their neighbouring pair, and so on up."""
    n = 16
    space = Arborescence([n])
    head, modifier, _ = space.atoms(0)
    pairs = zip((head - 1).tolist(), (modifier - 1).tolist(), strict=True)
    apart = np.array([(h ^ m).bit_length() if h >= 0 else 6 for h, m in pairs])
    scores = -(10.0**apart) + 1e-3 * np.random.default_rng(0).normal(size=n * n)
    assert tree_fault(space.decode(0, space.argmax(0, scores))) is None
    log_partition, _ = space.marginals(0, scores)
    assert scores @ space.argmax(0, scores) == pytest.approx(log_partition, abs=50.0)


def test_walks_and_word_by_word_draw_the_same() -> None:
    """Both samplers, each where the other would not be chosen: frequencies of arcs within five deviations."""
    rng = np.random.default_rng(0)
    for shift in (0.0, -40.0):
        space = Arborescence([6], single_root=False)
        scores = rng.normal(size=36) + shift * (space.atoms(0).head == 0)
        size = 4000
        seen = space.sample(0, scores, size, rng).mean(axis=0)
        mean = space.marginals(0, scores)[1]
        assert (np.abs(seen - mean) < 5 * np.sqrt(mean * (1 - mean) / size) + 1e-3).all()


def test_a_sentence_of_500_words() -> None:
    n = 500
    space, rng = Arborescence([n], single_root=True), np.random.default_rng(0)
    scores = rng.normal(size=n * n)
    assert tree_fault(space.decode(0, space.argmax(0, scores)), single_root=True) is None
    _, mean = space.marginals(0, scores)
    np.testing.assert_allclose(mean.reshape(n, n).sum(axis=1), 1.0)
    assert mean[space.atoms(0).head == 0].sum() == pytest.approx(1.0)


def oracle_answers() -> list[list[float]]:
    """What every kernel answers on a few small spaces."""
    answers = []
    for projective in (False, True):
        space = Arborescence([3], 2, single_root=projective, projective=projective)
        scores = 3.0 * np.random.default_rng(0).normal(size=space.n_parts(0))
        answers += [space.argmax(0, scores), space.kbest(0, scores, 4).ravel()]
        answers += [space.marginals(0, beta * scores)[1] for beta in (1.0, 500.0)]
        answers.append(space.sample(0, scores, 3, np.random.default_rng(0)).ravel())
    return [answer.tolist() for answer in answers]


def test_kernels_run_without_the_compiler() -> None:
    script = (
        "import json, warnings; warnings.simplefilter('ignore'); import test_arborescence; "
        "print(json.dumps(test_arborescence.oracle_answers()))"
    )
    plain = json.loads(run(script, [Path(partwise.__file__).parents[1], Path(__file__).parent], NUMBA_DISABLE_JIT="1"))
    for found, expected in zip(plain, oracle_answers(), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([2, 1, 0], "words 1, 2 form a cycle"),
        ([1, 0, 2], "word 1 of instance 0 is its own head"),
        ([0, 7, 1], r"word 2 of instance 0 has head 7; expected 0..3"),
        ([0, 0, 1], "words 1, 2 depend on the root"),
        ([3, 0, 2, 1], "cross"),
    ],
)
def test_gold_that_is_no_tree(heads: list[int], message: str) -> None:
    space = Arborescence([len(heads)], single_root=True, projective=True)
    with pytest.raises(InputError, match=message):
        space.encode(0, np.array(heads))


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="instance 1 is an empty sentence"):
        Arborescence([3, 0])
    with pytest.raises(ParameterError, match="n_labels"):
        Arborescence([3], 0)
    with pytest.raises(InputError, match=r"'allowed' of instance 0 has shape \(2, 2\); expected \(3, 2\)"):
        Arborescence([2], allowed=[np.ones((2, 2))])
    with pytest.raises(InputError, match="the constraints allow no tree for instance 0"):
        Arborescence([2], allowed=[np.array([[0, 0], [0, 1], [1, 0]])])
    with pytest.raises(ParameterError, match="labels"):
        Arborescence([1], labels=[[0]])
    with pytest.raises(InputError, match=r"'labels' of instance 0 must be in -1..1"):
        Arborescence([1], 2, labels=[[2]])
    with pytest.raises(InputError, match="integer array"):
        Arborescence([2]).encode(0, [0.5, 1.0])


def test_lists_of_projective_trees_are_all_of_them_in_order() -> None:
    """Every labelled projective tree exactly once, best first, ties, forbidden parts and pinned labels included."""
    rng = np.random.default_rng(7)
    for n, n_labels, single_root, pinned in ((1, 2, True, -1), (4, 2, False, -1), (4, 2, True, 1), (5, 1, True, -1)):
        labels = [np.array([pinned] + [-1] * (n - 1))]
        space = Arborescence([n], n_labels, single_root=single_root, projective=True, labels=labels)
        scores = rng.integers(-2, 3, size=space.n_parts(0)).astype(float)
        if n > 1:
            scores[rng.integers(len(scores), size=3)] = -np.inf
        expected = []
        for heads in product(range(n + 1), repeat=n):
            if any(h == m for m, h in enumerate(heads, 1)):
                continue
            if tree_fault(np.array(heads), single_root=single_root, projective=True) is None:
                for names in product(range(n_labels), repeat=n):
                    if pinned in (-1, names[0]):
                        y = np.stack([heads, names], axis=1)
                        expected.append(score_of(scores, space.encode(0, y)))
        expected = sorted((v for v in expected if v > -np.inf), reverse=True)
        for k in (3, len(expected) + 2):
            found = space.kbest(0, scores, k)
            np.testing.assert_allclose([score_of(scores, parts) for parts in found], expected[:k], atol=1e-12)
            assert len({parts.tobytes() for parts in found}) == len(found)
            for parts in found:
                np.testing.assert_array_equal(space.encode(0, space.decode(0, parts)), parts)


def test_lists_of_long_projective_sentences() -> None:
    """300 words, where a search from scratch for each word and tree took most of a minute."""
    n = 300
    space = Arborescence([n], single_root=True, projective=True)
    scores = np.random.default_rng(8).normal(size=n * n)
    begin = time.process_time()
    found = space.kbest(0, scores, 5)
    assert time.process_time() - begin < 5.0
    values = found @ scores
    assert (np.diff(values) <= 1e-9).all() and len({parts.tobytes() for parts in found}) == 5
    np.testing.assert_array_equal(found[0], space.argmax(0, scores))
    assert all(tree_fault(space.decode(0, parts), single_root=True, projective=True) is None for parts in found)
