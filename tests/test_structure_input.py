"""Structures and learners refuse what they cannot use, and the error says what, where and what was expected."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from partwise import Arborescence, Chain, Cut, FactorGraph, Grammar, Graph, Matching, Multiclass
from partwise.exceptions import CapabilityError, InputError, ParameterError, SolverError
from partwise.learners import DCA, EG, LBFGS, LEARNERS, SGD, KBestMIRA, OneSlack, ProjectedAscent
from partwise.structures import Assignment, AssociativeGraph, SecondOrderTree, Structure
from partwise.structures.graphs.model import allowed_table, at_most_one, budget, implies

PAIR = [[(0, 1)]]
RULES = [(0, 1, 1)]

WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: Arborescence(3), ParameterError, "'lengths' parameter of Arborescence must be a sequence of integers"),
    (lambda: Arborescence([2, 0]), InputError, "instance 1 is an empty sentence"),
    (lambda: Arborescence([2], allowed=[]), InputError, "'allowed' has 0 entries for 1 instances"),
    (lambda: Arborescence([2], n_labels=2, labels=[[0]]), InputError, "'labels' of instance 0 must be 2 integers"),
    (lambda: Arborescence([2], n_labels=2, labels=[[0, 2]]), InputError, r"'labels' of instance 0 must be in -1..1"),
    (lambda: Arborescence([2], n_labels=2).encode(0, [[0, 0], [1, 5]]), InputError, "labels of instance 0 must be in"),
    (lambda: Arborescence([2]).encode_all([]), InputError, "got 0 outputs for 1 instances"),
    (lambda: Cut(3, PAIR), ParameterError, "'sizes' parameter of Cut must be a sequence of numbers of nodes"),
    (lambda: Cut([2], PAIR).encode(0, [0]), InputError, r"labels of graph 0 have shape \(1,\); expected \(2,\)"),
    (lambda: Cut([2], PAIR).encode(0, [0.5, 1.0]), InputError, "labels of graph 0 have type float64"),
    (lambda: Cut([2], PAIR).encode(0, [0, 2]), InputError, "node 1 of graph 0 has label 2; expected 0 … 1"),
    (lambda: Cut([2], PAIR, allowed=[None, None]), ParameterError, "one mask per graph, 1 in all"),
    (lambda: Cut([2], PAIR, allowed=[np.ones((2, 3))]), ParameterError, r"an array of shape \(2, 2\) for graph 0"),
    (lambda: Cut([2], PAIR, allowed=[[[1, 1], [0, 0]]]), InputError, "node 1 of graph 0 has no allowed label"),
    (lambda: Cut([2], PAIR).from_tables(0, np.zeros((2, 2)), []), InputError, "tables of instance 0 have shapes"),
    (lambda: AssociativeGraph([2], PAIR, 0), ParameterError, "must be an integer of at least 1"),
    (lambda: AssociativeGraph([2], PAIR, 2).argmax(0, np.array([0.0, 0, 0, 0, 1])), InputError,
     "edge 0 of instance 0, between nodes 0 and 1, scores 1 where they differ; it must be ≤ 0 and finite"),
    (lambda: Grammar([[[1], [1]]], 2, RULES, allowed=[]), InputError, "'allowed' has 0 entries for 1 instances"),
    (lambda: Grammar([[[1], [1]]], 2, RULES, labels=[0]), ParameterError, "2 integers, one per symbol"),
    (lambda: Grammar([[[1], [1]]], 0, []), ParameterError, "'n_symbols' parameter of Grammar must be at least 1"),
    (lambda: Grammar([[[1], [2]]], 2, RULES), InputError, r"tags of instance 0 must be in 0..1"),
    (lambda: Grammar([[[1], [1]]], 2, RULES, allowed=[[[0, 2]]]), InputError, r"rows \(start, stop, symbol\)"),
    (lambda: Grammar([[[1], [1]]], 2, RULES).encode(0, [[0, 2]]), InputError, r"must be rows \(start, stop, symbol\)"),
    (lambda: Grammar([[[1], [1]]], 2, RULES).encode_all([]), InputError, "got 0 outputs for 1 instances"),
    (lambda: SecondOrderTree([np.ones((3, 2))], n_labels=0), ParameterError, "at least 1, or absent"),
    (lambda: SecondOrderTree([np.ones((3, 2))], max_iterations=0), ParameterError, "at least 1"),
    (lambda: SecondOrderTree([np.ones((3, 2))]).encode(0, [0]), InputError, "a tree of instance 0 is an integer array"),
    (lambda: FactorGraph([Graph([2])], max_table=1), ParameterError, "'max_table' parameter of FactorGraph"),
    (lambda: FactorGraph([Graph([2])], gap=-1.0), ParameterError, "'gap' parameter of FactorGraph"),
    (lambda: FactorGraph([Graph([2])], time_limit=0.0), ParameterError, "a positive number of seconds"),
    (lambda: FactorGraph([Graph([2])], allowed=[]), InputError, "evidence has 0 entries for 1 instances"),
    (lambda: FactorGraph([Graph([2])], allowed=[[True]]), InputError, r"evidence of instance 0 has shape \(1,\)"),
    (lambda: FactorGraph([Graph([2])]).encode(0, [0, 1]), InputError, "instance 0 has 1 variables but 2 states"),
    (lambda: FactorGraph([Graph([2])]).encode(0, [0.5]), InputError, "states of instance 0 must be integers"),
    (lambda: FactorGraph([Graph([2])]).encode_all([]), InputError, "got 0 outputs for 1 instances"),
    (lambda: FactorGraph([Graph([2])]).solve(0, [0.0]), InputError, r"scores of instance 0 have shape \(1,\)"),
    (lambda: FactorGraph([Graph([2])]).solve(0, [0.0, np.nan]), InputError, "hold NaN or \\+inf at part 1"),
    (lambda: Graph([2], factors=[(0.5,)]), InputError, "scopes of factors must be integers"),
    (lambda: Graph([2, 2], factors=[(0,), ()]), InputError, "soft factor 1 has no variable"),
    (lambda: Graph([2], hard=[at_most_one([0, 3])]), InputError, "there is no variable 3; the graph has 1"),
    (lambda: allowed_table([0, 1], np.ones(2)), InputError, "a table over 2 variables has 1 axes"),
    (lambda: budget([0], -1), InputError, "a budget must be at least 0; got -1"),
    (lambda: Multiclass(1, 2).kbest(0, np.zeros(2), 0), ParameterError, "at least 1"),
    (lambda: DCA(max_passes=-1), ParameterError, "'max_passes' parameter of DCA must be at least 0"),
    (lambda: DCA(C=np.inf), ParameterError, "'C' parameter of DCA must be finite"),
    (lambda: DCA(variant="best"), ParameterError, "'max_loss' or 'prediction'"),
    (lambda: DCA(margin="root"), ParameterError, "'cost' unless variant='prediction'"),
    (lambda: DCA(margin="squared"), ParameterError, "'cost' or 'root'"),
    (lambda: DCA(max_passes="many"), ParameterError, "'max_passes' parameter of DCA"),
    (lambda: SGD(candidates=(0.0,)), ParameterError, "'candidates' parameter of SGD must be positive numbers"),
    (lambda: KBestMIRA(k=0), ParameterError, "'k' parameter of KBestMIRA must be at least 1"),
    (lambda: ProjectedAscent(sweeps=0), ParameterError, "'sweeps' parameter of ProjectedAscent must be at least 1"),
    (lambda: LBFGS().fit([1, 2]), CapabilityError, "LBFGS trains on a Problem or an Objective, not on a list"),
    (lambda: LEARNERS["no such learner"], KeyError, "no such learner"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "kind", "words"), WRONG, ids=[words[:40] for _, _, words in WRONG])
def test_wrong_input(make: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_names_of_learners_can_be_listed() -> None:
    assert {"lbfgs", "dca", "one_slack"} <= set(LEARNERS.keys())
    assert {LBFGS, DCA, OneSlack, EG} <= set(LEARNERS.values())


@pytest.mark.parametrize(
    ("space", "fields"),
    [
        (Chain([2], n_labels=2), {"position": [0, 0, 1, 1], "label": [0, 1, 0, 1]}),
        (Multiclass(1, 3), {"position": [0, 0, 0], "label": [0, 1, 2]}),
        (Matching([(2, 2)]), {"row": [0, 0, 1, 1], "column": [0, 1, 0, 1]}),
        (Assignment([(1, 2)]), {"row": [0, 0], "column": [0, 1]}),
        (Cut([2], PAIR), {"node": [0, 0, 1, 1], "state": [0, 1, 0, 1]}),
        (AssociativeGraph([1], [np.zeros((0, 2), int)], 3), {"node": [0, 0, 0], "state": [0, 1, 2]}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_atoms_say_where_each_of_them_lies(space: Structure, fields: dict[str, list[int]]) -> None:
    table = space.atoms(0)
    assert {name: getattr(table, name).tolist() for name in fields} == fields
    assert len(table[0]) == space.n_atoms(0)


def test_a_structure_of_one_s_own_names_what_it_lacks() -> None:
    class Bare(Structure):
        def __len__(self) -> int:
            return 1

        def n_parts(self, i: int) -> int:
            return 1

        def encode(self, i: int, y: object) -> np.ndarray:
            return np.ones(1)

    for call in ("argmax", "decode"):
        with pytest.raises(CapabilityError, match=f"Bare.*{call}"):
            getattr(Bare(), call)(0, np.zeros(1))
    with pytest.raises(CapabilityError, match="Bare"):
        Bare().atoms(0)
    with pytest.raises(TypeError, match="is not declared by hand"):
        type("Declared", (Structure,), {"oracles": frozenset({"argmax"})})


def test_a_relaxed_answer_is_rounded_and_says_so() -> None:
    class Half(Structure):
        """One item or none, and an argmax that answers with a half."""

        def __len__(self) -> int:
            return 1

        def n_parts(self, i: int) -> int:
            return 1

        def encode(self, i: int, y: object) -> np.ndarray:
            return np.array([float(bool(y))])

        def decode(self, i: int, parts: np.ndarray) -> bool:
            return bool(parts[0] > 0.75)

        def argmax(self, i: int, scores: np.ndarray) -> np.ndarray:
            return np.array([0.5])

        def guarantee(self, oracle: str) -> str:
            return "outer"

    found = Half().solve(0, np.array([2.0]))
    assert (found.parts.tolist(), found.value, found.bound, found.status) == ([0.0], 0.0, 1.0, "rounded")


def test_branch_and_bound_without_an_output() -> None:
    graph = Graph([2, 2], factors=[(0, 1)], hard=[implies(0, 1)])
    space = FactorGraph([graph], inference="branch_and_bound")
    forbidden = np.full(space.n_parts(0), 0.0)
    forbidden[[1, 2]] = -np.inf  # variable 0 must be 0 and variable 1 must be 1
    assert space.decode(0, space.solve(0, forbidden).parts).tolist() == [0, 1]
    forbidden[[0]] = -np.inf
    with pytest.raises((InputError, SolverError), match="instance 0"):
        space.solve(0, forbidden)
