"""LDA and DiscLDA as estimators: the interface of scikit-learn, determinism, resuming, semi-supervision, bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.topics import LDA, CountText, DiscLDA
from partwise.topics.hyper import asymmetric_fixed_point, log_joint, symmetric_fixed_point

WORDS = 30


def groups(n=60, seed=0, n_classes=3, length=25):
    """Documents of classes with 8 words each of their own and 6 common ones."""
    rng = np.random.default_rng(seed)
    topics = np.full((n_classes, WORDS), 0.01)
    for y in range(n_classes):
        topics[y, 8 * y : 8 * (y + 1)] += rng.gamma(1.0, size=8)
    topics[:, 24:] += 0.6
    topics /= topics.sum(axis=1, keepdims=True)
    labels = np.arange(n) % n_classes
    counts = np.array([rng.multinomial(length, topics[y]) for y in labels])
    return sparse.csr_matrix(counts), np.array(["red", "green", "blue", "grey"])[labels]


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


# ------------------------------------------------------------------ LDA


@pytest.mark.parametrize("blocks", [1, 3])
def test_lda_finds_the_groups_and_is_deterministic(blocks):
    X, y = groups()
    settings = {"n_topics": 4, "n_iterations": 150, "n_blocks": blocks, "random_state": 3}
    one = LDA(**settings).fit(X)
    two = LDA(**settings, n_jobs=2).fit(X)
    assert same(one.to_state()[1], two.to_state()[1])
    assert np.allclose(one.components_.sum(axis=1), 1.0)
    assert one.topic_counts_.sum() == X.sum()
    theta = one.transform(X)
    assert np.allclose(theta.sum(axis=1), 1.0)
    centres = np.array([theta[y == name].mean(axis=0) for name in np.unique(y)])
    nearest = ((theta[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (np.unique(y)[nearest] == y).mean() > 0.9


def test_lda_other_seed_other_model():
    X, _ = groups()
    one, two = (LDA(3, n_iterations=5, random_state=seed).fit(X).components_ for seed in (0, 1))
    assert not np.array_equal(one, two)


def test_lda_resumes_exactly():
    X, _ = groups()
    saved = []

    def stop(model, iteration):
        if iteration == 7:
            saved.append(model.checkpoint())
            raise KeyboardInterrupt

    settings = {
        "n_topics": 4,
        "n_iterations": 20,
        "optimize": "asymmetric",
        "optimize_every": 4,
        "optimize_after": 4,
    }
    with pytest.raises(KeyboardInterrupt):
        LDA(**settings, callback=stop).fit(X)
    json.dumps(saved[0][0])
    whole, resumed = LDA(**settings).fit(X), LDA(**settings).fit(X, checkpoint=saved[0])
    assert same(whole.to_state()[1], resumed.to_state()[1])
    assert whole.beta_ == resumed.beta_
    with pytest.raises(InputError, match="checkpoint is of"):
        LDA(**settings).fit(X[:10], checkpoint=saved[0])


def test_lda_callback_can_stop_and_interruption_keeps_a_model():
    X, _ = groups()
    assert LDA(3, n_iterations=50, callback=lambda model, i: i == 4).fit(X).n_iter_ == 4

    def interrupt(model, iteration):
        if iteration == 3:
            raise KeyboardInterrupt

    model = LDA(3, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert model.transform(X).shape == (60, 3)


def test_lda_partial_fit_adds_documents():
    X, _ = groups(120)
    model = LDA(4, n_iterations=80).partial_fit(X[:60])
    before = model.perplexity(X)
    model.partial_fit(X[60:])
    assert model.topic_counts_.sum() == X.sum()
    assert model.perplexity(X) < before * 1.1
    with pytest.raises(InputError, match="fitted on 30"):
        model.partial_fit(np.ones((2, 31)))


def test_perplexity_is_that_of_random_halves():
    """Documents whose words repeat: the tokens of a word must not be shared out evenly between the halves."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(300, 0.05), 20)
    X = np.array([rng.multinomial(40, rng.dirichlet(np.full(20, 0.1)) @ topics) for _ in range(400)])
    lda = LDA(20, n_iterations=100, random_state=0).fit(X[:200])

    def completed(seed):
        halves = np.random.default_rng(seed)
        first = np.array([halves.multivariate_hypergeometric(row, 20) for row in X[200:]])
        probabilities = lda.transform(first) @ lda.components_
        return np.exp(-((X[200:] - first) * np.log(probabilities)).sum() / 20 / 200)

    expected = [completed(seed) for seed in range(10)]
    assert abs(lda.perplexity(X[200:]) - np.mean(expected)) < 3 * np.std(expected, ddof=1)
    assert lda.perplexity(X[200:]) == lda.perplexity(X[200:])


def test_lda_likelihood_rises_and_perplexity_beats_the_unigram():
    X, _ = groups(90)
    trace = []
    model = LDA(4, n_iterations=60, callback=lambda m, i: trace.append(m.log_likelihood())).fit(X)
    assert np.mean(trace[-10:]) > trace[0] + 100
    unigram = np.asarray(X.sum(axis=0)).ravel() / X.sum()
    entropy = np.exp(-(unigram * np.log(unigram + 1e-300)).sum())
    assert model.perplexity(X) < 0.8 * entropy
    assert model.score(X) == pytest.approx(-np.log(model.perplexity(X)))


def test_hyper_parameters_ascend_their_likelihood_and_find_the_truth():
    rng = np.random.default_rng(0)
    truth = np.array([0.2, 1.0, 3.0])
    counts = np.array([rng.multinomial(80, rng.dirichlet(truth)) for _ in range(1500)])
    found = asymmetric_fixed_point(counts, np.ones(3), n_steps=500)
    assert np.abs(found / truth - 1).max() < 0.15
    nothing = np.zeros((1, 3))
    trace = [log_joint(counts, nothing, asymmetric_fixed_point(counts, np.ones(3), n), 1.0) for n in range(1, 8)]
    assert (np.diff(trace) > 0).all()
    equal = np.array([rng.multinomial(80, rng.dirichlet(np.full(5, 0.4))) for _ in range(800)])
    assert symmetric_fixed_point(equal, 2.0, n_steps=500) == pytest.approx(0.4, rel=0.1)


def test_optimised_lda_has_higher_likelihood():
    X, _ = groups(90)
    traces = {}
    for optimize in (None, "symmetric", "asymmetric"):
        trace = traces[optimize] = []
        settings = {
            "n_iterations": 120,
            "optimize": optimize,
            "alpha": 2.0,
            "beta": 0.5,
            "optimize_after": 20,
        }
        LDA(4, **settings, callback=lambda m, i, t=trace: t.append(m.log_likelihood())).fit(X)
    assert np.mean(traces["symmetric"][-20:]) > np.mean(traces[None][-20:]) + 20
    assert np.mean(traces["asymmetric"][-20:]) > np.mean(traces[None][-20:]) + 20


# ------------------------------------------------------------------ DiscLDA

FAST = {"n_iterations": 60, "n_samples": 200, "burn_in": 20, "gradient_samples": 40, "n_rounds": 2}


@pytest.mark.parametrize("inference", ["gibbs", "variational"])
@pytest.mark.parametrize("transformation", ["fixed", "learned"])
def test_disclda_classifies_and_is_deterministic(inference, transformation):
    X, y = groups(90)
    other, truth = groups(60, seed=0, length=15)
    settings = {"inference": inference, "transformation": transformation, "step_sizes": (5.0,), **FAST}
    one, two = (DiscLDA(2, 2, **settings).fit(X, y) for _ in range(2))
    assert same(one.to_state()[1], two.to_state()[1])
    assert (one.predict(other) == truth).mean() > 0.9
    assert np.array_equal(one.predict_proba(other), two.predict_proba(other))
    reduced = one.transform(other)
    assert reduced.shape == (60, 8)
    assert np.allclose(reduced.sum(axis=1), 1.0)
    assert np.allclose(one.transformation_.sum(axis=1), 1.0)


def test_learning_raises_the_conditional_likelihood():
    X, y = groups(80, n_classes=2, length=12)
    settings = FAST | {"n_rounds": 4, "patience": 4}
    model = DiscLDA(2, 2, transformation="learned", inference="variational", step_sizes=(20.0,), **settings).fit(X, y)
    losses = [entry["train_loss"] for entry in model.history_[0]["history"][1:]]
    assert losses[-1] < losses[0]
    start = DiscLDA(2, 2, transformation="learned", inference="variational", step_sizes=(1e-9,), **settings).fit(X, y)
    assert np.abs(model.transformation_ - start.transformation_).max() > 0.01


@pytest.mark.parametrize("inference", ["gibbs", "variational"])
@pytest.mark.parametrize("stop_at", [10, 61, 63])
def test_disclda_resumes_exactly(inference, stop_at):
    """Killed while sampling Φ, in the first round of learning T, and while trying the second step size."""
    X, y = groups(45, length=10)
    y = y.astype(object)
    y[::9] = None
    saved = []

    def kill(model, iteration):
        if iteration == stop_at:
            saved.append(model.checkpoint())
            raise KeyboardInterrupt

    settings = {
        "transformation": "learned",
        "inference": inference,
        "step_sizes": (1.0, 5.0),
        "patience": 3,
        **FAST,
    }
    with pytest.raises(KeyboardInterrupt):
        DiscLDA(1, 1, **settings, callback=kill).fit(X, y)
    header = json.loads(json.dumps(saved[0][0]))
    whole = DiscLDA(1, 1, **settings).fit(X, y)
    resumed = DiscLDA(1, 1, **settings).fit(X, y, checkpoint=(header, saved[0][1]))
    assert same(whole.to_state()[1], resumed.to_state()[1])
    with pytest.raises(InputError, match="checkpoint is of"):
        DiscLDA(1, 1, **settings).fit(X[:30], y[:30], checkpoint=saved[0])


@pytest.mark.parametrize("inference", ["gibbs", "variational"])
def test_missing_labels_help(inference):
    """Few labels and many documents: the documents without labels improve the topics."""
    errors = {True: [], False: []}
    for seed in range(4):
        X, y = groups(300, seed=seed, length=6)
        other, truth = groups(300, seed=seed, length=6)
        known = np.arange(300) < 9
        partial = np.where(known, y, None)
        for use in errors:
            data = (X, partial) if use else (X[known], y[known])
            settings = {"n_iterations": 60, "n_samples": 100, "burn_in": 20, "random_state": seed}
            model = DiscLDA(1, 1, inference=inference, **settings).fit(*data)
            errors[use].append((model.predict(other) != truth).mean())
    assert np.mean(errors[True]) < np.mean(errors[False]) - 0.01


def test_averaging_over_phi_averages_probabilities():
    X, y = groups()
    model = DiscLDA(1, 1, n_phi=3, phi_lag=5, **FAST).fit(X, y)
    assert model.phi_.shape == (3, WORDS, 4)
    parts = [found.probabilities for found in model.class_posterior(X)]
    assert np.allclose(model.predict_proba(X), np.mean(parts, axis=0))
    assert not np.array_equal(parts[0], parts[1])


@pytest.mark.parametrize("estimator", [LDA(3, n_iterations=10), DiscLDA(1, 1, alpha=[0.2, 0.3], **FAST)])
def test_scikit_learn_interface(estimator):
    X, y = groups()
    assert type(estimator).__name__ in repr(estimator)
    fresh = clone(estimator).set_params(beta=0.02)
    assert fresh.get_params()["beta"] == 0.02
    with pytest.raises(NotFittedError):
        fresh.transform(X)
    with pytest.raises(NotFittedError):
        fresh.to_state()
    fitted = fresh.fit(X, y)
    header, arrays = fitted.to_state()
    again = type(estimator).from_state(json.loads(json.dumps(header)), arrays)
    assert np.array_equal(again.transform(X), fitted.transform(X))
    assert np.array_equal(again.transform(X.toarray()), fitted.transform(X))
    with pytest.raises(StorageError, match="expected the state"):
        type(estimator).from_state(header | {"class": "Other"}, arrays)
    with pytest.raises(InputError, match="no training is in progress"):
        fitted.checkpoint()


def test_pipeline_from_text():
    texts = ["red apple fruit", "apple fruit tart", "blue sky cloud", "cloud sky rain"] * 5
    labels = ["food", "food", "weather", "weather"] * 5
    model = make_pipeline(CountText(), DiscLDA(1, 1, **FAST)).fit(texts, labels)
    assert model.predict(["apple tart unknownword", "rain cloud"]).tolist() == ["food", "weather"]


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize("estimator", [LDA(2), DiscLDA(1, 1)])
@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1, 2], [0, 0]], "document 1 is empty"),
        ([["a", "b"], ["a"]], "got rows of different lengths; turn text into counts"),
        ([[1, -2], [1, 0]], "document 0, word 1: counts must be non-negative"),
        ([[1, 2], [0.5, 0]], "document 1, word 0: counts must be whole numbers"),
        ([[1, np.nan], [1, 1]], "counts must be finite"),
        ([1, 2], "expected a documents × words matrix"),
        ([["a", "b"]], "expected a documents × words matrix"),
        (np.zeros((0, 4)), "at least one document"),
    ],
)
def test_bad_counts(estimator, X, message):
    with pytest.raises(InputError, match=message):
        estimator.fit(X, ["a", "b"][: len(X)])


@pytest.mark.parametrize("estimator", [LDA(2, n_iterations=2), DiscLDA(1, 1, **FAST)])
def test_words_outside_the_vocabulary(estimator):
    X, y = groups()
    estimator.fit(X, y)
    with pytest.raises(InputError, match="31 words but the model was fitted on 30"):
        estimator.transform(np.ones((1, 31)))


def test_empty_documents_are_fine_at_prediction():
    X, y = groups()
    model = DiscLDA(1, 1, **FAST).fit(X, y)
    empty = np.zeros((1, WORDS))
    assert np.allclose(model.predict_proba(empty), model.class_prior_)
    theta = LDA(3, n_iterations=2).fit(X).transform(empty)
    assert np.allclose(theta, 1 / 3)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "DiscLDA needs labels"),
        ([None, None, None], "no document has a label"),
        (["a", "b"], "got 2 labels for 3 documents"),
        (["a", "a", "a"], "at least two classes, got only class 'a'"),
    ],
)
def test_bad_labels(y, message):
    with pytest.raises(InputError, match=message):
        DiscLDA(1, 1).fit([[1, 0], [0, 1], [1, 1]], y)


def test_a_class_with_one_document():
    X, y = groups(12)
    y = np.where(np.arange(12) == 0, "lonely", y)
    with pytest.raises(InputError, match="class 'lonely' has one document"):
        DiscLDA(1, 1, transformation="learned").fit(X, y)
    with pytest.warns(UserWarning, match="class 'lonely' has one document"):
        DiscLDA(1, 1, **FAST).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_topics": 6}, "n_topics.*C·B_c \\+ B_s = 3·2 \\+ 1 = 7.*Got 6"),
        ({"class_topics": 0}, "class_topics.*at least 1"),
        ({"beta": 0.0}, "beta.*positive"),
        ({"alpha": [0.1, 0.2]}, "alpha.*B_c \\+ B_s = 3"),
        ({"transformation": "learnd"}, "did you mean 'learned'"),
        ({"inference": "mcmc"}, "inference"),
        ({"method": "bridges"}, "did you mean 'bridge'"),
        ({"reference": "pink"}, "reference.*None or one of the classes"),
        ({"class_prior": [1.0, 2.0]}, "class_prior.*3 positive numbers"),
        ({"step_sizes": [-1.0]}, "step_sizes.*positive"),
        ({"validation_fraction": 1.0}, "validation_fraction.*share"),
        ({"random_state": -1}, "random_state.*non-negative"),
        ({"transformation": "learned", "n_phi": 2}, "n_phi.*1 when the transformation is learned"),
    ],
)
def test_bad_disclda_parameters(settings, message):
    X, y = groups()
    with pytest.raises(ParameterError, match=message):
        DiscLDA(**({"class_topics": 2, "shared_topics": 1} | settings)).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_topics": 0}, "n_topics.*at least 1"),
        ({"n_topics": 2.5}, "n_topics.*integer"),
        ({"alpha": [1.0, 2.0]}, "alpha.*3 positive numbers"),
        ({"alpha": -1.0}, "alpha"),
        ({"optimize": "alpha"}, "optimize"),
        ({"n_blocks": 0}, "n_blocks"),
    ],
)
def test_bad_lda_parameters(settings, message):
    X, _ = groups()
    with pytest.raises(ParameterError, match=message):
        LDA(**({"n_topics": 3} | settings)).fit(X)
