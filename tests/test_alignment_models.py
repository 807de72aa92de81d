"""IBM models and the HMM against enumeration of all alignments, EM's monotony, symmetrisation, storage."""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from partwise.alignment import GenerativeAligner, association, symmetrise
from partwise.alignment._cooccurrence import cooccurrence, find_cells, pack_corpus
from partwise.alignment._jumps import fit_jumps, weights_to_jumps
from partwise.alignment._posteriors import HMM, MODEL1, MODEL2, direction_posteriors, margin_of, new_work
from partwise.alignment._training import Training
from partwise.alignment._viterbi import best_positions
from partwise.data import Bitext, load_sample_alignments
from partwise.estimators import load_model
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.metrics import alignment_scores
from partwise.storage import save

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
    for _ in range(20):  # fifty steps a call: an EM iteration goes on from where the last one ended
        found = fit_jumps(counts, windows, found)
    np.testing.assert_allclose(found / found.max(), truth / truth.max(), rtol=1e-3)


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


def test_diagonal_growth_by_hand():
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


@pytest.fixture(scope="module")
def sample():
    return load_sample_alignments()


@pytest.fixture(scope="module")
def fitted(sample):
    return GenerativeAligner(also=("model1", "model2"), prune=0.0).fit(sample.bitext)


def test_the_sample_teaches(sample, fitted):
    errors = {name: alignment_scores(sample.gold, fitted.predict(sample.bitext, name)).aer for name in fitted.models_}
    assert errors["hmm"] < 0.2 and errors["hmm"] < errors["model1"]
    alone = GenerativeAligner(agree=False).fit(sample.bitext)
    assert errors["hmm"] < alignment_scores(sample.gold, alone.predict(sample.bitext)).aer


def test_posteriors_are_probabilities(sample, fitted):
    for name in fitted.models_:
        found = fitted.posteriors(sample.bitext, name)
        assert len(found.forward) == len(sample.bitext)
        for (source, target), ahead, back, both in zip(
            sample.bitext, found.forward, found.backward, found.product, strict=True
        ):
            assert ahead.shape == back.shape == (len(source), len(target))
            assert (ahead >= 0).all() and (ahead.sum(axis=0) < 1 + 1e-5).all()
            assert (back >= 0).all() and (back.sum(axis=1) < 1 + 1e-5).all()
            assert (both == ahead * back).all()
        assert (found.log_likelihood < 0).all()


def test_threads_do_not_change_a_bit(sample):
    one, two = (GenerativeAligner(n_jobs=n, also=("model2",)).fit(sample.bitext) for n in (1, 2))
    for name in one.models_:
        for a, b in zip(one.models_[name].tables, two.models_[name].tables, strict=True):
            assert (a == b).all()
        for a, b in zip(one.models_[name].jumps, two.models_[name].jumps, strict=True):
            assert (a.weights == b.weights).all() and (a.starts == b.starts).all()
    assert one.trace_[-1]["forward"] == two.trace_[-1]["forward"]
    assert (one.posteriors(sample.bitext).forward.values == two.posteriors(sample.bitext).forward.values).all()


def test_save_and_load(sample, fitted, tmp_path):
    path = tmp_path / "aligner.partwise"
    fitted.save(path)
    for again in (GenerativeAligner.load(path), GenerativeAligner.load(path, mmap=True), load_model(path)):
        assert repr(again) == repr(fitted)
        for name in fitted.models_:
            a, b = fitted.posteriors(sample.bitext, name), again.posteriors(sample.bitext, name)
            assert (a.forward.values == b.forward.values).all() and (a.backward.values == b.backward.values).all()
        assert again.predict(sample.bitext[:9]) == fitted.predict(sample.bitext[:9])
        assert (again.associations(sample.bitext).values == fitted.associations(sample.bitext).values).all()
    broken = fitted.to_state()
    del broken[1]["hmm_pairs"]
    save(path, "generative-aligner", *broken)
    with pytest.raises(StorageError, match="not a complete generative-aligner"):
        GenerativeAligner.load(path)


@pytest.mark.parametrize("stop", [1, 5, 7, 12])
def test_a_killed_training_goes_on(sample, tmp_path, monkeypatch, stop):
    bitext, path = sample.bitext[:30], tmp_path / "run"
    whole = GenerativeAligner(also=("model1", "model2")).fit(bitext)
    step, calls = Training.step, itertools.count()

    def killed(self, agree):
        if next(calls) == stop:
            raise KeyboardInterrupt
        return step(self, agree)

    monkeypatch.setattr(Training, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        GenerativeAligner(also=("model1", "model2")).fit(bitext, checkpoint=path)
    monkeypatch.setattr(Training, "step", step)
    again = GenerativeAligner(also=("model1", "model2")).fit(bitext, checkpoint=path)
    assert [(r["model"], r["iteration"]) for r in again.trace_] == [(r["model"], r["iteration"]) for r in whole.trace_]
    for name in whole.models_:
        assert (again.models_[name].tables.pairs == whole.models_[name].tables.pairs).all()
        assert (again.models_[name].jumps[0].weights == whole.models_[name].jumps[0].weights).all()
    with pytest.raises(InputError, match="belongs to another run"):
        GenerativeAligner().fit(bitext, checkpoint=path)


def test_pruning_keeps_what_the_models_use(sample, fitted):
    pruned = GenerativeAligner(also=("model1", "model2"), prune=0.01).fit(sample.bitext)
    assert len(pruned.table_.columns) < 0.8 * len(fitted.table_.columns)
    for model in pruned.models_.values():
        assert len(model.tables.pairs) == len(pruned.table_.columns)
    kept = np.max([m.tables.pairs.max(axis=1) for m in pruned.models_.values()], axis=0)
    assert kept.min() >= 0.01
    full, less = (alignment_scores(sample.gold, a.predict(sample.bitext)).aer for a in (fitted, pruned))
    assert less == pytest.approx(full, abs=0.02)


def test_words_never_seen_align_by_position(fitted):
    pair = (["Zork", "the", "cat"], ["Zork", "le", "chat"])
    assert fitted.predict([pair]) == [[(0, 0), (1, 1), (2, 2)]]
    found = fitted.posteriors([pair])
    assert np.isfinite(found.forward.values).all() and np.isfinite(found.log_likelihood).all()
    assert fitted.associations([pair])[0][0].tolist() == [0, 0, 0]
    assert fitted.translations([pair])[0][0][0].tolist() == [0, 0, 0]


def test_sentences_longer_than_any_in_training(fitted):
    pair = (["the", "cat", "sleeps", "."] * 60, ["le", "chat", "dort", "."] * 60)
    for name in fitted.models_:
        found = fitted.posteriors([pair], name)
        assert found.forward[0].shape == (240, 240) and np.isfinite(found.forward.values).all()
    diagonal = [(i, i) for i in range(240)]
    assert len(set(fitted.predict([pair])[0]) & set(diagonal)) > 120  # a text that repeats itself has other ways
    assert fitted.best_alignments([pair])[0][0] == diagonal


def test_translations_and_counts(sample, fitted):
    pair = (["the", "report"], ["le", "rapport"])
    ahead, back = fitted.translations([pair])
    assert ahead[0][1, 1] > 0.5 and back[0][1, 1] > 0.5
    source, target = fitted.word_counts()
    assert source["report"] == sum("report" in e for e, _ in sample.bitext)
    assert target["rapport"] == sum("rapport" in f for _, f in sample.bitext)
    dice = fitted.associations([pair])[0][1, 1]
    together = sum("report" in e and "rapport" in f for e, f in sample.bitext)
    assert dice == pytest.approx(2 * together / (source["report"] + target["rapport"]))


def test_symmetrised_predictions(sample, fitted):
    links = {}
    for viterbi in (False, True):
        for method in ("forward", "backward", "intersection", "union", "grow-diag-final-and"):
            aligner = GenerativeAligner.from_state(*fitted.to_state())
            aligner.set_params(symmetrise=method, threshold=0.5, viterbi=viterbi)
            links[method] = [set(pair) for pair in aligner.predict(sample.bitext)]
        for a, b, both, some, grown in zip(*links.values(), strict=True):
            assert both == a & b and some == a | b and both <= grown <= some


def test_empty_input_and_length_limit(fitted, sample):
    assert fitted.predict([]) == [] and len(fitted.posteriors([]).forward) == 0 and fitted.best_alignments([]) == []
    aligner = GenerativeAligner(max_length=7).fit(sample.bitext)
    assert aligner.n_skipped_ == sum(max(len(e), len(f)) > 7 for e, f in sample.bitext) > 0
    with pytest.raises(InputError, match=r"no sentence pairs to train on \(150 longer than 1 words\)"):
        GenerativeAligner(max_length=1).fit(sample.bitext)
    with pytest.raises(InputError, match=r"pair 0: the target sentence is empty"):
        fitted.predict([(["a"], [])])


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"model": "hhm"}, "did you mean 'hmm'"),
        ({"also": ("model3",)}, "must be one of 'hmm', 'model1', 'model2'"),
        ({"iterations": 0}, "positive integers"),
        ({"iterations": {"hm": 3}}, "did you mean 'hmm'"),
        ({"null_probability": 0.0}, r"in \(0, 1\)"),
        ({"threshold": 1.5}, r"in \[0, 1\]"),
        ({"prune": -1.0}, r"in \[0, 1\)"),
        ({"prior": -0.1}, "0 or positive"),
        ({"max_jump": 0}, "a positive integer"),
        ({"max_length": 0}, "None or a positive integer"),
        ({"symmetrise": "inter"}, "must be one of 'backward'"),
    ],
)
def test_settings_are_checked(params, message):
    with pytest.raises(ParameterError, match=message):
        GenerativeAligner(**params).fit([(["a"], ["b"])])


def test_conduct(fitted, sample):
    from sklearn.base import clone
    from sklearn.exceptions import NotFittedError

    copy = clone(GenerativeAligner(model="model2", threshold=0.4))
    assert repr(copy) == "GenerativeAligner(model='model2', threshold=0.4)"
    with pytest.raises(NotFittedError):
        copy.predict([(["a"], ["b"])])
    with pytest.raises(ParameterError, match="must be one of 'hmm'"):
        GenerativeAligner.from_state(*GenerativeAligner().fit(sample.bitext).to_state()).posteriors([], "model1")


def test_progress_is_shown(sample, capsys):
    GenerativeAligner(model="model1", iterations=2, verbose=1).fit(sample.bitext[:10])
    assert "alignment: pass 2/2" in capsys.readouterr().err


def test_a_prior_smooths(sample):
    """Variational Bayes with a tiny prior sharpens rare words, with a large one it flattens the tables."""
    settings = {"model": "model1", "agree": False, "prune": 0.0}
    sharp, flat = (GenerativeAligner(prior=prior, **settings).fit(sample.bitext) for prior in (0.01, 10.0))
    assert sharp.models_["model1"].tables.pairs.max() > 0.9 > 0.5 > flat.models_["model1"].tables.pairs.max()


def test_runs_without_compilation():
    script = (
        "from partwise.alignment import GenerativeAligner\n"
        "pairs = [('the house'.split(), 'la maison'.split()), ('a house'.split(), 'une maison'.split())]\n"
        "a = GenerativeAligner(also=('model2',), iterations=3, prior=0.1).fit(pairs)\n"
        "print(a.predict(pairs), a.best_alignments(pairs)[0])"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    plain = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    del environment["NUMBA_DISABLE_JIT"]
    fast = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert plain.stdout == fast.stdout
