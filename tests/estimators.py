"""One small case per estimator: settings that train in no time, data, and what to expect of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import partwise
from partwise.data import load_sample, load_sample_alignments

# ruff: noqa: E501 a row per estimator


@dataclass(frozen=True)
class Case:
    """An estimator with data to fit it on.

    ``grid`` names a parameter to search over, ``frame`` says how X becomes a pandas object ("series", "frame" or None
    where X is one already or cannot be), ``weighs`` whether ``fit`` takes a sample_weight.
    """

    make: Callable[[], Any]
    data: Callable[[], tuple[Any, Any]]
    grid: tuple[str, list[Any]]
    frame: str | None = "series"
    weighs: bool = True
    predicts: bool = True


@cache
def sentences() -> Any:
    return load_sample("english", split="train")[:24]


def columns(label: str) -> Callable[[], tuple[Any, Any]]:
    def data() -> tuple[Any, Any]:
        found = sentences()
        kept = [c for c, name in enumerate(found.names) if name in ("word", "pos")]
        shown = partwise.data.Columns(
            tuple(found.names[c] for c in kept), [found.codes[c] for c in kept], [found.vocab[c] for c in kept],
            found.offsets, np.zeros_like(found.documents), found.lines,
        )  # fmt: skip
        return shown, found.column(label)

    return data


def words_and_tags() -> tuple[Any, Any]:
    found = sentences()
    return found.column("word"), partwise.data.Columns.from_sentences(
        {"pos": found.column("pos"), "chunk": found.column("chunk")}
    )


def pairs() -> tuple[Any, Any]:
    found = load_sample_alignments("train")
    return [tuple(pair) for pair in list(found.bitext)[:20]], list(found.gold)[:20]


def trees() -> tuple[Any, Any]:
    from partwise.parsing import load_sample_treebank

    return load_sample_treebank("train")[:30], None


def phrases() -> tuple[Any, Any]:
    from partwise.parsing import load_sample_phrases

    return load_sample_phrases("test")[:1] * 4 + load_sample_phrases("train")[:26], None


def counts() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 10)
    return rng.poisson(np.where((y == "a")[:, None], [3, 2, 0.1, 0.1], [0.1, 0.1, 3, 2])) + 1, y


def rows() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4))
    return X, np.array(["no", "yes", "maybe"])[np.argmax(X[:, :3], axis=1)]


def graphs() -> tuple[Any, Any]:
    from partwise.graphs import AttributedGraph

    rng = np.random.default_rng(0)
    edges = [(j, j + 1) for j in range(4)]
    X = [AttributedGraph(rng.normal(size=(5, 1)), edges) for _ in range(8)]
    return X, [np.where(graph.nodes["node"][:, 0] > 0, "up", "down").tolist() for graph in X]


class Spell(partwise.SearchProblem):
    def initial(self, x: Any) -> Any:
        return ""

    def operators(self, x: Any, state: Any) -> Any:
        return [state + letter for letter in "ab"]

    def goal(self, x: Any, state: Any) -> Any:
        return len(state) == x

    def good(self, x: Any, y: Any, state: Any) -> Any:
        return y.startswith(state)

    def features(self, x: Any, state: Any) -> Any:
        return [f"{state[-2:]} in {x}"]


def copies(X: Any) -> Any:
    return [np.kron(np.eye(3), np.asarray(x)[:, None]) for x in X]


def three(X: Any) -> Any:
    return partwise.Multiclass(len(X), 3)


def numbers() -> tuple[Any, Any]:
    X, y = rows()
    return list(X), [["maybe", "no", "yes"].index(label) for label in y]


LINES = ["word[-1..1]", "pos[-1..1]"]


def stage(*more: str) -> Any:
    return partwise.SequenceLabeler([*LINES, *more], learner="dca", max_passes=2)


CASES = {
    "SequenceLabeler": Case(lambda: partwise.SequenceLabeler(LINES, max_passes=8), columns("chunk"), ("C", [0.1, 1.0]), "frame"),
    "StackedLabeler": Case(
        lambda: partwise.StackedLabeler(stage(), stage("doc_label(word,type(predicted))[0]"), folds=2),
        columns("chunk"), ("second__C", [0.1, 1.0]), "frame",
    ),
    "SegmentLabeler": Case(lambda: partwise.SegmentLabeler(LINES, max_passes=2), columns("chunk"), ("C", [0.1, 1.0]), "frame"),
    "SearchLabeler": Case(
        lambda: partwise.SearchLabeler(LINES, max_passes=2), columns("chunk"), ("beam", [1, 2]), "frame", weighs=False
    ),
    "JointLabeler": Case(
        lambda: partwise.JointLabeler(max_passes=2, hash_bits=10), words_and_tags, ("beam", [1, 2]), weighs=False, predicts=False
    ),
    "WordAligner": Case(
        lambda: partwise.WordAligner(C=0.1, infeasible="nearest", max_passes=5), pairs, ("C", [0.01, 0.1]), "frame"
    ),
    "GenerativeAligner": Case(lambda: partwise.GenerativeAligner(), pairs, ("threshold", [0.3, 0.5]), "frame", weighs=False),
    "LDA": Case(lambda: partwise.LDA(2, n_iterations=5), counts, ("n_topics", [2, 3]), "table", weighs=False, predicts=False),
    "DiscLDA": Case(
        lambda: partwise.DiscLDA(n_iterations=5), counts, ("alpha", [0.1, 1.0]), "table", weighs=False
    ),
    "DependencyParser": Case(
        lambda: partwise.DependencyParser(arc_bits=12, row_bits=8, max_passes=2), trees, ("C", [0.01, 0.1])
    ),
    "SecondOrderParser": Case(
        lambda: partwise.SecondOrderParser(arc_bits=12, row_bits=8, max_passes=2, pruner_passes=2), trees, ("C", [0.01, 0.1])
    ),
    "TransitionParser": Case(
        lambda: partwise.TransitionParser(step_bits=10, row_bits=8, max_passes=2), trees, ("beam", [1, 2]), weighs=False
    ),
    "PhraseParser": Case(
        lambda: partwise.PhraseParser(bits=12, vertical=1, horizontal=0, max_passes=2, folds=2), phrases, ("C", [0.01, 0.1])
    ),
    "TreebankParser": Case(lambda: partwise.TreebankParser(), phrases, ("vertical", [1, 2]), weighs=False),
    "GraphLabeler": Case(lambda: partwise.GraphLabeler(), graphs, ("C", [0.1, 1.0])),
    "LinearClassifier": Case(partwise.LinearClassifier, rows, ("C", [0.1, 1.0]), "table"),
    "MarkovNetwork": Case(
        lambda: partwise.MarkovNetwork([(0, 3)], states={c: [False, True] for c in range(4)}), lambda: (np.array([list(row) for row in counts()[0] > 2]), None),
        ("l2", [0.1, 1.0]), None, weighs=False, predicts=False,
    ),
    "StructuredClassifier": Case(lambda: partwise.StructuredClassifier(three, copies), numbers, ("C", [0.1, 1.0])),
    "SearchPredictor": Case(
        lambda: partwise.SearchPredictor(Spell(), queue=partwise.Beam(2)), lambda: ([2, 3] * 4, ["ab", "bba"] * 4),
        ("alpha", [0.5, 0.9]), weighs=False,
    ),
}  # fmt: skip
