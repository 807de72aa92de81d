"""TransitionParser: the dynamic oracle against exhaustive search, trees, learning, storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import partwise
from partwise.exceptions import InputError, ParameterError
from partwise.learners.laso.packed import advance, initial_state, state_size
from partwise.parsing import load_sample_treebank
from partwise.parsing._transition_kernels import ArcHybrid, _costs, _legal
from partwise.parsing.transitions import TransitionParser
from partwise.structures.arborescence import tree_fault


def small(heads: list[int]) -> ArcHybrid:
    n = len(heads)
    gold = np.array(heads, np.int32)
    return ArcHybrid(np.array([0, n]), np.zeros((n, 3), np.int32), 1, n, 63, gold, np.zeros(n, np.int32))


def after(problem: ArcHybrid, state: Any, action: int) -> Any:
    new = np.empty_like(state)
    advance(problem, 0, state, action, new)
    return new


def built(problem: ArcHybrid, state: Any, action: int) -> int:
    """1 if the action builds a gold arc."""
    if action == 0:
        return 0
    depth = state[2]
    head = state[1] if action == 1 else state[3 + depth - 2]
    return int(problem.heads[state[3 + depth - 1]] == head)


def best(problem: ArcHybrid, state: Any) -> int:
    """The most gold arcs that can still be built, by trying everything."""
    may = _legal(problem, 0, state)
    options = [built(problem, state, a) + best(problem, after(problem, state, a)) for a in range(3) if may[a]]
    return max(options, default=0)


@pytest.mark.parametrize("heads", [[1, 4, 1, 2], [4, 0, 0, 2]])
def test_costs_are_the_gold_arcs_that_are_lost(heads: list[int]) -> None:
    """At every state that some sequence of actions reaches, for projective gold trees."""
    problem = small(heads)
    state = np.empty(state_size(problem), np.int32)
    initial_state(problem, 0, state)
    waiting, seen = [state], 0
    while waiting:
        state = waiting.pop()
        may, costs = _legal(problem, 0, state), _costs(problem, 0, state)
        reachable = best(problem, state)
        for action in range(3):
            if may[action]:
                new = after(problem, state, action)
                lost = reachable - built(problem, state, action) - best(problem, new)
                assert costs[action] == lost, (state.tolist(), action)
                waiting.append(new)
        seen += 1
    assert seen > 30


@pytest.fixture(scope="module")
def parser() -> TransitionParser:
    return TransitionParser(row_bits=12, beam=2, max_passes=4).fit(load_sample_treebank("train")[:120])


def test_it_learns_and_makes_trees(parser: TransitionParser, tmp_path: Any) -> None:
    test = load_sample_treebank("test")[:30]
    found = parser.predict(test)
    assert all(tree_fault(sentence.heads) is None for sentence in found)
    assert parser.score(test) > 0.75
    parser.save(tmp_path / "parser.pw")
    again = partwise.load_model(tmp_path / "parser.pw").predict(test)
    assert [s.heads.tolist() for s in again] == [s.heads.tolist() for s in found]


def test_mistakes() -> None:
    with pytest.raises(ParameterError, match="'beam' parameter of LaSO must be at least 1"):
        TransitionParser(beam=0).fit(load_sample_treebank("train")[:2])
    with pytest.raises(InputError, match="there are no sentences to train on"):
        TransitionParser().fit([])
