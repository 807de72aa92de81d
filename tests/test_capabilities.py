"""What fits together is declared, checked before training, and written into the docs."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles import Interval
from problems import tiny

import partwise.structures
from partwise.capabilities import capability_table
from partwise.exceptions import CapabilityError, ParameterError
from partwise.features import MatrixFeatures
from partwise.learners import (
    DCA,
    LBFGS,
    LEARNERS,
    SGD,
    ExactDCA,
    KBestMIRA,
    Learner,
    Perceptron,
    find_learner,
    register_learner,
)
from partwise.learners.base import Result
from partwise.learners.registry import NAMED
from partwise.losses import LOSSES, Loss
from partwise.problem import Problem
from partwise.structures import Chain, Multiclass, Structure

Floats = NDArray[np.float64]


class Forbidding(MatrixFeatures):
    """Features that must not be asked for anything."""

    def scores(self, i: int, theta: Floats) -> Floats:
        raise AssertionError("training began")


def intervals(
    loss: Loss | str, n: int = 12, features: Callable[..., Any] = MatrixFeatures
) -> tuple[Problem, list[tuple[int, int]]]:
    """(problem, gold): the best run of items, an argmax and nothing else; inside and outside differ in their mean."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 7, size=n).tolist()
    outputs, matrices = [], []
    for size in sizes:
        a = int(rng.integers(size))
        b = int(rng.integers(a + 1, size + 1))
        outputs.append((a, b))
        inside = (np.arange(size) >= a) & (np.arange(size) < b)
        matrices.append(np.vstack([inside + 0.2 * rng.normal(size=size), np.ones(size), rng.normal(size=size)]))
    return Problem(Interval(sizes), features(matrices), outputs, loss), outputs


def able(loss: str) -> str:
    """The learners, in words, that minimise a loss and ask for no oracle beside the one it needs."""
    names = [name for name, kind in LEARNERS.items() if kind().accepts(Loss.named(loss)) and not kind.needs]
    assert {"sgd", "dca", "exact_dca", "n_slack", "one_slack"} <= set(names) or loss == "ramp"
    return ", ".join(names)


# --------------------------------------------------------------------------------------------------
# Mismatches

ELSE = f"No learner can; with loss 'svm': {able('svm')}; with loss 'perceptron': {able('perceptron')}."


@pytest.mark.parametrize(
    ("learner", "loss", "words"),
    [
        (
            KBestMIRA(),
            "svm",
            f"Interval has no oracle 'kbest', which KBestMIRA needs. Learners that can: {able('svm')}.",
        ),
        (
            DCA(),
            "crf",
            f"Interval has no oracle 'marginals', which the crf loss needs. {ELSE}",
        ),
        (
            LBFGS(),
            "softmax_margin",
            f"Interval has no oracle 'marginals', which the softmax_margin loss needs. {ELSE}",
        ),
        (
            LBFGS(),
            "svm",
            f"LBFGS minimises smooth losses (β < ∞), not svm. Learners that can: {able('svm')}.",
        ),
        (
            Perceptron(),
            "svm",
            f"Perceptron minimises the perceptron loss, not svm. Learners that can: {able('svm')}.",
        ),
        (ExactDCA(), "ramp", "ExactDCA minimises convex losses, not ramp. Learners that can: sgd, dca."),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) > 20 else str(value).split("(")[0],
)
def test_mismatches_fail_before_training(learner: Learner, loss: str, words: str) -> None:
    with pytest.raises(CapabilityError) as caught:
        learner.fit(intervals(loss, features=Forbidding)[0])
    assert str(caught.value) == words
    assert isinstance(caught.value, TypeError)


def test_mismatches_of_losses_on_a_chain() -> None:
    case = tiny(seed=1, lengths=(2, 1))
    with pytest.raises(CapabilityError, match=r"KBestMIRA minimises losses with β = ∞, not crf\. Learners that can: "):
        KBestMIRA().fit(case.problem("crf"))
    with pytest.raises(CapabilityError, match=r"DCA minimises losses with β = ∞, not L\(β=3, γ=1\)\."):
        DCA(variant="prediction").fit(case.problem(Loss(3.0, 1.0)))
    with pytest.raises(
        CapabilityError, match=r"ExactDCA needs a convex problem, and partly known gold outputs make it non-convex"
    ):
        ExactDCA().fit(Problem(case.space, case.features, case.space, "crf"))


def test_a_structure_without_oracles() -> None:
    class Idle(Interval):
        oracles = property(lambda self: frozenset())  # type: ignore[assignment]

    problem = Problem(Idle([3]), Forbidding([np.eye(3)]), [(0, 1)], "svm")
    with pytest.raises(CapabilityError, match=r"Idle has no oracle 'argmax', .* No learner can, with any loss\."):
        DCA().fit(problem)


# --------------------------------------------------------------------------------------------------
# A structure of one's own


@pytest.mark.parametrize(
    ("learner", "loss"),
    [(Perceptron(max_passes=20), "perceptron"), (DCA(), "svm"), (SGD(eta=0.1), "svm"), (ExactDCA(max_passes=3), "svm")],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_argmax_in_plain_python_is_enough(learner: Learner, loss: str) -> None:
    problem, gold = intervals(loss)
    hinge, _ = intervals("svm")  # what they all bring down
    result = learner.fit(problem)
    assert hinge.losses(result.theta).mean() < 0.5 * hinge.losses(np.zeros(3)).mean()
    assert sum(y == z for y, z in zip(problem.predict(result.theta), gold, strict=True)) >= 9


# --------------------------------------------------------------------------------------------------
# Names


def test_names_of_losses_and_learners() -> None:
    assert LEARNERS.keys() >= {"perceptron", "sgd", "dca", "mira", "exact_dca", "lbfgs", "n_slack", "one_slack"}
    for name, kind in LEARNERS.items():
        assert find_learner(name) is kind and isinstance(kind(), Learner)
    assert {name: kind.__name__ for name, kind in LEARNERS.items()} == NAMED
    with pytest.raises(ParameterError, match=r"'learner' .* one of .*\(did you mean 'lbfgs'\?\)\. Got 'lbgfs'"):
        find_learner("lbgfs")
    with pytest.raises(ParameterError, match=r"'loss' .* one of .*\(did you mean 'crf'\?\)\. Got 'crff' instead"):
        Loss.named("crff")
    with pytest.raises(ParameterError) as caught:
        Loss.named("zzzzzz")
    assert "did you mean" not in str(caught.value) and "'softmax_margin'" in str(caught.value)


def test_a_learner_of_ones_own_joins_the_table_and_the_hints() -> None:
    class Lazy(Learner):
        losses = "the ramp"

        def accepts(self, loss: Loss) -> bool:
            return str(loss) == "ramp"

        def start(self, problem: Problem, theta: Floats, score: Any) -> dict[str, Any]:
            return {"theta": theta}

        def advance(self, problem: Problem, state: dict[str, Any]) -> dict[str, Any]:
            return {"converged": True}

    register_learner("lazy")(Lazy)
    try:
        with pytest.raises(CapabilityError, match=r"not ramp\. Learners that can: sgd, dca, lazy\."):
            ExactDCA().fit(intervals("ramp")[0])
        result = find_learner("lazy")().fit(intervals("ramp")[0])
        assert isinstance(result, Result) and result.status == "converged"
        assert "`lazy` minimises the ramp" in capability_table()
    finally:
        del LEARNERS["lazy"]


# --------------------------------------------------------------------------------------------------
# The table


def test_the_table_in_the_docs_is_up_to_date() -> None:
    path = Path(__file__).parents[1] / "docs" / "capabilities.md"
    fresh = capability_table()
    assert path.read_text(encoding="utf-8") == fresh, "run: python -m partwise.capabilities > docs/capabilities.md"


def cells(table: str, structure: str) -> dict[str, tuple[str, str]]:
    """Learner → (sign, tooltip), from the first row of a structure."""
    lines = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    row = next(line for line in lines if line[0] == f"`{structure}`")
    found = {}
    for names, cell in zip(lines[0][1:], row[1:], strict=True):
        match = re.fullmatch(r'<abbr title="(.*)">(.*)</abbr>', cell)
        assert match is not None
        found |= {name.strip("`"): (match[2], html.unescape(match[1])) for name in names.split("<br>")}
    return found


def test_every_public_structure_has_a_row() -> None:
    table = capability_table()
    for name in partwise.structures.__all__:
        kind = getattr(partwise.structures, name)
        if isinstance(kind, type) and issubclass(kind, Structure):
            row = f"| `{name}` |" in table or f"| `{name}(" in table  # a row per variant
            assert row == (name not in ("Structure", "CompiledStructure"))


def test_cells_say_what_works_or_what_is_missing() -> None:
    table = capability_table({"Chain": Chain([2], 2), "Multiclass": Multiclass(1, 2), "Interval": Interval([3])})
    every = ("✓", ", ".join(LOSSES))
    for name in ("Chain", "Multiclass"):
        row = cells(table, name)
        assert row["dca"] == row["sgd"] == every and row["lbfgs"] == ("✓", "crf, softmax_margin, risk")
        assert row["mira"] == ("✓", "svm, perceptron") and row["perceptron"] == ("✓", "perceptron")
    row = cells(table, "Interval")
    assert row["dca"] == row["sgd"] == ("β = ∞", "svm, perceptron, ramp")
    assert row["n_slack"] == ("✓ˢ", "svm, perceptron")
    assert row["lbfgs"][0] == "–" and "no oracle 'marginals', which the crf loss needs" in row["lbfgs"][1]
    assert row["mira"][0] == "–" and "Interval has no oracle 'kbest', which KBestMIRA needs" in row["mira"][1]
    assert "| `kbest` | `mira` |" in table


def test_learners_share_a_column_only_if_they_can_do_the_same() -> None:
    header = next(line for line in capability_table().splitlines() if line.startswith("| structure"))
    groups = [cell.split("<br>") for cell in header.strip("| ").split(" | ")[1:]]
    assert sorted(name.strip("`") for group in groups for name in group) == sorted(LEARNERS)
    assert len(groups) < len(LEARNERS) and ["`sgd`", "`dca`"] in groups


def test_cells_are_true() -> None:
    """A loss in a cell trains; a loss that is not in it raises."""
    row = cells(capability_table({"Interval": Interval([3])}), "Interval")
    for name, kind in LEARNERS.items():
        sign, words = row[name]
        able = set() if sign == "–" else set(words.split(", "))
        for loss in LOSSES:
            problem, _ = intervals(loss, n=2)
            if loss in able:
                assert len(kind(max_passes=1).fit(problem).trace) == 1
            else:
                with pytest.raises(CapabilityError):
                    kind(max_passes=1).fit(problem)
