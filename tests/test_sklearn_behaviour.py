"""What users of scikit-learn expect of an estimator, of all of them: see ``estimators.py`` for the cases."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from estimators import CASES, Case, columns, sentences
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

import partwise
from partwise.data import Columns

NAMES = list(CASES)
PREDICTS = [name for name in NAMES if CASES[name].predicts]
FITTED: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fitted(name: str) -> tuple[Case, Any, Any, Any]:
    case = CASES[name]
    X, y = case.data()
    if name not in FITTED:
        FITTED[name] = case.make().fit(X, y)
    return case, FITTED[name], X, y


def same(one: Any, other: Any) -> bool:
    if hasattr(one, "rows"):  # a parsed sentence
        return bool(one.rows == other.rows)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(np.array_equal(one, other))


def outputs(model: Any, X: Any) -> Any:
    if hasattr(model, "predict"):
        return model.predict(X)
    return model.transform(X) if hasattr(model, "transform") else model.score(X)


@pytest.mark.parametrize("name", NAMES)
def test_clone_params_and_repr(name: str) -> None:
    case, _, X, _ = fitted(name)
    model = case.make()
    copy = clone(model)
    assert type(copy) is type(model) and set(copy.get_params()) == set(model.get_params())
    parameter, values = case.grid
    for value in values:
        assert model.set_params(**{parameter: value}) is model and model.get_params()[parameter] == value
    assert type(model).__name__ in repr(model)
    with pytest.raises(ValueError, match=r"no_such_setting|Invalid parameter"):
        model.set_params(no_such_setting=1)
    with pytest.raises((NotFittedError, AttributeError)):
        outputs(copy, X)


@pytest.mark.parametrize("name", NAMES)
def test_pickle_gives_the_same_model(name: str) -> None:
    _, model, X, _ = fitted(name)
    assert same(outputs(pickle.loads(pickle.dumps(model)), X), outputs(model, X))


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_show_a_diagram(name: str) -> None:
    case, model, _, _ = fitted(name)
    for each in (case.make(), model):
        page = each._repr_html_()
        assert "sk-top-container" in page and type(model).__name__ in page
    parameter = case.grid[0].split("__")[0]
    assert parameter in case.make()._repr_html_()
    assert type(model).__name__ in Pipeline([("model", case.make())])._repr_html_()


@pytest.mark.parametrize("name", NAMES)
def test_cross_validation_and_search(name: str) -> None:
    case, _, X, y = fitted(name)
    scores = cross_val_score(case.make(), X, y, cv=2, error_score="raise")
    assert scores.shape == (2,) and np.isfinite(scores).all()
    parameter, values = case.grid
    search = GridSearchCV(case.make(), {parameter: values}, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_[parameter] in values and np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert same(outputs(search.best_estimator_, X), outputs(search, X))


@pytest.mark.parametrize("name", PREDICTS)
def test_cross_val_predict(name: str) -> None:
    case, _, X, y = fitted(name)
    folds = KFold(3)
    found = cross_val_predict(case.make(), X, y, cv=folds)
    n = len(X)
    assert len(found) == n
    train, test = next(folds.split(np.zeros(n)))
    pick = sklearn.utils._safe_indexing
    alone = case.make().fit(pick(X, train), None if y is None else pick(y, train)).predict(pick(X, test))
    assert same(list(alone), list(found[test]))


@pytest.mark.parametrize("name", NAMES)
def test_pipeline(name: str) -> None:
    case, model, X, y = fitted(name)
    steps = [("same", FunctionTransformer()), ("model", case.make())]
    pipe = Pipeline(steps).fit(X, y)
    assert same(outputs(pipe, X), outputs(model, X))
    assert np.isfinite(pipe.score(X, y))
    own = case.grid[0]
    assert clone(pipe).set_params(**{f"model__{own}": case.grid[1][0]}).get_params()[f"model__{own}"] == case.grid[1][0]


def as_pandas(case: Case, X: Any, index: Any) -> Any:
    if case.frame == "table":
        return pd.DataFrame(X, index=index)
    if case.frame == "frame" and isinstance(X, Columns):
        return pd.DataFrame({name: X.column(name) for name in X.names}, index=index)
    if case.frame == "frame":
        return pd.DataFrame({"source": [list(x[0]) for x in X], "target": [list(x[1]) for x in X]}, index=index)
    series = pd.Series([None] * len(X), index=index, dtype=object)
    for i, x in enumerate(X):
        series.iat[i] = x
    return series


@pytest.mark.parametrize("name", [name for name in NAMES if CASES[name].frame])
def test_pandas_with_any_index(name: str) -> None:
    case, model, X, y = fitted(name)
    index = np.random.default_rng(0).permutation(len(X)) + 7
    frame = as_pandas(case, X, index)
    target = y
    if isinstance(y, Columns):
        target = pd.DataFrame({c: y.column(c) for c in y.names}, index=index)
    elif y is not None:
        target = pd.Series(list(y), index=index)
    found = case.make().fit(frame, target)
    assert same(outputs(found, frame), outputs(model, X))
    assert found.score(frame, target) == pytest.approx(model.score(X, y))
    assert np.isfinite(cross_val_score(case.make(), frame, target, cv=2, error_score="raise")).all()


@pytest.mark.parametrize("name", [name for name in NAMES if CASES[name].weighs])
def test_sample_weight_and_its_routing(name: str) -> None:
    case, model, X, y = fitted(name)
    n = len(X)
    assert same(outputs(case.make().fit(X, y, sample_weight=np.ones(n)), X), outputs(model, X))
    with pytest.raises(ValueError, match="one number per instance"):
        case.make().fit(X, y, sample_weight=[1.0])
    seen = []

    class Watched(type(model)):  # type: ignore[misc]
        def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Any:
            seen.append(sample_weight)
            return super().fit(X, y, sample_weight=sample_weight)

    plain = case.make()
    watched = Watched(**plain.get_params(deep=False))
    weights = np.arange(1.0, n + 1)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = watched.set_fit_request(sample_weight=True)
        assert asked is watched
        if hasattr(watched, "set_score_request"):  # its score could be weighted too
            watched.set_score_request(sample_weight=False)
        scores = cross_val_score(watched, X, y, cv=2, params={"sample_weight": weights}, error_score="raise")
        assert np.isfinite(scores).all() and [len(each) for each in seen] == [n - n // 2, n // 2][::-1]
        with pytest.raises(TypeError):
            watched.set_fit_request(no_such_thing=True)
        with pytest.raises(ValueError, match="sample_weight"):  # neither asked for nor refused
            cross_val_score(plain, X, y, cv=2, params={"sample_weight": weights}, error_score="raise")


@pytest.mark.parametrize("name", [name for name in NAMES if not CASES[name].weighs])
def test_weights_that_cannot_be_used_are_not_swallowed(name: str) -> None:
    case, _, X, y = fitted(name)
    with pytest.raises(TypeError, match="sample_weight"):  # of Python, or of a shell whose problem has no weights
        case.make().fit(X, y, sample_weight=np.ones(len(X)))


# --------------------------------------------------------------------------------------------------
# Documents, columns and lists


def test_documents_stay_whole_and_columns_stay_columns() -> None:
    data = sentences()
    documents = np.arange(len(data)) // 4
    grouped = Columns(data.names, data.codes, data.vocab, data.offsets, documents, data.lines)
    model = CASES["SequenceLabeler"].make()
    for y in (grouped.column("chunk"), grouped.coded("chunk")):
        scores = cross_val_score(model, grouped, y, groups=grouped.groups, cv=GroupKFold(3), error_score="raise")
        assert scores.shape == (3,) and (scores > 0.2).all()
        found = cross_val_predict(model, grouped, y, groups=grouped.groups, cv=GroupKFold(3))
        assert [len(tags) for tags in found] == np.diff(grouped.offsets).tolist()
    train, test = next(GroupKFold(3).split(grouped, groups=grouped.groups))
    assert isinstance(grouped[train], Columns) and not set(grouped[train].documents) & set(grouped[test].documents)
    assert (data.groups == np.arange(len(data))).all() or data.has_documents


def test_lists_of_rows_strings_dicts_and_arrays() -> None:
    X, y = columns("chunk")()
    rows = [list(sentence) for sentence in X]
    model = CASES["SequenceLabeler"].make()
    expected = cross_val_score(model, X, y, cv=2, error_score="raise")
    assert cross_val_score(model, rows, y, cv=2, error_score="raise") == pytest.approx(expected)
    plain = partwise.SequenceLabeler(max_passes=3)
    strings = [[[f"w={word}", f"p={tag}"] for word, tag in sentence] for sentence in rows]
    dicts = [[{"w": word, "p": tag} for word, tag in sentence] for sentence in rows]
    arrays = [np.array([[len(word), word[0].isupper()] for word, _ in sentence], float) for sentence in rows]
    for kind in (strings, dicts, arrays):
        assert np.isfinite(cross_val_score(plain, kind, y, cv=2, error_score="raise")).all()
        assert len(cross_val_predict(plain, kind, y, cv=2)) == len(rows)


def test_probabilities_explanations_and_constraints_take_what_predict_takes() -> None:
    _, model, X, _ = fitted("SequenceLabeler")
    one = X[:1]
    rows = [list(sentence) for sentence in one]
    frame = pd.DataFrame({name: one.column(name) for name in one.names}, index=[5])
    said = str(model.explain(one, 0))
    for same_input in (rows, rows[0], frame):
        assert str(model.explain(same_input, 0)) == said
    assert str(model.explain(X, 0, sequence=0)) == said
    with pytest.raises(ValueError, match="choose one with sequence"):
        model.explain(X, 0)
    for a, b in zip(model.predict_proba(X), model.predict_marginals(X), strict=True):
        np.testing.assert_array_equal(a, b)
    pin = {0: "O"}
    assert model.predict(one, pin)[0][0] == model.predict(one, [pin])[0][0] == model.predict(rows, pin)[0][0] == "O"
    assert model.predict_proba(one, pin)[0][0, model.classes_.index("O")] == pytest.approx(1.0)
    for wrong in ([pin] * 2, ["O"], {"0": "O"}, {99: "O"}, {0: "no such label"}):
        with pytest.raises(ValueError, match=r"constraint|unknown"):
            model.predict(one, wrong)
    with pytest.raises(ValueError, match="pass a list of dicts"):
        model.predict(X, pin)


def test_words_alone_are_sentences_too() -> None:
    found = sentences()
    model = partwise.SequenceLabeler(["word[0]"], max_passes=2).fit(found.column("word"), found.column("chunk"))
    words = found.column("word")[0]
    assert str(model.explain(words, 0)) == str(model.explain([words], 0))
