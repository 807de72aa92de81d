"""A training that stopped before it had converged says so, with the gap and what to do; others are silent."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_runs import TEMPLATES
from estimators import columns, copies, numbers, three
from sklearn.exceptions import ConvergenceWarning

from partwise import MarkovNetwork, SequenceLabeler, StructuredClassifier
from partwise.cli import main
from partwise.data import write_columns

LINES = ["word[-1..1]", "pos[-1..1]"]


def warned(fit: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    return [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]


def test_lbfgs_says_how_far_it_is_and_what_to_do() -> None:
    X, y = columns("chunk")()
    (said,) = warned(lambda: SequenceLabeler(LINES, max_passes=4).fit(X, y))
    assert "LBFGS stopped after 4 passes (max_passes)" in said and "the objective fell by" in said
    assert "max_passes, now 4" in said and "tolerance" in said
    (share,) = re.findall(r"fell by ([\d.e+-]+)%", said)
    assert 0 < float(share) <= 100
    assert not warned(lambda: SequenceLabeler(LINES, max_passes=500).fit(X, y))


def test_a_bound_within_the_tolerance_is_convergence() -> None:
    """Ten passes may be all that were allowed, and yet be enough: the certificate proves it."""
    X, y = [["the", "dog", "barks"], ["a", "cat"]] * 10, [["D", "N", "V"], ["D", "N"]] * 10
    model = SequenceLabeler(["word[0]", "suffix(word,2)[0]"], max_passes=10)
    assert not warned(lambda: model.fit(X, y))
    certificate = model.result_.certificate
    assert model.result_.status == "max_passes" and certificate is not None and certificate.relative_gap < 1e-5
    assert warned(lambda: model.set_params(max_passes=3).fit(X, y))


@pytest.mark.parametrize("learner", ["n_slack", "one_slack", "frank_wolfe"])
def test_certified_learners_give_their_gap(learner: str) -> None:
    X, y = numbers()
    model = StructuredClassifier(three, copies, learner=learner, C=10.0, max_passes=2)
    (said,) = warned(lambda: model.fit(X, y))
    gap = model.result_.certificate.gap  # type: ignore[union-attr]
    assert f"at most {gap:.2g}" in said and "tolerance 0.001" in said
    assert not warned(lambda: model.set_params(max_passes=1000).fit(X, y))


def test_who_does_not_ask_for_the_minimum_is_left_alone() -> None:
    X, y = columns("chunk")()
    assert not warned(lambda: SequenceLabeler(LINES, learner="dca", max_passes=2).fit(X, y))  # passes are what it does
    assert not warned(lambda: SequenceLabeler(LINES, max_passes=4).fit(X, y, dev=(X, y)))  # the score chooses
    assert not warned(
        lambda: SequenceLabeler(LINES, max_passes=9).fit(X, y, callbacks=[lambda record, theta: record.step == 2])
    )


def test_networks_say_it_too() -> None:
    table = np.array([[0, 1], [1, 0], [0, 0], [1, 1], [1, 1]])
    (said,) = warned(lambda: MarkovNetwork([(0, 1)], max_iter=1, l2=0.01).fit(table))
    assert "max_iter, now 1" in said
    assert not warned(lambda: MarkovNetwork([(0, 1)]).fit(table))


def test_a_plain_sentence_on_the_command_line(tmp_path: Path, capsys: Any) -> None:
    X, y = columns("chunk")()
    rows = [[(*row, tag) for row, tag in zip(X[i], y[i], strict=True)] for i in range(len(X))]
    with open(tmp_path / "train.txt", "w", encoding="utf-8") as file:
        write_columns(file, rows)
    words = ["train", str(tmp_path / "train.txt"), "--model", str(tmp_path / "m.pw"), *TEMPLATES]
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as outside of the tests
        assert main([*words, "--max-passes", "3", "--quiet"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("partwise train: warning: training has not converged: LBFGS stopped after 3 passes")
    assert ".py" not in err and "Warning" not in err and err.count("\n") == 1
    assert main([*words, "--quiet"]) == 0 and capsys.readouterr().err == ""
