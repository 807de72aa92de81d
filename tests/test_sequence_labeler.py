"""SequenceLabeler: scikit-learn's interface, every input kind, probabilities against enumeration, storage."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from partwise.data import load_sample
from partwise.estimators import SequenceLabeler, load_model
from partwise.exceptions import CapabilityError, InputError, ParameterError
from partwise.losses import Loss
from partwise.sequences.tags import spans

TEMPLATES = ["word[-1..1]", "suffix(word,1..2)[0]", "pos[0]"]
SENTENCES = [
    ["the", "dog", "barks"],
    ["a", "cat", "sleeps", "now"],
    ["dogs", "bark"],
    ["the", "old", "cat", "sleeps"],
]
LABELS = [["D", "N", "V"], ["D", "N", "V", "R"], ["N", "V"], ["D", "A", "N", "V"]]


def as_strings() -> list[Any]:
    return [[[f"w={w}", f"s={w[-1]}"] for w in sentence] for sentence in SENTENCES]


def as_dicts() -> list[Any]:
    return [[{"w": w, "s": w[-1]} for w in sentence] for sentence in SENTENCES]


def as_csr() -> list[Any]:
    names = sorted({name for sentence in as_strings() for row in sentence for name in row})
    rows = [[[float(name in row) for name in names] for row in sentence] for sentence in as_strings()]
    return [scipy.sparse.csr_array(np.array(x)) for x in rows]


def as_dense() -> list[Any]:
    return [x.toarray() for x in as_csr()]


def as_words() -> list[Any]:
    return SENTENCES


KINDS = {"strings": as_strings, "dicts": as_dicts, "csr": as_csr, "dense": as_dense, "words": as_words}


def labeler(kind: str, **options: Any) -> SequenceLabeler:
    templates = ["word[0]", "suffix(word,1)[0]"] if kind == "words" else None
    return SequenceLabeler(templates=templates, **{"max_passes": 20, **options})


@pytest.fixture(scope="module")
def news() -> Any:
    return load_sample("news", split="train"), load_sample("news", split="test")


@pytest.fixture(scope="module")
def ner_model(news: Any) -> SequenceLabeler:
    train, _ = news
    return SequenceLabeler(templates=TEMPLATES, scheme="IOB2", max_passes=25).fit(train, train.column("ner"))


@pytest.mark.parametrize("kind", KINDS)
class TestConduct:
    """What every estimator owes a scikit-learn user, for every input kind."""

    def test_init_only_stores_and_clone_copies(self, kind: str) -> None:
        model = labeler(kind, C=0.5, loss=(1.0, 2.0))
        copy = clone(model)
        assert copy.get_params() == model.get_params() and copy is not model
        assert "C=0.5" in repr(model)
        assert not [name for name in vars(model) if name.endswith("_")]

    def test_unfitted_is_an_error(self, kind: str) -> None:
        for method in ("predict", "predict_marginals", "predict_kbest"):
            with pytest.raises(NotFittedError):
                getattr(labeler(kind), method)(KINDS[kind]())

    def test_fit_predict_round_trip(self, kind: str, tmp_path: Any) -> None:
        X = KINDS[kind]()
        model = labeler(kind)
        assert model.fit(X, LABELS) is model
        assert model.predict(X) == LABELS
        assert model.score(X, LABELS) == 1.0
        again = clone(model).fit(X, LABELS)
        np.testing.assert_array_equal(again.theta_, model.theta_)
        model.save(tmp_path / "m.pw")
        for loaded in (load_model(tmp_path / "m.pw"), SequenceLabeler.load(tmp_path / "m.pw", mmap=True)):
            assert loaded.predict(X) == LABELS
            assert loaded.get_params()["C"] == model.C
            for ours, theirs in zip(model.predict_marginals(X), loaded.predict_marginals(X), strict=True):
                np.testing.assert_array_equal(ours, theirs)

    def test_fit_does_not_change_its_input(self, kind: str) -> None:
        X, before = KINDS[kind](), KINDS[kind]()
        labels = [list(y) for y in LABELS]
        labeler(kind).fit(X, labels)
        assert labels == LABELS
        for x, b in zip(X, before, strict=True):
            assert (x != b).sum() == 0 if hasattr(x, "sum") else x == b

    def test_grid_search_and_cross_validation(self, kind: str) -> None:
        X = KINDS[kind]() * 3
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", "training has not converged")  # three passes are few
            scores = cross_val_score(labeler(kind, max_passes=3), X, LABELS * 3, cv=3)
            search = GridSearchCV(labeler(kind, max_passes=3), {"C": [0.1, 1.0]}, cv=3).fit(X, LABELS * 3)
        assert scores.shape == (3,) and np.isfinite(scores).all()
        assert search.best_params_["C"] in (0.1, 1.0)

    def test_threads_and_seed_do_not_change_the_result(self, kind: str) -> None:
        X = KINDS[kind]()
        for options in ({"learner": "lbfgs"}, {"learner": "dca", "loss": "svm"}):
            one = labeler(kind, max_passes=4, **options).fit(X, LABELS)
            two = labeler(kind, max_passes=4, n_jobs=2, **options).fit(X, LABELS)
            np.testing.assert_array_equal(one.theta_, two.theta_)


def test_label_missing_from_a_fold(news: Any) -> None:
    """A label of the test fold that training never saw counts as an error of the prediction, not of the program."""
    model = labeler("words").fit(SENTENCES[2:], LABELS[2:])
    assert 0 < model.score(SENTENCES, LABELS) < 1


def test_pipeline() -> None:
    lower = FunctionTransformer(lambda X: [[w.lower() for w in s] for s in X])
    pipeline = Pipeline([("lower", lower), ("label", labeler("words"))]).fit(SENTENCES, LABELS)
    assert pipeline.predict([["THE", "DOG", "BARKS"]]) == [["D", "N", "V"]]


def brute_force(model: SequenceLabeler, X: Any, scheme: str | None) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """All label sequences of the one sequence in X with their probabilities, by enumeration."""
    rows = model.encoder_.transform(X)
    length, n = int(rows.offsets[-1]), len(model.classes_)
    unary = np.array([model.weight_rows(rows.entries(t)[0]).T @ rows.entries(t)[1] for t in range(length)])
    found, scores = [], []
    for labels in itertools.product(range(n), repeat=length):
        if scheme is not None:
            try:
                spans([model.classes_[b] for b in labels], scheme)
            except InputError:
                continue
        score = sum(unary[t, b] for t, b in enumerate(labels))
        score += sum(model.transition_score(list(labels), t) for t in range(1, length))
        found.append(labels)
        scores.append(score)
    weights = np.exp(np.array(scores) - max(scores))
    return found, weights / weights.sum()


@pytest.mark.parametrize("order", [1, 2])
def test_marginals_and_kbest_against_enumeration(order: int) -> None:
    model = labeler("words", order=order, C=0.3).fit(SENTENCES, LABELS)
    X = [["the", "cat", "barks"]]
    found, probability = brute_force(model, X, None)
    marginals = model.predict_marginals(X)[0]
    expected = np.zeros_like(marginals)
    for labels, p in zip(found, probability, strict=True):
        expected[np.arange(3), list(labels)] += p
    np.testing.assert_allclose(marginals, expected, atol=1e-10)
    best = model.predict_kbest(X, k=4)[0]
    order_ = np.argsort(-probability)[:4]
    for (labels, p), j in zip(best, order_, strict=True):
        assert labels == [model.classes_[b] for b in found[j]]
        assert p == pytest.approx(probability[j], abs=1e-10)


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_span_probabilities_against_enumeration(scheme: str, typed: bool) -> None:
    tags = {
        "IOB2": [["B-P", "I-P", "O"], ["O", "B-L", "O", "O"], ["B-P", "O"], ["O", "B-L", "I-L", "O"]],
        "IOBES": [["B-P", "E-P", "O"], ["O", "S-L", "O", "O"], ["S-P", "O"], ["O", "B-L", "E-L", "O"]],
    }[scheme]
    if not typed:  # B, I, O: chunks of type ""
        tags = [[tag.partition("-")[0] for tag in sentence] for sentence in tags]
    model = labeler("words", C=0.3).fit(SENTENCES, tags)
    for X in ([["the", "dog", "sleeps"]], [["a", "old", "cat", "bark"]], [["dogs"]]):
        found, probability = brute_force(model, X, scheme)
        for span in model.predict_spans(X, scheme=scheme)[0]:
            expected = sum(
                p for labels, p in zip(found, probability, strict=True)
                if tuple(span[:3]) in {tuple(s) for s in spans([model.classes_[b] for b in labels], scheme)}
            )  # fmt: skip
            assert span.probability == pytest.approx(expected, abs=1e-9)


def test_predictions_obey_the_scheme(ner_model: SequenceLabeler, news: Any) -> None:
    for tags in ner_model.predict(news[1]):
        spans(tags, "IOB2")  # raises on a sequence that breaks it


def test_constraints(ner_model: SequenceLabeler, news: Any) -> None:
    one = news[1].subset([1])
    free = ner_model.predict(one)[0]
    pinned = ner_model.predict(one, constraints=[{0: "B-ORG", -1: {"O", "B-LOC"}}])[0]
    assert pinned[0] == "B-ORG" and pinned[-1] in ("O", "B-LOC")
    marginals = ner_model.predict_marginals(one, constraints=[{0: "B-ORG"}])[0]
    assert marginals[0, ner_model.classes_.index("B-ORG")] == pytest.approx(1.0)
    assert ner_model.predict(one, constraints=[None])[0] == free
    with pytest.raises(InputError, match="label 'B-XYZ' at position 0 of sequence 0 is unknown"):
        ner_model.predict(one, constraints=[{0: "B-XYZ"}])
    with pytest.raises(InputError, match="constraint at position 99 of sequence 0"):
        ner_model.predict(one, constraints=[{99: "O"}])


def test_partial_labels_use_what_is_known() -> None:
    some = [["D", None, "V"], ["D", {"N", "A"}, "V", "R"], [None, "V"], ["D", "A", "N", None]]
    model = labeler("words").fit(SENTENCES, some)
    assert model.classes_ == ["A", "D", "N", "R", "V"]
    predicted = model.predict(SENTENCES)
    assert all(
        p == y
        for ps, ys in zip(predicted, some, strict=True)
        for p, y in zip(ps, ys, strict=True)
        if isinstance(y, str)
    )


def test_partial_fit_learns_from_batches() -> None:
    model = labeler("words", learner="dca", max_passes=1)
    for _ in range(10):
        for start in (0, 2):
            model.partial_fit(SENTENCES[start : start + 2], LABELS[start : start + 2], classes=list("ADNRV"))
    assert model.score(SENTENCES[:2], LABELS[:2]) == 1.0
    with pytest.raises(ParameterError, match="an online learner"):
        labeler("words", learner="lbfgs").partial_fit(SENTENCES, LABELS)


def test_early_stopping_keeps_the_best_pass(news: Any) -> None:
    train, test = news
    model = SequenceLabeler(templates=TEMPLATES, learner="perceptron", patience=2, max_passes=30)
    model.fit(train, train.column("ner"), dev=(test, test.column("ner")))
    scores = [record.score for record in model.result_.trace]
    assert model.result_.best_step == int(np.argmax(scores)) + 1
    assert model.score(test, test.column("ner")) == pytest.approx(max(scores))
    assert model.result_.status in ("early_stopping", "converged") and len(scores) < 30


def test_explanation_adds_up(ner_model: SequenceLabeler, news: Any) -> None:
    """The contributions sum to the change of the score when the one label is exchanged for its rival."""
    one = news[1].subset([1])
    best = ner_model.predict(one)[0]
    explanation = ner_model.explain(one, 5, against="B-MISC" if best[5] != "B-MISC" else "O")
    found = {}
    for label in (explanation.label, explanation.rival):
        labels = [ner_model.classes_.index(b) for b in best]
        labels[5] = ner_model.classes_.index(label)
        rows = ner_model.encoder_.transform(one)
        total = 0.0
        for t, b in enumerate(labels):
            numbers, values = rows.entries(t)
            total += float(values @ ner_model.weight_rows(numbers)[:, b])
            total += ner_model.transition_score(labels, t) if t else 0.0
        found[label] = total
    assert explanation.margin == pytest.approx(found[explanation.label] - found[explanation.rival])
    assert str(explanation).startswith("position 5:")


def test_loss_as_pair_object_or_name() -> None:
    for loss in ("crf", (1.0, 0.0), Loss(1.0, 0.0)):
        model = labeler("words", loss=loss).fit(SENTENCES, LABELS)
        assert model.predict(SENTENCES) == LABELS


def test_checkpoint_of_another_run_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "run.ckpt"
    labeler("words", max_passes=2).fit(SENTENCES, LABELS, checkpoint=path)
    with pytest.raises(InputError, match="belongs to another run"):
        labeler("words", max_passes=2, C=9.0).fit(SENTENCES, LABELS, checkpoint=path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: labeler("words", C=-1.0).fit(SENTENCES, LABELS), "'C' parameter of LBFGS must be a positive number"),
        (lambda: labeler("words", loss="crff").fit(SENTENCES, LABELS), "did you mean 'crf'"),
        (lambda: labeler("words", learner="lbgfs").fit(SENTENCES, LABELS), "did you mean 'lbfgs'"),
        (lambda: labeler("words", loss=(0.0, 1.0)).fit(SENTENCES, LABELS), "'beta' parameter of Loss"),
        (lambda: labeler("words").fit(SENTENCES, LABELS[:2]), "X has 4 sequences but y has 2"),
        (lambda: labeler("words").fit(SENTENCES, [["D"], *LABELS[1:]]), "sequence 0 has 3 positions in X but 1 in y"),
        (lambda: labeler("words").fit([["a"], []], [["D"], []]), "sequence 1 is empty"),
        (lambda: labeler("words").fit([], []), "no sequences were given"),
        (lambda: labeler("dicts").fit([[{"x": float("nan")}]], [["D"]]), "feature value nan at position 0"),
        (lambda: labeler("dense").fit([np.array([[np.inf]])], [["D"]]), "inf at position 0 of sequence 0"),
        (lambda: labeler("words", scheme="IOB2").fit([["a", "b"]], [["O", "I-P"]]), "they look like IOB1"),
        (lambda: labeler("words", scheme="IOX").fit([["a", "b"]], [["O", "I-P"]]), "scheme"),
        (lambda: labeler("words", features="some").fit(SENTENCES, LABELS), "'observed' or 'all'"),
        (lambda: labeler("words", n_jobs=0).fit(SENTENCES, LABELS), "n_jobs"),
    ],
)  # fmt: skip
def test_bad_input_is_told_plainly(call: Any, message: str) -> None:
    with pytest.raises((InputError, ParameterError)) as error:
        call()
    assert message in str(error.value)


def test_a_given_loss_is_never_exchanged() -> None:
    """The perceptron brings its own loss where none is given; with another one it refuses."""
    assert labeler("words", learner="perceptron").fit(SENTENCES, LABELS).predict(SENTENCES) == LABELS
    with pytest.raises(CapabilityError, match="minimises the perceptron loss, not crf"):
        labeler("words", learner="perceptron", loss="crf").fit(SENTENCES, LABELS)


@pytest.mark.parametrize("kind", [int, np.int64, np.str_])
def test_labels_that_are_numbers(kind: type) -> None:
    """They train, predict as Python's own, score, work with dev and in a search over settings."""
    rng = np.random.default_rng(0)
    y = [[kind(b) for b in rng.integers(0, 3, size=5)] for _ in range(24)]
    x = [[[f"x={b}", f"r={rng.integers(4)}"] for b in row] for row in y]
    model = SequenceLabeler(learner="perceptron", max_passes=5, patience=2).fit(x[:16], y[:16], dev=(x[16:], y[16:]))
    assert model.score(x, y) > 0.95 and model.result_.trace[0].score is not None
    assert {type(label) for row in model.predict(x) for label in row} == {str if kind is np.str_ else int}
    search = GridSearchCV(SequenceLabeler(learner="perceptron", max_passes=3), {"order": [1, 2]}, cv=2).fit(x, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all() and search.best_score_ > 0.9


def test_constraints_of_one_sentence_are_never_ignored() -> None:
    x, y = [[["a"], ["b"]], [["b"], ["a"]]] * 4, [["A", "B"], ["B", "A"]] * 4
    model = SequenceLabeler(learner="perceptron", max_passes=5).fit(x, y)
    assert model.predict(x[:1]) == [["A", "B"]]
    assert model.predict(x[:1], constraints={0: "B"}) == [["B", "B"]] == model.predict(x[:1], constraints=[{0: "B"}])
    with pytest.raises(InputError, match="a single dict of constraints applies to one sequence; X has 2"):
        model.predict(x[:2], constraints={0: "B"})
    with pytest.raises(
        InputError, match=r"constraints of sequence 0: expected a dict \{position: label\} or None, got 'B'"
    ):
        model.predict(x[:1], constraints=["B"])
    for a, b in zip(model.predict_proba(x), model.predict_marginals(x), strict=True):
        np.testing.assert_array_equal(a, b)
