"""StructuredClassifier on a structure in plain Python: scikit-learn's interface, storage, and oracles that err."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import Interval
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

from partwise import Hamming, LabelCost, Multiclass, StructuredClassifier
from partwise.costs import Cost
from partwise.estimators import load_model
from partwise.exceptions import CapabilityError, InputError, ParameterError, StorageError
from partwise.features import MatrixFeatures
from partwise.learners import LEARNERS, OneSlack
from partwise.learners.base import Record, objective
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures import Structure

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[1]


def runs(n: int = 24, seed: int = 0) -> tuple[list[Floats], list[tuple[int, int]]]:
    """Rows of items (size, 3), and which run of each is meant: its items measure more."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        size = int(rng.integers(3, 8))
        a = int(rng.integers(size))
        b = int(rng.integers(a + 1, size + 1))
        inside = (np.arange(size) >= a) & (np.arange(size) < b)
        X.append(np.column_stack([inside + 0.4 * rng.normal(size=size), np.ones(size), rng.normal(size=size)]))
        y.append((a, b))
    return X, y


def space_of(X: list[Floats]) -> Interval:
    return Interval([len(x) for x in X])


def matrices(X: list[Floats]) -> list[Floats]:
    return [x.T for x in X]


X, Y = runs()


def model(**settings: Any) -> StructuredClassifier:
    return StructuredClassifier(space_of, matrices, **{"C": 0.3, "cost": Hamming(1.0, 1.0), **settings})


# --------------------------------------------------------------------------------------------------
# Training


@pytest.mark.parametrize("learner", ["n_slack", "one_slack", "dca", "sgd", OneSlack(C=0.3, cache=3)], ids=str)
def test_it_learns(learner: Any) -> None:
    found = model(learner=learner).fit(X, Y)
    assert found.score(X, Y) > -0.6
    other, truth = runs(30, seed=5)
    assert -1.0 < found.score(other, truth) < 0.0
    wrong = [len(set(range(*a)) ^ set(range(*b))) for a, b in zip(truth, found.predict(other), strict=True)]
    np.testing.assert_allclose(found.score(other, truth), -np.mean(wrong))


def test_it_is_the_problem_it_says() -> None:
    """The same θ as from the learner itself, a certificate, and the score is minus the mean cost."""
    settings: dict[str, Any] = {"cost": Hamming(1.0, 2.0), "loss": Loss(np.inf, 0.5)}
    found = model(**settings, learner="one_slack", learner_options={"tolerance": 1e-4}).fit(X, Y)
    problem = Problem(space_of(X), MatrixFeatures(matrices(X)), Y, settings["loss"], settings["cost"])
    expected = OneSlack(C=0.3, tolerance=1e-4).fit(problem)
    np.testing.assert_array_equal(found.theta_, expected.theta)
    np.testing.assert_array_equal(found.coef_, found.theta_)
    certificate = found.result_.certificate
    assert certificate.relative_gap <= 1e-4
    np.testing.assert_allclose(objective(problem, found.theta_, 0.3), certificate.primal)
    costs = []
    for predicted, gold in zip(found.predict(X), Y, strict=True):
        one, other = set(range(*predicted)), set(range(*gold))
        costs.append(1.0 * len(one - other) + 2.0 * len(other - one))
    np.testing.assert_allclose(found.score(X, Y), -np.mean(costs))


def test_features_may_be_x_itself_or_a_map() -> None:
    direct = StructuredClassifier(lambda X: Interval([x.shape[1] for x in X]), C=0.3).fit(matrices(X), Y)
    assert direct.theta_.any()
    mapped = StructuredClassifier(space_of, lambda X: MatrixFeatures(matrices(X)), C=0.3).fit(X, Y)
    np.testing.assert_array_equal(direct.theta_, mapped.theta_)


def test_weights_that_must_not_be_negative() -> None:
    free = model().fit(X, Y)
    assert free.theta_[1] < 0
    bound = model(nonnegative=[True, True, False]).fit(X, Y)
    assert (bound.theta_[:2] >= 0).all() and bound.result_.certificate.primal > free.result_.certificate.dual
    with pytest.raises(CapabilityError, match=r"DCA cannot keep weights ≥ 0\. Learners that can: .*n_slack"):
        model(nonnegative=[True, True, False], learner="dca").fit(X, Y)


def test_a_compiled_structure_works_too() -> None:
    def copies(X: Any) -> list[Floats]:
        return [np.kron(np.eye(3), x[:, None]) for x in X]

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=30).tolist()
    points = [np.eye(3)[b] + 0.3 * rng.normal(size=3) for b in labels]
    found = StructuredClassifier(lambda X: Multiclass(len(X), 3), copies, loss="slack_svm", C=1.0).fit(points, labels)
    assert found.score(points, labels) > -0.1
    crf = StructuredClassifier(lambda X: Multiclass(len(X), 3), copies, loss="crf", learner="lbfgs").fit(points, labels)
    assert crf.score(points, labels) > -0.1


def test_interrupted_training_keeps_the_best_weights() -> None:
    class Slow(Interval):
        left = 24 * 5

        def argmax(self, i: int, scores: Floats) -> Floats:
            type(self).left -= 1
            if type(self).left == 0:
                raise KeyboardInterrupt
            return super().argmax(i, scores)

    found = StructuredClassifier(lambda X: Slow([len(x) for x in X]), matrices, C=0.3, learner="one_slack").fit(X, Y)
    result = found.result_
    assert result.status == "interrupted" and 1 <= result.best_step <= len(result.trace)
    assert result.certificate.primal == min(record.objective for record in result.trace)
    assert len(found.predict(X)) == len(X)


def test_checkpoint_and_callbacks(tmp_path: Path) -> None:
    path, seen = tmp_path / "run.pw", []

    def stop(record: Record, theta: Floats) -> bool:
        seen.append(record.step)
        return record.step == 3

    model(learner="one_slack").fit(X, Y, callbacks=[stop], checkpoint=path)
    assert seen == [1, 2, 3]
    resumed = model(learner="one_slack").fit(X, Y, checkpoint=path)
    whole = model(learner="one_slack").fit(X, Y)
    np.testing.assert_array_equal(resumed.theta_, whole.theta_)
    for other in (model(learner="one_slack", C=0.4), model(learner="one_slack", cost=Hamming())):
        with pytest.raises(InputError, match="belongs to another run"):
            other.fit(X, Y, checkpoint=path)
    with pytest.raises(InputError, match="belongs to another run"):
        model(learner="one_slack").fit([x + 0.1 for x in X], Y, checkpoint=path)


# --------------------------------------------------------------------------------------------------
# scikit-learn


def test_scikit_learn_interface() -> None:
    found = model(loss="perceptron")
    copied = clone(found)
    assert copied.get_params() == found.get_params() and copied is not found
    assert repr(StructuredClassifier(C=2.0)) == "StructuredClassifier(C=2.0)"
    assert copied.set_params(C=3.0).C == 3.0
    with pytest.raises(ParameterError, match="set_params"):
        copied.set_params(c=3.0)
    with pytest.raises(NotFittedError, match="StructuredClassifier is not fitted yet"):
        found.predict(X)
    with pytest.raises(NotFittedError):
        found.save("nowhere.pw")


def test_grid_search() -> None:
    search = GridSearchCV(model(), {"C": [1e-6, 0.3]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"C": 0.3}
    assert search.best_estimator_.predict(X[:1]) and search.best_score_ > -1.0
    assert len(cross_val_score(model(learner="one_slack"), X, Y, cv=2)) == 2


# --------------------------------------------------------------------------------------------------
# Storage


class Even(Cost):
    """A cost of one's own."""

    def parts(self, space: Structure, i: int, gold: Floats) -> tuple[Floats, float]:
        return 1.0 - 2.0 * gold, float(gold.sum())


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "runs.pw"
    found = model(cost=Hamming(1.0, 2.0), learner=OneSlack(C=0.3), nonnegative=[True, False, False]).fit(X, Y)
    found.save(path)
    again = StructuredClassifier.load(path, structure=space_of, features=matrices)
    np.testing.assert_array_equal(again.theta_, found.theta_)
    assert again.predict(X) == found.predict(X) and again.score(X, Y) == found.score(X, Y)
    assert again.cost == Hamming(1.0, 2.0) and again.learner == OneSlack(C=0.3)
    assert again.result_.certificate == found.result_.certificate and again.result_.trace == found.result_.trace
    np.testing.assert_array_equal(again.fit(X, Y).theta_, found.theta_)

    bare = load_model(path)
    np.testing.assert_array_equal(bare.coef_, found.theta_)
    with pytest.raises(ParameterError, match=r"'structure' .* a function of X that returns a Structure"):
        bare.predict(X)
    np.testing.assert_array_equal(bare.set_params(structure=space_of, features=matrices).predict(X), found.predict(X))


def test_costs_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.pw"
    labels, points = [0, 1, 0], [np.eye(2)] * 3
    prices = LabelCost([[0, 1], [5, 0]])
    StructuredClassifier(lambda X: Multiclass(len(X), 2), cost=prices).fit(points, labels).save(path)
    np.testing.assert_array_equal(load_model(path).cost.cost, prices.cost)
    model(cost=Even()).fit(X, Y).save(path)
    with pytest.raises(StorageError, match="trained with the cost Even; pass it to load as cost="):
        StructuredClassifier.load(path, structure=space_of, features=matrices)
    again = StructuredClassifier.load(path, structure=space_of, features=matrices, cost=Even())
    np.testing.assert_allclose(again.score(X, Y), model(cost=Even()).fit(X, Y).score(X, Y))


# --------------------------------------------------------------------------------------------------
# Bad input


class Erring(Interval):
    """Answers wrongly for instance 3."""

    def __init__(self, sizes: list[int], answer: Callable[[int], Any]) -> None:
        super().__init__(sizes)
        self.answer = answer

    def argmax(self, i: int, scores: Floats) -> Floats:
        return super().argmax(i, scores) if i != 3 else self.answer(self.sizes[3])


ANSWERS: list[tuple[Callable[[int], Any], str]] = [
    (lambda n: np.ones(n + 1), r"Erring\.argmax returned shape .* for instance 3; expected"),
    (lambda n: np.full(n, np.nan), r"Erring\.argmax returned NaN or infinity for instance 3"),
    (lambda n: np.zeros(n), r"Erring\.argmax returned no output for instance 3: "),
    (lambda n: np.full(n, 0.5), r"Erring\.argmax returned parts of instance 3 that are not an output: encode\(decode"),
    (lambda n: (np.arange(n) % 2 == 0) * 1.0, r"Erring\.argmax returned parts of instance 3 that are not an output"),
    (
        lambda n: np.ones(n),
        r"Erring\.argmax of instance 3 returned an output that scores .* although the gold output scores .*: either",
    ),
]


@pytest.mark.parametrize(("answer", "words"), ANSWERS)
def test_an_oracle_that_errs_is_named(answer: Callable[[int], Any], words: str) -> None:
    x, y = [np.ones((4, 1))] * 5, [(1, 2)] * 5
    with pytest.raises(InputError, match=words):
        StructuredClassifier(lambda X: Erring([len(x) for x in X], answer), matrices).fit(x, y)


def test_an_approximate_oracle_may_be_accepted() -> None:
    def whole(n: int) -> Floats:
        return np.ones(n)

    found = StructuredClassifier(
        lambda X: Erring([len(x) for x in X], whole), matrices, learner="dca", check_oracle=False
    ).fit(X, Y)
    assert found.predict(X)[3] == (0, len(X[3]))


def test_gold_outside_the_space() -> None:
    class Short(Interval):
        """Runs of at most two items."""

        def argmax(self, i: int, scores: Floats) -> Floats:
            choices = [(a, b) for a in range(self.sizes[i]) for b in range(a + 1, min(a + 3, self.sizes[i] + 1))]
            return self.encode(i, max(choices, key=lambda y: scores[y[0] : y[1]].sum()))

    class Strict(Short):
        def allows(self, i: int, parts: Floats) -> bool:
            return bool(0 < parts.sum() <= 2)

    x, y = [np.ones((5, 1))] * 3, [(0, 2), (1, 4), (3, 4)]
    with pytest.raises(
        InputError,
        match=r"Short\.argmax of instance 1 .*although the gold output scores .*: either that is",
    ):
        StructuredClassifier(lambda X: Short([len(x) for x in X]), matrices).fit(x, y)
    with pytest.raises(InputError, match="gold output of instance 1: the output is outside the space"):
        StructuredClassifier(lambda X: Strict([len(x) for x in X]), matrices).fit(x, y)


def test_bad_settings_and_shapes() -> None:
    with pytest.raises(ParameterError, match=r"'C' parameter of NSlack must be a positive number\. Got 0"):
        model(C=0.0).fit(X, Y)
    with pytest.raises(ParameterError, match="'structure' parameter of StructuredClassifier must be a function of X"):
        StructuredClassifier().fit(X, Y)
    with pytest.raises(ParameterError, match="must be a function that returns a Structure"):
        StructuredClassifier(lambda X: len(X), matrices).fit(X, Y)
    with pytest.raises(InputError, match="the structure has 24 instances but X has 23"):
        StructuredClassifier(lambda _: space_of(X), matrices).fit(X[1:], Y[1:])
    with pytest.raises(InputError, match="X has 24 instances but y has 23"):
        model().fit(X, Y[1:])
    with pytest.raises(InputError, match="features score 4 parts of instance 0, the structure has 5"):
        StructuredClassifier(lambda X: Interval([5]), lambda X: [np.ones((3, 4))]).fit([0], [(0, 1)])
    with pytest.raises(ParameterError, match="learner_options"):
        model(learner_options={"sweeps": 3}).fit(X, Y)
    with pytest.raises(ParameterError, match=r"'learner' .* 'n_slack'"):
        model(learner="n_slak").fit(X, Y)
    with pytest.raises(CapabilityError, match="Interval has no oracle 'marginals', which the crf loss needs"):
        model(loss="crf", learner="dca").fit(X, Y)
    found = model().fit(X, Y)
    with pytest.raises(InputError, match="the features have 4 weights; the model has 3"):
        found.predict([np.ones((5, 4))])
    with pytest.raises(InputError, match="X has 24 instances but y has 2"):
        found.score(X, Y[:2])
    assert found.predict([]) == []


# --------------------------------------------------------------------------------------------------
# The documented example


def test_the_example_is_short_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "examples" / "custom_structure.py"
    runpy.run_path(str(path), run_name="__main__")
    assert "relative gap" in capsys.readouterr().out
    source = path.read_text(encoding="utf-8")
    run = next(node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    assert run.end_lineno - run.lineno < 60
    page = (ROOT / "docs" / "custom_structure.md").read_text(encoding="utf-8")
    body = ast.get_source_segment(source, run).split('"""')[-1]
    assert body.strip() in page, "the page shows what the example runs"
    assert issubclass(runpy.run_path(str(path))["Run"], Structure)


def test_learners_named_on_the_page_exist() -> None:
    assert {"n_slack", "one_slack"} <= LEARNERS.keys()
