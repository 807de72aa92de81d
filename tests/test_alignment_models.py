"""IBM models and the HMM against enumeration of all alignments, EM's monotony, symmetrisation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

from partwise.alignment import association, symmetrise
from partwise.alignment._cooccurrence import cooccurrence, find_cells, pack_corpus
from partwise.alignment._jumps import fit_jumps, weights_to_jumps
from partwise.alignment._posteriors import HMM, MODEL1, MODEL2, direction_posteriors, margin_of, new_work
from partwise.alignment._training import Training
from partwise.alignment._viterbi import best_positions
from partwise.data import Bitext
from partwise.exceptions import ParameterError

NAMES = {"model1": MODEL1, "model2": MODEL2, "hmm": HMM}
REACH, P0 = 2, 0.15


class Enumerated:
    """Everything about one direction of one pair, from all (n + 1)^m alignments."""

    def __init__(self, model, emit, null, weights, starts, p0):
        m, n = emit.shape
        reach = len(starts) - 1
        self.total, self.links = 0.0, np.zeros((m, n))
        self.jumps, self.starts = np.zeros(2 * reach + 1), np.zeros(reach + 1)
        self.windows = np.zeros((n, n))
        self.best, self.best_value = None, -1.0

        def weight(d):
            return weights[reach + max(-reach, min(reach, d))]

        for alignment in itertools.product(range(-1, n), repeat=m):
            p, last, moves, begun, left = 1.0, None, [], [], []
            for t, i in enumerate(alignment):
                if i < 0:
                    p *= p0 * null[t]
                    continue
                p *= (1 - p0) * emit[t, i]
                if model == MODEL1:
                    p /= n
                elif model == HMM and last is None:
                    p *= starts[min(i, reach)] / sum(starts[min(k, reach)] for k in range(n))
                    begun.append(min(i, reach))
                else:
                    origin = last if model == HMM else int((t + 0.5) * n / m)
                    p *= weight(i - origin) / sum(weight(k - origin) for k in range(n))
                    moves.append(reach + max(-reach, min(reach, i - origin)))
                    left.append(origin)
                last = i
            self.total += p
            if p > self.best_value:
                self.best, self.best_value = alignment, p
            for t, i in enumerate(alignment):
                if i >= 0:
                    self.links[t, i] += p
            np.add.at(self.jumps, moves, p)
            np.add.at(self.starts, begun, p)
            for origin in left:
                self.windows[origin, n - 1 - origin] += p
        for array in (self.links, self.jumps, self.starts, self.windows):
            array /= self.total


def random_direction(seed, n, m):
    rng = np.random.default_rng(seed)
    emit, null = rng.uniform(0.01, 1, (m, n)) ** 3, rng.uniform(0.01, 1, m)
    emit[rng.random((m, n)) < 0.15] = 0.0
    return emit, null, rng.uniform(0.1, 1, 2 * REACH + 1), rng.uniform(0.1, 1, REACH + 1)


def loaded(emit, null):
    m, n = emit.shape
    work, margin = new_work(n * m, max(n, m), margin_of(REACH)), margin_of(REACH)
    for t in range(m):
        work.posteriors[t * (n + 2 * margin) + margin :][:n] = emit[t]
    work.null[:m] = null
    return work, margin


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (4, 1), (2, 3), (5, 4), (6, 3), (4, 5)])
def test_posteriors_and_expected_jumps_equal_enumeration(name, n, m):
    model = NAMES[name]
    emit, null, weights, starts = random_direction(10 * n + m, n, m)
    truth = Enumerated(model, emit, null, weights, starts, P0)
    work, margin = loaded(emit, null)
    jumps, windows, begun = np.zeros(2 * REACH + 1), np.zeros((n, n)), np.zeros((n + 1, REACH + 1))
    table = weights_to_jumps(weights, starts, n)
    likelihood = direction_posteriors(model, n, m, margin, table, P0, work, True, jumps, windows, begun)
    stride = n + 2 * margin
    links = np.array([work.posteriors[t * stride + margin :][:n] for t in range(m)])
    assert likelihood == pytest.approx(math.log(truth.total), rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(links, truth.links, atol=3e-6)
    np.testing.assert_allclose(work.null[:m], 1 - truth.links.sum(axis=1), atol=3e-6)
    if model != MODEL1:
        np.testing.assert_allclose(jumps, truth.jumps, atol=1e-5)
        np.testing.assert_allclose(windows, truth.windows, atol=1e-5)
    if model == HMM:
        np.testing.assert_allclose(begun[n], truth.starts, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(6))
def test_the_best_alignment_is_that_of_enumeration(name, seed):
    n, m = 2 + seed % 4, 5 - seed % 3
    emit, null, weights, starts = random_direction(seed, n, m)
    truth = Enumerated(NAMES[name], emit, null, weights, starts, P0)
    work, margin = loaded(emit, null)
    best, table = np.empty(m, np.int32), weights_to_jumps(weights, starts, n)
    best_positions(NAMES[name], name == "model2", n, m, margin, table, P0, work, best)
    assert tuple(best) == truth.best


CORPUS = [("a b", "x y"), ("a c b", "x z"), ("c", "z z x"), ("b b", "y w"), ("d a", "w x y")]


def small_training(n_threads=1, prior=0.0, pairs=CORPUS):
    bitext = Bitext.from_pairs([(e.split(), f.split()) for e, f in pairs])
    corpus = pack_corpus(bitext.source, bitext.target)
    table, cells = cooccurrence(corpus, len(bitext.source.vocab), len(bitext.target.vocab))
    return bitext, Training(corpus, table, cells, reach=REACH, p0=P0, prior=prior, n_threads=n_threads)


def dense(training, shape):
    """p(f | e) and p(e | f) as |E| × |F| matrices."""
    table, pairs = training.cooccurrence, training.current.tables.pairs
    out = np.zeros((2, *shape))
    rows = np.repeat(np.arange(shape[0]), np.diff(table.rows))
    out[:, rows, table.columns] = pairs.T
    return out


@pytest.mark.parametrize("agree", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_one_step_of_em_equals_enumeration(name, agree):
    bitext, training = small_training()
    rng = np.random.default_rng(4)
    tables = training.current.tables
    for array in tables:
        array[...] = rng.uniform(0.05, 1, array.shape)
    training.begin(name)
    weights, starts = rng.uniform(0.1, 1, (2, 2 * REACH + 1)), rng.uniform(0.1, 1, (2, REACH + 1))
    both = zip(weights, starts, strict=True)
    training.current.jumps = tuple(weights_to_jumps(w, s, training.longest) for w, s in both)
    shape = len(bitext.source.vocab), len(bitext.target.vocab)
    probability, null = dense(training, shape), (tables.null_target.copy(), tables.null_source.copy())
    counts, empty, expected = np.zeros((2, *shape)), [np.zeros(shape[1]), np.zeros(shape[0])], np.zeros(2)
    for s in range(len(bitext)):
        e, f = (side.codes[side.offsets[s] : side.offsets[s + 1]] for side in (bitext.source, bitext.target))
        ahead = Enumerated(NAMES[name], probability[0][np.ix_(e, f)].T, null[0][f], weights[0], starts[0], P0)
        back = Enumerated(NAMES[name], probability[1][np.ix_(e, f)], null[1][e], weights[1], starts[1], P0)
        expected += math.log(ahead.total), math.log(back.total)
        product = ahead.links.T * back.links
        for side, links in enumerate((product, product) if agree else (ahead.links.T, back.links)):
            np.add.at(counts[side], np.ix_(e, f), links)
        np.add.at(empty[0], f, 1 - ahead.links.sum(axis=1))
        np.add.at(empty[1], e, 1 - back.links.sum(axis=1))
    likelihood = training.step(agree)
    np.testing.assert_allclose(likelihood, expected, rtol=1e-5)
    found = dense(training, shape)
    np.testing.assert_allclose(found[0], counts[0] / counts[0].sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(found[1], counts[1] / counts[1].sum(axis=0, keepdims=True), atol=1e-5)
    np.testing.assert_allclose(training.current.tables.null_target, empty[0] / empty[0].sum(), atol=1e-5)
    np.testing.assert_allclose(training.current.tables.null_source, empty[1] / empty[1].sum(), atol=1e-5)


def random_corpus(seed, n_pairs=60):
    rng = np.random.default_rng(seed)
    word = [[f"{side}{w}" for w in range(12)] for side in "ef"]
    return [
        tuple(" ".join(rng.choice(words, rng.integers(1, 9), p=np.arange(12, 0, -1) / 78)) for words in word)
        for _ in range(n_pairs)
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_likelihood_never_falls(name, seed):
    _, training = small_training(pairs=random_corpus(seed))
    values = []
    for model, count in (("model1", 3), (name, 12)):
        training.begin(model)
        values = [training.step(False) for _ in range(count)]
    steps = np.diff(values, axis=0)
    assert (steps > -1e-6 * np.abs(values[0])).all()
    assert (steps[0] > 0).all()


def test_fitted_jumps_are_a_maximum():
    """No weight can be changed to the better: the gradient of the objective in log c is 0 (Hunter 2004)."""
    rng = np.random.default_rng(0)
    reach, longest = 3, 7
    windows = np.zeros((longest, longest))
    counts = np.zeros(2 * reach + 1)
    truth = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 0.4, 0.05])
    for n in range(2, longest + 1):
        for origin in range(n):
            bucket = np.clip(np.arange(n) - origin, -reach, reach) + reach
            p = truth[bucket] / truth[bucket].sum()
            windows[origin, n - 1 - origin] += (mass := rng.uniform(5, 50))
            np.add.at(counts, bucket, mass * p)
    found = fit_jumps(counts, windows, np.ones(2 * reach + 1))
    np.testing.assert_allclose(found / found.max(), truth / truth.max(), rtol=1e-6)


@pytest.mark.parametrize("seed", range(25))
def test_one_call_reaches_the_maximum_of_the_jump_step(seed):
    """Against scipy, from counts and windows of very different sizes: hard for a first-order method."""
    rng = np.random.default_rng(seed)
    reach, longest = 4, 12
    counts, windows = np.zeros(2 * reach + 1), np.zeros((longest, longest))
    for n in rng.integers(2, longest + 1, 3):
        for origin in range(n):
            bucket = np.clip(np.arange(n) - origin, -reach, reach) + reach
            windows[origin, n - 1 - origin] += (mass := 10.0 ** rng.uniform(-3, 3))
            np.add.at(counts, bucket, mass * rng.dirichlet(np.full(n, 0.02)))
    held = counts > 1e-6 * counts.sum()

    def loss(free):
        logs = np.full(2 * reach + 1, np.log(1e-9))
        logs[held] = free
        value = counts @ logs
        for before, after in zip(*np.nonzero(windows), strict=True):
            bucket = np.clip(np.arange(-before, after + 1), -reach, reach) + reach
            value -= windows[before, after] * np.log(np.exp(logs[bucket]).sum())
        return -value / counts.sum()

    best = optimize.minimize(loss, np.zeros(held.sum()), method="L-BFGS-B", bounds=[(-20.7, 0)] * held.sum(), tol=1e-14)
    found = np.log(fit_jumps(counts, windows, np.ones(2 * reach + 1)))
    assert loss(found[held]) < best.fun + 1e-6


def test_cooccurrence_by_hand():
    bitext, training = small_training()
    table, cells = training.cooccurrence, training.cells
    seen: dict = {}
    for s, (source, target) in enumerate(bitext):
        for e, f in itertools.product(set(source), set(target)):
            seen.setdefault((e, f), set()).add(s)
    words = bitext.source.vocab, bitext.target.vocab
    found = {}
    for e in range(len(words[0])):
        columns = table.columns[table.rows[e] : table.rows[e + 1]]
        assert (np.diff(columns) > 0).all()
        for k in range(table.rows[e], table.rows[e + 1]):
            found[words[0][e], words[1][table.columns[k]]] = int(table.together[k])
    assert found == {pair: len(where) for pair, where in seen.items()}
    at = 0
    for source, target in bitext:
        for e, f in itertools.product(source, target):
            k = cells[at]
            row = int(np.searchsorted(table.rows, k, side="right")) - 1
            assert (words[0][row], words[1][table.columns[k]]) == (e, f)
            at += 1
    again = np.empty_like(cells)
    find_cells(table, training.corpus, again)
    assert (again == cells).all()


FORWARD, BACKWARD = [(0, 0), (1, 1), (1, 2), (4, 4)], [(0, 0), (1, 1), (2, 2), (3, 5), (4, 3)]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("forward", FORWARD),
        ("backward", BACKWARD),
        ("intersection", [(0, 0), (1, 1)]),
        ("union", sorted({*FORWARD, *BACKWARD})),
        # (1,2) is beside (1,1) and has a free target; then (2,2) is beside (1,2) and has a free source.
        ("grow", [(0, 0), (1, 1), (1, 2), (2, 2)]),
        # (4,3) or (4,4) touch nothing chosen: (2,2) reaches (3,3) at most.
        ("grow-diag", [(0, 0), (1, 1), (1, 2), (2, 2)]),
        # (4,4) first (forward); then (4,3) has a free target, (3,5) a free source and target.
        ("grow-diag-final", [(0, 0), (1, 1), (1, 2), (2, 2), (3, 5), (4, 3), (4, 4)]),
        # (4,3) has a source that is taken by (4,4).
        ("grow-diag-final-and", [(0, 0), (1, 1), (1, 2), (2, 2), (3, 5), (4, 4)]),
    ],
)
def test_symmetrisations_by_hand(method, expected):
    assert symmetrise(FORWARD, BACKWARD, method) == expected


def symal(source_to_target, target_to_source, diagonal, final, both):
    """The rules of Moses' symal for two functions, on a grid: rows are target words, columns source words.

    0 is no link of either direction; a link of target_to_source that is not chosen is +1, of source_to_target −1, a
    chosen link 2. A scan goes through the grid row by row and grows from what is chosen when it gets there.
    """
    grid = np.zeros((len(target_to_source), len(source_to_target)), int)
    for column, row in enumerate(source_to_target):
        if row is not None:
            grid[row, column] = 2 if target_to_source[row] == column else -1
    for row, column in enumerate(target_to_source):
        if column is not None and grid[row, column] == 0:
            grid[row, column] = 1
    steps = [(-1, 0), (0, -1), (1, 0), (0, 1)] + [(-1, -1), (-1, 1), (1, -1), (1, 1)] * diagonal

    def has_link(row, column):
        return (grid[row] == 2).any(), (grid[:, column] == 2).any()

    added = True
    while added:
        added = False
        for row, column in np.ndindex(grid.shape):
            for down, right in steps if grid[row, column] == 2 else ():
                r, c = row + down, column + right
                if 0 <= r < grid.shape[0] and 0 <= c < grid.shape[1] and grid[r, c] and not all(has_link(r, c)):
                    grid[r, c], added = 2, True
    for mark in (1, -1) if final else ():
        for row, column in np.argwhere(grid == mark):
            covered = has_link(row, column)
            if not any(covered) if both else not all(covered):
                grid[row, column] = 2
    return sorted((int(column), int(row)) for row, column in np.argwhere(grid == 2))


def test_growing_is_that_of_symal():
    """20,000 random pairs of functions, a quarter of them for each method."""
    methods = {
        "grow": (False, False, False),
        "grow-diag": (True, False, False),
        "grow-diag-final": (True, True, False),
        "grow-diag-final-and": (True, True, True),
    }
    rng = np.random.default_rng(0)
    for n in range(20_000):
        method = list(methods)[n % 4]
        width, height = rng.integers(2, 7, 2)
        ahead = [None if rng.random() < 0.2 else int(rng.integers(height)) for _ in range(width)]
        back = [None if rng.random() < 0.2 else int(rng.integers(width)) for _ in range(height)]
        forward = [(i, j) for j, i in enumerate(back) if i is not None]
        backward = [(i, j) for i, j in enumerate(ahead) if j is not None]
        assert symmetrise(forward, backward, method) == symal(ahead, back, *methods[method])


def test_diagonal_growth_by_hand():
    found = symmetrise([(0, 3), (1, 0), (2, 1)], [(0, 0), (1, 2), (2, 1)], "grow-diag")
    assert found == [(0, 3), (1, 0), (1, 2), (2, 1)]  # (1,2) is added ahead of the scan, and (0,3) from it at once
    assert symmetrise([(0, 0), (1, 1)], [(0, 0)], "grow") == [(0, 0)]
    assert symmetrise([(0, 0), (1, 1)], [(0, 0)], "grow-diag") == [(0, 0), (1, 1)]
    # Both words of (1, 0) and (0, 1) have links once (0, 0) and (1, 1) are there.
    assert symmetrise([(0, 0), (1, 1), (1, 0)], [(0, 0), (1, 1), (0, 1)], "grow-diag-final") == [(0, 0), (1, 1)]
    with pytest.raises(ParameterError, match="did you mean 'grow-diag'"):
        symmetrise([], [], "grow_diag")


def test_associations_by_hand():
    # e in 4 of 10 pairs, f in 5, together in 3.
    values = {m: float(association(3.0, 4.0, 5.0, 10, m)) for m in ("dice", "jaccard", "phi2", "pmi", "llr")}
    assert values["dice"] == pytest.approx(6 / 9) and values["jaccard"] == pytest.approx(3 / 6)
    assert values["phi2"] == pytest.approx((3 * 4 - 1 * 2) ** 2 / (4 * 5 * 6 * 5))
    assert values["pmi"] == pytest.approx(math.log(10 * 3 / 20))
    observed = {(3, 4, 5), (1, 4, 5), (2, 6, 5), (4, 6, 5)}
    assert values["llr"] == pytest.approx(2 * sum(o * math.log(o * 10 / (r * c)) for o, r, c in observed))
    assert association(0.0, 0.0, 5.0, 10, "phi2") == 0.0
    with pytest.raises(ParameterError, match="did you mean 'dice'"):
        association(1.0, 1.0, 1.0, 2, "dise")
