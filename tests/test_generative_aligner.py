"""GenerativeAligner as its users meet it: what the sample teaches, storage, resuming, input, settings."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from partwise.alignment import GenerativeAligner
from partwise.alignment._training import Training
from partwise.data import load_sample_alignments
from partwise.estimators import load_model
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.metrics import alignment_scores
from partwise.storage import save


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


def test_pruning_everything_leaves_a_model_without_translations():
    pairs = [(["a", "b"], ["c", "d"]), (["b", "a", "a"], ["d", "c"])]
    aligner = GenerativeAligner(prune=0.9999).fit(pairs)
    assert not len(aligner.table_.columns)
    for found in (*aligner.translations(pairs), aligner.associations(pairs)):
        assert [matrix.shape for matrix in found] == [(len(e), len(f)) for e, f in pairs]
        assert not any(matrix.any() for matrix in found)
    assert len(aligner.predict(pairs)) == 2


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


def test_scikit_learn_interface(fitted, sample):
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
