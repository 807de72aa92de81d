"""TransitionParser: the dynamic oracle against exhaustive search, trees, learning, storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import partwise
from partwise.exceptions import InputError, ParameterError
from partwise.learners.laso._beam import decode
from partwise.learners.laso.packed import advance, initial_state, state_size
from partwise.parsing import DependencySentence, load_sample_treebank
from partwise.parsing._transition_kernels import best_trees
from partwise.parsing._transition_system import DEPTH, HEAD, LABEL, LEVEL, STACK, ArcHybrid, costs, field_of, legal
from partwise.parsing._transition_templates import LABEL_TEMPLATES, STEP_TEMPLATES, VIEWS
from partwise.parsing.transitions import TransitionParser
from partwise.structures.arborescence import tree_fault


def small(heads: list[int], *, single_root: bool = False) -> ArcHybrid:
    n = len(heads)
    gold, views = np.array(heads, np.int32), np.zeros((n + 2, len(VIEWS)), np.uint64)
    return ArcHybrid(np.array([0, n]), views, *STEP_TEMPLATES, *LABEL_TEMPLATES, 6, 6, 1, single_root, n, gold,
                     np.zeros(n, np.int32))  # fmt: skip


def start(problem: ArcHybrid) -> Any:
    state = np.empty(state_size(problem), np.int32)
    initial_state(problem, 0, state)
    return state


def after(problem: ArcHybrid, state: Any, action: int) -> Any:
    """The state after a step and the choice of its relation."""
    between, new = np.empty_like(state), np.empty_like(state)
    advance(problem, 0, state, action, between)
    advance(problem, 0, between, 0, new)
    assert new[LEVEL] == state[LEVEL] + 2
    return new


def built(problem: ArcHybrid, state: Any, action: int) -> int:
    """1 if the action builds a gold arc."""
    if action == 0:
        return 0
    word = state[STACK + state[DEPTH] - 1]
    n = len(problem.heads)
    return int(problem.heads[word] == after(problem, state, action)[field_of(n, HEAD) + word])


def best(problem: ArcHybrid, state: Any) -> int:
    """The most gold arcs that can still be built, by trying everything."""
    may = legal(problem, len(problem.heads), state)
    options = [built(problem, state, a) + best(problem, after(problem, state, a)) for a in range(3) if may[a]]
    return max(options, default=0)


@pytest.mark.parametrize("heads", [[1, 4, 1, 2], [4, 0, 0, 2]])
def test_costs_are_the_gold_arcs_that_are_lost(heads: list[int]) -> None:
    """At every state that some sequence of actions reaches, for projective gold trees."""
    problem = small(heads)
    waiting, seen = [start(problem)], 0
    while waiting:
        state = waiting.pop()
        may, lost = legal(problem, len(heads), state), costs(problem, 0, state)
        reachable = best(problem, state)
        for action in range(3):
            if may[action]:
                new = after(problem, state, action)
                assert lost[action] == reachable - built(problem, state, action) - best(problem, new), state.tolist()
                waiting.append(new)
        seen += 1
    assert seen > 30


def test_every_path_ends_in_a_tree_with_one_root_where_that_is_demanded() -> None:
    problem = small([1, 4, 1, 2], single_root=True)
    waiting, trees = [start(problem)], set()
    while waiting:
        state = waiting.pop()
        may = legal(problem, 4, state)
        if not any(may):
            heads = state[field_of(4, HEAD) :][:4]
            trees.add(tuple(0 if h == 4 else int(h) + 1 for h in heads))
        waiting += [after(problem, state, a) for a in range(3) if may[a]]
    assert len(trees) == 30  # projective trees of 4 words with one root
    assert all(tree_fault(np.array(tree), single_root=True, projective=True) is None for tree in trees)


@pytest.fixture(scope="module")
def parser() -> TransitionParser:
    return TransitionParser(step_bits=14, row_bits=12, max_passes=4).fit(load_sample_treebank("train")[:120])


def test_it_learns_and_makes_trees(parser: TransitionParser, tmp_path: Any) -> None:
    test = load_sample_treebank("test")[:30]
    found = parser.predict(test)
    assert all(tree_fault(sentence.heads, single_root=True, projective=True) is None for sentence in found)
    assert parser.score(test) > 0.8
    assert parser.evaluate(test).las == pytest.approx(100 * parser.score(test))
    parser.save(tmp_path / "parser.pw")
    again = partwise.load_model(tmp_path / "parser.pw")
    assert again.predict(test) == found
    again.n_jobs = 2
    assert again.predict(test) == found


def test_the_greedy_loop_does_what_a_beam_of_one_does(parser: TransitionParser) -> None:
    """Also where weights are so random that every relation and step occurs."""
    problem = parser._pack(load_sample_treebank("test")[:20])
    rng = np.random.default_rng(0)
    for theta in (parser.theta_, rng.normal(size=len(parser.theta_)).astype(np.float32)):
        heads, relations = np.zeros((2, int(problem.offsets[-1])), np.int64)
        best_trees(problem, theta, 1, 0, 20, heads, relations)
        for i in range(20):
            arena, queue = decode(problem, i, theta, 1)
            first, n = problem.offsets[i], problem.offsets[i + 1] - problem.offsets[i]
            state = arena.state[queue[0]]
            assert state[field_of(n, HEAD) :][:n].tolist() == heads[first : first + n].tolist()
            assert state[field_of(n, LABEL) :][:n].tolist() == relations[first : first + n].tolist()
    assert len(set(relations.tolist())) > 5


def test_a_beam_and_trees_without_relations() -> None:
    train, test = load_sample_treebank("train")[:80], load_sample_treebank("test")[:20]
    parser = TransitionParser(step_bits=14, labelled=False, beam=3, mode="laso", max_passes=3).fit(train)
    assert parser.evaluate(test).uas > 80
    assert parser.predict(test)[0].column("deprel") == test[0].column("deprel")
    assert len(parser.theta_) == 4 << 14


def test_trees_with_crossing_arcs_are_learned_as_far_as_they_go() -> None:
    """1 → 3 crosses 2 → 4: prediction gives some tree without crossing arcs."""
    crossing = DependencySentence.of_words(["a", "b", "c", "d"], [3, 4, 0, 3], ["x", "y", "root", "z"])
    parser = TransitionParser(step_bits=10, row_bits=8, max_passes=20).fit([crossing] * 5)
    (found,) = parser.predict([crossing])
    assert tree_fault(found.heads, projective=True) is None
    assert (found.heads == crossing.heads).sum() == 3


def test_mistakes(parser: TransitionParser) -> None:
    train = load_sample_treebank("train")[:2]
    with pytest.raises(ParameterError, match="'beam' parameter of LaSO must be at least 1"):
        TransitionParser(beam=0).fit(train)
    with pytest.raises(ParameterError, match="'step_bits' parameter of TransitionParser must be from 6 to 26"):
        TransitionParser(step_bits=40).fit(train)
    with pytest.raises(InputError, match="there are no sentences to train on"):
        TransitionParser().fit([])
    with pytest.raises(InputError, match="sentence 1: every word needs a head"):
        TransitionParser().fit([train[0], DependencySentence.of_words(["no", "tree"])])
    with pytest.raises(InputError, match="sentence 0: word 1 \\('a'\\) has head 7; the sentence has 1 words"):
        TransitionParser().fit([DependencySentence.of_words(["a"], [7])])
    with pytest.raises(InputError, match="sentence 0 is a str; expected a DependencySentence"):
        parser.predict(["A sentence ."])
    with pytest.raises(InputError, match="sentence 0 is a list; expected a DependencySentence with its tree"):
        TransitionParser().fit([["A", "sentence"]])
    with pytest.warns(UserWarning, match="these have no tags"):
        assert parser.predict([["A", "sentence", "."]])[0].forms == ["A", "sentence", "."]
    assert parser.predict([]) == []
