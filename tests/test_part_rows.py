"""PartFeatures: scores and their transpose against plain matrices, compiled and in Python, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.features.base import accumulate, feature_scores, norm_and_clear
from partwise.features.part_rows import PartFeatures
from partwise.learners import DCA, Perceptron
from partwise.problem import Problem
from partwise.structures.matching import Matching

Floats = NDArray[np.float64]


class Number(int):
    """An integer that compiled code does not take, so that the source of a kernel runs."""


def example(seed: int, n: int = 3, widths: tuple[int, ...] = (4, 2, 3)) -> tuple[PartFeatures, list[Floats]]:
    """Random blocks, some instances without rows in some of them, and F_i (dim, parts) written out."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 5, size=(len(widths), n))
    rows = [rng.normal(size=(int(size.sum()), width)) for size, width in zip(sizes, widths, strict=True)]
    offsets = [np.append(0, np.cumsum(size)) for size in sizes]
    matrices = []
    for i in range(n):
        matrix, at, base = np.zeros((sum(widths), int(sizes[:, i].sum()))), 0, 0
        for x, starts, width in zip(rows, offsets, widths, strict=True):
            mine = x[starts[i] : starts[i + 1]]
            matrix[base : base + width, at : at + len(mine)] = mine.T
            at, base = at + len(mine), base + width
        matrices.append(matrix)
    return PartFeatures(list(zip(offsets, rows, strict=True))), matrices


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_scores_and_transpose_are_those_of_the_matrices(seed: int, widths: list[int]) -> None:
    features, matrices = example(seed, widths=tuple(widths))
    rng = np.random.default_rng(seed + 1)
    theta = rng.normal(size=features.dim)
    assert features.dim == sum(widths)
    np.testing.assert_array_equal(features.instance_sizes(3), [m.shape[1] for m in matrices])
    for i, matrix in enumerate(matrices):
        np.testing.assert_allclose(features.scores(i, theta), matrix.T @ theta, atol=1e-12)
        parts: Floats = rng.normal(size=matrix.shape[1:])
        out = theta.copy()
        features.accumulate(i, parts, -0.5, out)
        np.testing.assert_allclose(out, theta - 0.5 * matrix @ parts, atol=1e-12)


@pytest.mark.parametrize("widths", [(3,), (4, 2, 3)])
def test_compiled_and_python_agree(widths: tuple[int, ...]) -> None:
    features, matrices = example(5, widths=widths)
    rng, pack = np.random.default_rng(0), features.pack
    theta = rng.normal(size=features.dim)
    for i, matrix in enumerate(matrices):
        parts = rng.normal(size=matrix.shape[1])
        results: list[list[Any]] = []
        for at in (2, Number(2)):
            scores, moved, scratch = np.full(matrix.shape[1] + 3, 7.0), theta.copy(), matrix @ parts
            feature_scores(pack, i, theta, scores, at)
            accumulate(pack, i, np.append([9.0, 9.0], parts), at, 0.25, moved)
            norm = norm_and_clear(pack, i, parts, at, scratch)
            results.append([scores, moved, scratch, norm])
        for compiled, plain in zip(*results, strict=True):
            np.testing.assert_allclose(compiled, plain, atol=1e-12)
        scores, moved, scratch, norm = results[0]
        assert (scores[:2] == 7.0).all() and scores[-1] == 7.0  # nothing outside its place
        np.testing.assert_allclose(moved, theta + 0.25 * matrix @ parts, atol=1e-12)
        np.testing.assert_allclose(norm, ((matrix @ parts) ** 2).sum(), atol=1e-12)
        assert not scratch.any()


def test_learners_run_on_them() -> None:
    """Links whose first number is positive are gold: the perceptron finds weights that say so."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 2))
    offsets = np.array([0, 4, 8])
    gold = []
    for i in range(2):
        table = x[offsets[i] : offsets[i + 1], 0].reshape(2, 2)
        space = Matching([(2, 2)])
        gold.append(space.decode(0, space.argmax(0, table.ravel())).tolist())
    space, features = Matching([(2, 2), (2, 2)]), PartFeatures([(offsets, x)])
    for learner, loss in ((Perceptron(max_passes=50), "perceptron"), (DCA(C=100.0, max_passes=50), "svm")):
        theta = learner.fit(Problem(space, features, gold, loss)).theta
        found = [space.decode(i, space.argmax(i, features.scores(i, theta))).tolist() for i in range(2)]
        assert found == gold


def test_errors_name_the_block_and_the_part() -> None:
    with pytest.raises(InputError, match=r"block 1 of features has shape \(1, 2\); expected 2 rows"):
        PartFeatures([([0, 1], [[1.0]]), ([0, 2], [[1.0, 2.0]])])
    with pytest.raises(InputError, match="block 0 of features holds NaN or infinity at part 1 of instance 2"):
        PartFeatures([([0, 1, 1, 4], [[1.0], [2.0], [np.nan], [3.0]])])
    with pytest.raises(InputError, match=r"block 0 of features holds more than 1e\+100 at part 0 of instance 0"):
        PartFeatures([([0, 1], [[-1e101]])])
    with pytest.raises(InputError, match="block 1 of features covers 2 instances, but block 0 covers 1"):
        PartFeatures([([0, 1], [[1.0]]), ([0, 1, 1], [[1.0]])])
    with pytest.raises(InputError, match="at least one block"):
        PartFeatures([])
    with pytest.raises(InputError, match="features score 1 parts of instance 0, the structure has 4"):
        Problem(Matching([(2, 2)]), PartFeatures([([0, 1], [[1.0]])]), [[]], "svm")
