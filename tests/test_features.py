"""Feature maps: scores and adjoint are transposes of one matrix, which is written out here from its meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import random_rows, row_matrix, tiny, transition_matrix

from partwise.exceptions import InputError
from partwise.features import (
    ChainFeatures,
    DenseLayout,
    Features,
    MatrixFeatures,
    RowFeatures,
    RowLayout,
    RowMatrix,
    Vocabulary,
)
from partwise.features.base import accumulate, feature_parts, feature_scores, norm_and_clear, squared_norm
from partwise.features.inputs import dense_rows, input_kind
from partwise.learners import DCA, LBFGS, SGD
from partwise.structures import Chain

Floats = NDArray[np.float64]
PROPERTY = settings(max_examples=25, derandomize=True, database=None, deadline=None)


@dataclass(frozen=True)
class Case:
    """A feature map and the matrix that it is, for every instance."""

    features: Features
    matrices: list[Floats]
    weights: NDArray[np.int64]  # where in θ a weight exists


def all_weights(dim: int) -> NDArray[np.int64]:
    return np.arange(dim)


def sparse_rows(rng: np.random.Generator, real: bool, every: bool, n_labels: int = 6) -> Case:
    lengths = rng.integers(1, 5, size=3)
    rows = random_rows(rng, lengths, 10, real)
    layout = RowLayout.observed(rows, rng.integers(n_labels, size=rows.n_rows), n_labels, every=every)
    matrices = [row_matrix(rows, layout, i, layout.dim) for i in range(3)]
    return Case(RowFeatures(layout.pack(rows), layout.dim), matrices, layout.positions())


def tied(rng: np.random.Generator, order: int, dense: bool) -> Case:
    n_labels, lengths = (6, 3, 2)[order - 1], rng.integers(1, 5, size=3)
    rows: Any
    if dense:
        arrays = [rng.normal(size=(n, 3)) * (rng.random((n, 3)) < 0.7) for n in lengths]
        layout: Any = DenseLayout(3, n_labels)
        rows = layout.pack(*dense_rows(arrays))
        dim = layout.dim
        total = dim + sum(n_labels ** (j + 1) for j in range(1, order + 1))
        labels = []
        for x in arrays:
            out = np.zeros((total, len(x) * n_labels))
            for t, d, b in np.ndindex(len(x), 3, n_labels):
                out[d * n_labels + b, t * n_labels + b] = x[t, d]
            labels.append(out)
    else:
        matrix = random_rows(rng, lengths, 10, real=bool(rng.integers(2)))
        layout = RowLayout.observed(matrix, rng.integers(n_labels, size=matrix.n_rows), n_labels)
        rows, dim = layout.pack(matrix), layout.dim
        total = dim + sum(n_labels ** (j + 1) for j in range(1, order + 1))
        labels = [row_matrix(matrix, layout, i, total) for i in range(3)]
    transitions = transition_matrix(n_labels, order, dim, total)
    weights = np.append(layout.positions(), np.arange(dim, total))
    features = ChainFeatures(rows, dim, n_labels, order)
    assert features.dim == total
    return Case(features, [np.hstack([label, transitions]) for label in labels], weights)


def repeated(rng: np.random.Generator, order: int) -> Case:
    """The weights of a tied chain for every position of an untied one: the block of its history length."""
    n_labels, lengths = (4, 3, 2)[order - 1], rng.integers(1, 6, size=3)
    matrix = random_rows(rng, lengths, 10)
    layout = RowLayout.observed(matrix, rng.integers(n_labels, size=matrix.n_rows), n_labels)
    features = ChainFeatures(layout.pack(matrix), layout.dim, n_labels, order, tied=False)
    blocks = transition_matrix(n_labels, order, layout.dim, features.dim)
    ends = np.cumsum([0] + [n_labels ** (j + 1) for j in range(1, order + 1)])
    matrices = [
        np.hstack(
            [row_matrix(matrix, layout, i, features.dim)]
            + [blocks[:, ends[min(t, order) - 1] : ends[min(t, order)]] for t in range(1, lengths[i])]
        )
        for i in range(3)
    ]
    space = Chain(lengths, n_labels, order=order, tied=False)
    assert [space.n_parts(i) for i in range(3)] == [m.shape[1] for m in matrices]
    return Case(features, matrices, np.append(layout.positions(), np.arange(layout.dim, features.dim)))


def edges(rng: np.random.Generator) -> Case:
    """Position-dependent transitions: rows of edge attributes with L² outputs, none for a sequence of length 1."""
    n_labels, lengths = 3, np.array([3, 1, 4])
    rows = random_rows(rng, lengths, 10)
    layout = RowLayout.observed(rows, rng.integers(n_labels, size=rows.n_rows), n_labels)
    pairs = random_rows(rng, lengths - 1, 5)
    seen = rng.integers(n_labels**2, size=pairs.n_rows)
    pair_layout = RowLayout.observed(pairs, seen, n_labels**2)
    pair_layout.base = layout.dim
    features = ChainFeatures(layout.pack(rows), layout.dim, n_labels, edges=(pair_layout.pack(pairs), pair_layout.dim))
    matrices = [
        np.hstack([row_matrix(rows, layout, i, features.dim), row_matrix(pairs, pair_layout, i, features.dim)])
        for i in range(3)
    ]
    space = Chain(lengths, n_labels, tied=False)
    assert [space.n_parts(i) for i in range(3)] == [m.shape[1] for m in matrices]
    return Case(features, matrices, np.append(layout.positions(), pair_layout.positions()))


def explicit(rng: np.random.Generator, sparse: bool) -> Case:
    matrices = [rng.normal(size=(5, n)) * (rng.random((5, n)) < 0.5) for n in (4, 1, 6)]
    given = [scipy.sparse.csr_array(m) for m in matrices] if sparse else matrices
    return Case(MatrixFeatures(given), matrices, all_weights(5))


MAPS: dict[str, Any] = {
    "rows, observed": lambda rng: sparse_rows(rng, real=True, every=False),
    "binary rows, observed": lambda rng: sparse_rows(rng, real=False, every=False),
    "rows, all pairs": lambda rng: sparse_rows(rng, real=True, every=True),
    "binary rows, all pairs": lambda rng: sparse_rows(rng, real=False, every=True),
    "order 1": lambda rng: tied(rng, 1, dense=False),
    "order 2": lambda rng: tied(rng, 2, dense=False),
    "order 3": lambda rng: tied(rng, 3, dense=False),
    "dense, order 1": lambda rng: tied(rng, 1, dense=True),
    "dense, order 2": lambda rng: tied(rng, 2, dense=True),
    "untied, order 1": lambda rng: repeated(rng, 1),
    "untied, order 2": lambda rng: repeated(rng, 2),
    "untied, order 3": lambda rng: repeated(rng, 3),
    "edge rows": edges,
    "matrices": lambda rng: explicit(rng, sparse=False),
    "sparse matrices": lambda rng: explicit(rng, sparse=True),
}


@pytest.mark.parametrize("name", MAPS)
@PROPERTY
@given(seed=st.integers(0, 9999), step=st.floats(-2, 2), at=st.integers(0, 3))
def test_scores_and_adjoint_are_the_matrix(name: str, seed: int, step: float, at: int) -> None:
    """F'θ and θ + step·F parts, with parts that begin anywhere in the buffer, and (F'θ)·parts = θ·(F parts)."""
    rng = np.random.default_rng(seed)
    case = MAPS[name](rng)
    i = int(rng.integers(3))
    pack, matrix = case.features.pack, case.matrices[i]
    n = matrix.shape[1]
    assert feature_parts(pack, i) == n and case.features.dim == matrix.shape[0]
    theta = np.zeros(case.features.dim)
    theta[case.weights] = rng.normal(size=len(case.weights))
    scores, before = np.full(at + n + 2, np.nan), theta.copy()
    feature_scores(pack, i, theta, scores, at)
    np.testing.assert_allclose(scores[at : at + n], matrix.T @ theta, rtol=1e-12, atol=1e-12)
    assert np.isnan(scores[:at]).all() and np.isnan(scores[at + n :]).all(), "wrote outside its parts"
    np.testing.assert_array_equal(theta, before)

    parts = np.full(at + n + 2, np.nan)
    parts[at : at + n] = rng.normal(size=n) * (rng.random(n) < 0.6)
    target = theta.copy()
    accumulate(pack, i, parts, at, step, target)
    mixed = matrix @ parts[at : at + n]
    np.testing.assert_allclose(target, theta + step * mixed, rtol=1e-12, atol=1e-12)

    adjoint = np.zeros_like(theta)
    case.features.accumulate(i, parts[at : at + n].copy(), 1.0, adjoint)
    left, right = case.features.scores(i, theta) @ parts[at : at + n], theta @ adjoint
    np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", MAPS)
@PROPERTY
@given(seed=st.integers(0, 9999))
def test_squared_norm_leaves_the_scratch_clean(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    case = MAPS[name](rng)
    i = int(rng.integers(3))
    n = case.matrices[i].shape[1]
    pack, scratch = case.features.pack, np.zeros(case.features.dim)
    for parts in (rng.normal(size=n) * (rng.random(n) < 0.5), np.zeros(n)):
        expected = float(((case.matrices[i] @ parts) ** 2).sum())
        np.testing.assert_allclose(squared_norm(pack, i, parts, scratch), expected, rtol=1e-12, atol=1e-12)
        assert not scratch.any()
        shifted = np.append([np.nan, np.nan], parts)
        accumulate(pack, i, shifted, 2, -3.0, scratch)
        norm = norm_and_clear(pack, i, shifted, 2, scratch)
        np.testing.assert_allclose(norm, 9 * expected, rtol=1e-12, atol=1e-12)
        assert not scratch.any()


def test_the_cases_have_dense_rows_and_single_weights() -> None:
    """What the tests above are about: both regions of θ, a mask with holes, an attribute without weights."""
    case = sparse_rows(np.random.default_rng(0), real=True, every=False)
    pack = case.features.pack
    assert len(pack.attributes) and len(pack.weights) and 0 in pack.mask and 1 in pack.mask
    assert len(edges(np.random.default_rng(0)).features.pack.second.weights)


# --------------------------------------------------------------------------------------------------
# Which weights exist


@PROPERTY
@given(seed=st.integers(0, 9999), n_labels=st.integers(1, 9), known=st.booleans())
def test_observed_pairs_are_exactly_those_observed(seed: int, n_labels: int, known: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, [3, 4], 8, real=False)
    outputs = rng.integers(0 if known else -1, n_labels, size=rows.n_rows)
    seen = set()
    for r, b in enumerate(outputs):
        seen |= {(int(a), int(b)) for a in rows.attributes[rows.indptr[r] : rows.indptr[r + 1]] if b >= 0}
    layout = RowLayout.observed(rows, outputs, n_labels)
    pairs = list(zip(*(x.tolist() for x in layout.pairs()), strict=True))
    assert set(pairs) == seen and len(pairs) == len(seen)
    positions = layout.positions()
    assert len(np.unique(positions)) == len(pairs) and (positions < layout.dim).all()
    every = RowLayout.observed(rows, outputs, n_labels, every=True)
    assert len(every.pairs()[0]) == every.dim == 8 * n_labels


def test_a_pair_seen_often_is_observed() -> None:
    """256 occurrences, which a count in a byte would call none."""
    indptr, attributes = np.arange(257), np.zeros(256, np.int32)
    rows = RowMatrix(np.array([0, 256]), indptr, attributes, np.zeros(0), 1)
    layout = RowLayout.observed(rows, np.full(256, 7), n_outputs=9)
    assert [x.tolist() for x in layout.pairs()] == [[0], [7]]


@pytest.mark.parametrize("learner", [DCA(max_passes=3), SGD(max_passes=3, eta=0.1), LBFGS(max_passes=5)])
def test_cells_that_do_not_exist_stay_zero(learner: Any) -> None:
    case = tiny(seed=1, lengths=(4, 4, 3, 4), n_labels=3)
    assert 0 in case.layout.mask
    theta = learner.fit(case.problem("crf")).theta
    missing = np.setdiff1d(np.arange(len(theta)), case.weights)
    assert len(missing) and not theta[missing].any() and theta[case.weights].any()


# --------------------------------------------------------------------------------------------------
# What people hand over


def test_all_kinds_of_input_give_the_same_scores() -> None:
    rng = np.random.default_rng(3)
    names = [f"w={a}" for a in "abcde"]
    tables = [rng.integers(2, size=(n, 5)) for n in (3, 1, 4)]
    strings = [[[name for name, x in zip(names, row, strict=True) if x] for row in table] for table in tables]
    flags = [[dict(zip(names, map(bool, row), strict=True)) for row in table] for table in tables]
    values = [[{"w": row[0][2:]} if len(row) == 1 else row for row in seq] for seq in strings]
    assert any(isinstance(row, dict) for seq in values for row in seq)
    kinds: dict[str, RowMatrix] = {
        "strings": Vocabulary(names).read(strings, grow=False),
        "flags": Vocabulary(names).read(flags, grow=False),
        "numbers": Vocabulary(names).read(
            [[{n: float(x) for n, x in row.items()} for row in seq] for seq in flags], grow=True
        ),
        "strings in dicts": Vocabulary(names).read(values, grow=False),
        "csr": RowMatrix.from_csr([scipy.sparse.csr_matrix(table) for table in tables]),
        "csr arrays": RowMatrix.from_csr([scipy.sparse.csr_array(table.astype(float)) for table in tables]),
    }
    theta = rng.normal(size=15)
    dense = RowFeatures(DenseLayout(5, 3).pack(*dense_rows(tables)), 15)
    for name, rows in kinds.items():
        assert rows.offsets.tolist() == [0, 3, 4, 8], name
        assert len(rows.values) == 0, "ones need not be stored"
        layout = RowLayout(5, 3)
        features = RowFeatures(layout.pack(rows), layout.dim)
        attributes, outputs = layout.pairs()
        weights = np.empty(15)
        weights[layout.positions()] = theta[attributes * 3 + outputs]
        for i, table in enumerate(tables):
            expected = (table @ theta.reshape(5, 3)).ravel()
            np.testing.assert_allclose(features.scores(i, weights), expected, atol=1e-12, err_msg=name)
            np.testing.assert_allclose(dense.scores(i, theta), expected, atol=1e-12)
    assert [input_kind(x) for x in (strings, flags, tables)] == ["strings", "strings", "dense"]
    assert input_kind([scipy.sparse.csr_array(tables[0])]) == "csr"


def test_values_survive() -> None:
    """Numbers of dicts and of CSR matrices, a repeated attribute, a row that turns dicts on half way."""
    vocabulary = Vocabulary()
    rows = vocabulary.read([[["a", "b", "a"], {"b": 2.5, "c": 0.0, "d": -1}], [["d"]]], grow=True)
    assert vocabulary.names == ["a", "b", "d"] and len(vocabulary) == 3
    table = scipy.sparse.csr_array(([1.0, 1.0, 1.0, 2.5, -1.0, 1.0], [0, 1, 0, 1, 2, 2], [0, 3, 5, 6]))
    other = RowMatrix.from_csr(table, rows.offsets)
    theta, layout = np.array([1.0, 10.0, 100.0]), RowLayout(3, 1)
    weights = np.empty(3)
    weights[layout.positions()] = theta[layout.pairs()[0]]
    for matrix in (rows, other):
        features = RowFeatures(layout.pack(matrix), 3)
        assert features.scores(0, weights).tolist() == [12.0, -75.0]
        assert features.scores(1, weights).tolist() == [100.0]


def test_unseen_attributes_are_dropped() -> None:
    vocabulary = Vocabulary()
    seen = vocabulary.read([[["a", "b"], ["b"]]], grow=True)
    unseen = [[["a", "z"], ["y"], {"b": 3.0, "x": 5.0}]]
    rows = vocabulary.read(unseen, grow=False)
    assert vocabulary.names == ["a", "b"] and rows.n_rows == 3
    assert rows.attributes.tolist() == [0, 1] and rows.values.tolist() == [1.0, 3.0]
    layout = RowLayout.observed(seen, np.array([0, 1]), 2)
    features = RowFeatures(layout.pack(rows), layout.dim)
    assert features.scores(0, np.ones(layout.dim))[2:4].tolist() == [0.0, 0.0]


def test_messages() -> None:
    with pytest.raises(InputError, match="rows have 5 attributes; expected at most 3"):
        RowLayout(3, 2).pack(random_rows(np.random.default_rng(0), [2], 5))
    with pytest.raises(InputError, match="rows have 2 columns; expected 3"):
        DenseLayout(3, 2).pack(np.array([0, 1]), np.zeros((1, 2)))
    with pytest.raises(InputError, match="matrix of instance 1 has 3 rows; expected 2"):
        MatrixFeatures([np.eye(2), np.eye(3)])
    with pytest.raises(InputError, match="matrix of instance 1 holds NaN or infinity"):
        MatrixFeatures([np.eye(2), np.full((2, 1), np.nan)])
    with pytest.raises(InputError, match=f"{2**31} weights are more than 2\\^31"):
        RowLayout(2**15, 2**16)


@pytest.mark.parametrize("n_labels", [2, 9])
@pytest.mark.parametrize("real", [False, True])
def test_rows_that_are_looked_up_score_as_packed_ones_do(n_labels: int, real: bool) -> None:
    """To the last bit: a model predicts what it predicted while it was trained."""
    rng = np.random.default_rng(n_labels + real)
    rows = random_rows(rng, rng.integers(1, 6, size=20), 40, real)
    labels = rng.integers(n_labels, size=rows.n_rows)
    labels[rng.random(rows.n_rows) < 0.5] = 0
    layout = RowLayout.observed(rows, labels, n_labels)
    assert n_labels == 2 or 0 < layout.n_dense < layout.n_attributes
    theta = rng.normal(size=layout.dim)
    packed, indexed = layout.pack(rows), layout.index(rows)
    for i in range(20):
        n = feature_parts(packed, i)
        assert feature_parts(indexed, i) == n
        both = np.full((2, n + 3), np.nan)
        feature_scores(packed, i, theta, both[0], 3)
        feature_scores(indexed, i, theta, both[1], 3)
        np.testing.assert_array_equal(*both)
    with pytest.raises(InputError, match="attributes"):
        layout.index(replace(rows, n_attributes=layout.n_attributes + 1))
