"""The shell that all estimators share: parameters, dev sets, checkpoints, costs of single instances, model files."""

from __future__ import annotations

import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

from partwise import Hamming, LabelCost, Multiclass, PartCost, StructuredClassifier, load_model
from partwise.estimation.base import _homes, find_model
from partwise.estimation.learned import LearnedEstimator, cost_for
from partwise.exceptions import InputError, ParameterError

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 3, 24)
ROWS = [np.append(np.eye(3)[label] + RNG.normal(scale=0.4, size=3), i) for i, label in enumerate(LABELS)]
WEIGHT = RNG.random(24)  # what a mistake at each instance costs


def copies(X: Any) -> list[Any]:
    return [np.kron(np.eye(3), np.asarray(x)[:3, None]) for x in X]


def space(X: Any) -> Multiclass:
    return Multiclass(len(X), 3)


def own_costs(X: Any, y: Any) -> PartCost:
    """Instances know their number, the last entry of their row."""
    costs = []
    for x, label in zip(X, y, strict=True):
        p = np.full(3, WEIGHT[int(x[3])])
        p[label] = 0.0
        costs.append((p, 0.0))
    return PartCost(costs)


def learned_estimators() -> list[type[LearnedEstimator]]:
    found = [find_model(kind) for kind in _homes()]
    return [kind for kind in found if kind is not None and issubclass(kind, LearnedEstimator)]


def test_every_estimator_has_the_same_parameters() -> None:
    always = {"max_passes", "patience", "learner_options", "random_state", "n_jobs", "verbose"}
    of_a_loss = {"loss", "learner", "C"}  # a search has none
    kinds = learned_estimators()
    assert {kind.__name__ for kind in kinds} >= {"SequenceLabeler", "WordAligner", "StructuredClassifier"}
    for kind in kinds:
        names = set(kind().get_params())
        assert always <= names and of_a_loss & names in (set(), of_a_loss), kind.__name__
        assert {"dev", "callbacks", "checkpoint"} <= set(inspect.signature(kind.fit).parameters), kind.__name__
        assert kind(n_jobs=-1).check_settings() is None
        with pytest.raises(ParameterError, match="n_jobs"):
            kind(n_jobs=0).check_settings()
        with pytest.raises(ParameterError, match="patience"):
            kind(patience=0).check_settings()


def test_every_kind_is_named_where_it_lives() -> None:
    for kind, home in _homes().items():
        model = find_model(kind)
        assert model is not None and model.kind == kind and model.__module__ == home


def test_costs_of_single_instances_follow_them_into_the_folds() -> None:
    X, y = np.array(ROWS), LABELS
    model = StructuredClassifier(space, copies, cost=own_costs, C=10.0, max_passes=50)
    folds = [(np.arange(12), np.arange(12, 24)), (np.arange(12, 24), np.arange(12))]
    scores = cross_val_score(model, X, y, cv=folds)
    for score, (train, test) in zip(scores, folds, strict=True):
        fitted = StructuredClassifier(space, copies, cost=own_costs(X[train], y[train]), C=10.0, max_passes=50)
        guess = np.array(fitted.fit(X[train], y[train]).predict(X[test]))
        assert score == pytest.approx(-np.mean(WEIGHT[test] * (guess != y[test])))


def test_a_part_cost_of_other_instances_is_an_error() -> None:
    X, y = np.array(ROWS), LABELS
    model = StructuredClassifier(space, copies, cost=own_costs(X, y))
    with pytest.raises(InputError, match=r"PartCost covers 24 instances, X has 12.*function of \(X, y\)"):
        model.fit(X[:12], y[:12])
    with pytest.raises(InputError, match="PartCost covers 24 instances, X has 3"):
        model.fit(X, y).score(X[:3], y[:3])
    with pytest.raises(ParameterError, match="a Cost, or a function"):
        cost_for("hamming", X, y)
    with pytest.raises(ParameterError, match="returns a Cost"):
        cost_for(lambda X, y: 1.0, X, y)
    assert cost_for(None, X, y) is None and cost_for(Hamming(), X, y) == Hamming()


def test_a_dev_set_and_patience_choose_the_pass() -> None:
    seen: list[float] = []
    model = StructuredClassifier(space, copies, learner="perceptron", loss="perceptron", max_passes=60, patience=3)
    model.fit(ROWS[:12], LABELS[:12], dev=(ROWS[12:], LABELS[12:]), callbacks=[lambda r, _: seen.append(r.score)])
    best = int(np.argmax(seen)) + 1
    assert model.result_.best_step == best and model.score(ROWS[12:], LABELS[12:]) == pytest.approx(max(seen))
    assert model.result_.status in ("early_stopping", "converged") and len(seen) < 60


@pytest.mark.parametrize(
    "other",
    [
        {"C": 2.0},
        {"cost": LabelCost([[0, 1, 2], [1, 0, 1], [1, 1, 0]])},
        {"cost": own_costs},
        {"loss": "slack_svm"},
        {"X": ROWS[::-1]},
        {"y": (LABELS + 1) % 3},
        {"dev": (ROWS, LABELS)},
    ],
    ids=["C", "cost", "own costs", "loss", "X", "y", "dev"],
)
def test_a_checkpoint_belongs_to_settings_data_and_costs(tmp_path: Path, other: dict[str, Any]) -> None:
    path = tmp_path / "run.ckpt"

    def train(X: Any = ROWS, y: Any = LABELS, dev: Any = None, **settings: Any) -> StructuredClassifier:
        model = StructuredClassifier(space, copies, **{"C": 1.0, "max_passes": 5, **settings})
        return model.fit(X, y, dev=dev, checkpoint=path)

    whole = train()
    again = train(n_jobs=2, verbose=0)  # neither changes the run
    np.testing.assert_array_equal(whole.theta_, again.theta_)
    with pytest.raises(InputError, match="belongs to another run"):
        train(**other)


def test_a_cost_that_json_cannot_say_does_not_keep_a_run_from_going_on(tmp_path: Path) -> None:
    """Objects of equal content have different addresses in the next process."""
    path, table = tmp_path / "run.ckpt", [[0, 1, 2], [1, 0, 1], [1, 1, 0]]
    fits = [
        StructuredClassifier(space, copies, cost=LabelCost(table), max_passes=5).fit(ROWS, LABELS, checkpoint=path)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(fits[0].theta_, fits[1].theta_)


def test_notes_travel_with_the_model(tmp_path: Path) -> None:
    model = StructuredClassifier(space, copies, max_passes=5).fit(ROWS, LABELS)
    model.info_ = {"made": "by a test"}
    model.save(tmp_path / "m.pw")
    again = load_model(tmp_path / "m.pw")
    assert again.info_ == model.info_ and again.result_.status == model.result_.status
    assert [record.step for record in again.result_.trace] == [record.step for record in model.result_.trace]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)).theta_, model.theta_)
