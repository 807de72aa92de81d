"""Products of vectors and rows in vector instructions against what they say in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise import _math, _vector_rows, _vectors
from partwise._compile import kernel

PLAIN = {"sum": _vectors.tiled_sum, "add": _vectors.tiled_add, "max": _vectors.tiled_max, "dot": _vectors.tiled_dot}


@kernel(cache=False)
def run_sum(y, at, a, start, stride, matrix, first, step, rows, n):  # type: ignore[no-untyped-def]
    _vectors.tiled_sum(y, at, a, start, stride, matrix, first, step, rows, n)


@kernel(cache=False)
def run_add(y, at, a, start, stride, matrix, first, step, rows, n):  # type: ignore[no-untyped-def]
    _vectors.tiled_add(y, at, a, start, stride, matrix, first, step, rows, n)


@kernel(cache=False)
def run_max(y, at, a, start, stride, matrix, first, step, rows, n):  # type: ignore[no-untyped-def]
    _vectors.tiled_max(y, at, a, start, stride, matrix, first, step, rows, n)


@kernel(cache=False)
def run_dot(y, at, stride, x, start, matrix, first, step, rows, n):  # type: ignore[no-untyped-def]
    _vectors.tiled_dot(y, at, stride, x, start, matrix, first, step, rows, n)


RUN = {"sum": run_sum, "add": run_add, "max": run_max, "dot": run_dot}


@pytest.mark.parametrize("kind", RUN)
@settings(deadline=None)  # the first example compiles
@given(n=st.integers(_vectors.TILE, 40), rows=st.integers(1, 9), stride=st.integers(1, 3), gap=st.integers(0, 3),
       seed=st.integers(0, 2**32 - 1))  # fmt: skip
def test_every_width(kind: str, n: int, rows: int, stride: int, gap: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    step = n + gap
    matrix, a = rng.normal(size=3 + rows * step), rng.normal(size=2 + rows * stride + n)
    if kind == "max":
        matrix[rng.random(matrix.size) < 0.3] = -np.inf
    before = rng.normal(size=5 + max(n, rows * stride))
    expected, found = before.copy(), before.copy()
    args: tuple[Any, ...] = (a, 2, stride, matrix, 3, step, rows, n)
    if kind == "dot":
        args = (stride, a, 2, matrix, 3, step, rows, n)
    PLAIN[kind](expected, 4, *args)
    RUN[kind](found, 4, *args)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@settings(deadline=None)  # the first example compiles
@given(n=st.integers(1, 30), rows=st.integers(1, 9), count=st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_sums_of_outer_products(n: int, rows: int, count: int, seed: int) -> None:
    """Widths below a tile too."""
    rng = np.random.default_rng(seed)
    matrix, a, x = rng.normal(size=1 + rows * n), rng.normal(size=(6, rows)), rng.normal(size=(6, n))
    expected = matrix[1:].reshape(rows, n) + a[:count].T @ x[:count]
    _math.outer_add(matrix, 1, n, a.ravel(), 0, 1, rows, x.ravel(), 0, n, count, rows, n)
    np.testing.assert_allclose(matrix[1:].reshape(rows, n), expected, rtol=1e-12, atol=1e-13)


@settings(deadline=None)  # the first example compiles
@given(n=st.integers(1, 30), rows=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_products_with_rows(n: int, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix, a, x = rng.integers(-3, 4, size=(rows, n)) * 1.0, rng.integers(-3, 4, size=rows) * 1.0, rng.normal(size=n)
    y = np.zeros(n)
    _math.rows_sum(y, 0, a, 0, 1, matrix.ravel(), 0, n, rows, n)
    np.testing.assert_array_equal(y, a @ matrix)
    _math.rows_max(y, 0, a, 0, 1, matrix.ravel(), 0, n, rows, n)
    np.testing.assert_array_equal(y, (a[:, None] + matrix).max(axis=0))
    for b in range(n):  # ties go to the first
        assert _math.best_row(a, 0, 1, matrix.ravel(), b, n, rows) == np.argmax(a + matrix[:, b])
    z = np.zeros(rows)
    _math.rows_dot(z, 0, 1, x, 0, matrix.ravel(), 0, n, rows, n)
    np.testing.assert_allclose(z, matrix @ x, rtol=1e-13, atol=1e-13)


# --------------------------------------------------------------------------------------------------
# Short rows


@kernel(cache=False)
def run_add_rows(y, at, table, base, rows, start, stop, n):  # type: ignore[no-untyped-def]
    _vector_rows.add_rows(y, at, table, base, rows, start, stop, n)


@kernel(cache=False)
def run_add_to_rows(table, base, rows, start, stop, step, x, at, n):  # type: ignore[no-untyped-def]
    _vector_rows.add_to_rows(table, base, rows, start, stop, step, x, at, n)


@kernel(cache=False)
def run_weigh_row(parts, label, e, alpha, gain, state, beta, start, inverse, n):  # type: ignore[no-untyped-def]
    _vector_rows.weigh_row(parts, label, e, alpha, gain, state, beta, start, inverse, n)


@kernel(cache=False)
def run_extent(x, start, stop):  # type: ignore[no-untyped-def]
    return _vector_rows.extent(x, start, stop)


@settings(deadline=None)  # the first example compiles
@given(n=st.integers(1, 40), count=st.integers(0, 5), strided=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_short_rows(n: int, count: int, strided: bool, seed: int) -> None:
    """Every width, no neighbour touched, arrays with gaps between their elements too."""
    rng = np.random.default_rng(seed)
    size = 8 + 6 * n
    step = 2 if strided else 1
    y, x, table = (rng.normal(size=step * size)[::step] for _ in range(3))
    rows = rng.integers(0, 5, size=1 + count).astype(np.int32)

    def check(compiled: Any, plain: Any, outputs: tuple[Any, ...], *args: Any) -> None:
        found, expected = ([a.copy() if not strided else np.repeat(a, 2)[::2] for a in outputs] for _ in range(2))
        results = compiled(*found, *args), plain(*expected, *args)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
        if results[1] is not None:
            np.testing.assert_allclose(results[0], results[1], rtol=1e-13, atol=1e-13)

    if n >= _vectors.TILE:
        check(run_add_rows, _vector_rows.add_rows, (y,), 3, table, 2, rows, 1, 1 + count, n)
    check(run_add_to_rows, _vector_rows.add_to_rows, (table,), 2, rows, 1, 1 + count, 0.5, x, 3, n)
    check(_math.multiply_sum, _vector_rows.multiply_row, (y,), 3, x, 2, n)
    check(_math.total_size, _vector_rows.row_size, (y,), 3, n)


@settings(deadline=None)  # the first example compiles
@given(n=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_what_nothing_reaches_weighs_nothing(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, e, alpha, gain, beta = rng.random((5, n + 6))
    alpha[rng.random(n + 6) < 0.3] = 0.0
    beta[2 : 2 + n][alpha[4 : 4 + n] == 0.0] = np.inf
    expected, found = (parts.copy(), gain.copy()), (parts.copy(), gain.copy())
    _vector_rows.weigh_row(expected[0], 3, e, alpha, expected[1], 4, beta, 2, 0.7, n)
    run_weigh_row(found[0], 3, e, alpha, found[1], 4, beta, 2, 0.7, n)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert np.isfinite(found).all()


@settings(deadline=None)  # the first example compiles
@given(n=st.integers(_vectors.TILE, 40), hidden=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
def test_extremes(n: int, hidden: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n + 5)
    x[rng.random(n + 5) < hidden] = -np.inf
    assert run_extent(x, 2, 2 + n) == _vector_rows.extent(x, 2, 2 + n)
    inside = x[2 : 2 + n][np.isfinite(x[2 : 2 + n])]
    assert run_extent(x, 2, 2 + n) == (max(inside, default=-np.inf), min(inside, default=np.inf))
