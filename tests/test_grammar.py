"""Grammars beyond the conformance suite: chains, pruning, constituent costs, messages, training."""

from __future__ import annotations

import math

import numpy as np
import pytest

from partwise import Batch, ConstituentCost, Grammar, Problem
from partwise.exceptions import InputError, ParameterError
from partwise.features import GivenScores

S, NP, VP, V, PP, P = range(6)
BINARY = [(S, NP, VP), (VP, V, NP), (VP, VP, PP), (NP, NP, PP), (PP, P, NP)]


def attachments(n: int) -> Grammar:
    """ "I saw the man with a telescope …": n prepositional phrases, Catalan(n + 1) derivations."""
    words = [[NP], [V], [NP], *[word for _ in range(n) for word in ([P], [NP])]]
    return Grammar([words], 6, BINARY, root=[S])


@pytest.mark.parametrize("n", [0, 1, 2, 5, 12])
def test_ambiguity_is_that_of_the_catalan_numbers(n: int) -> None:
    space = attachments(n)
    log_partition, mean = space.marginals(0, np.zeros(space.n_parts(0)))
    catalan = math.comb(2 * (n + 1), n + 1) // (n + 2)
    assert log_partition == pytest.approx(math.log(catalan), abs=1e-9)
    assert mean[: space.n_atoms(0)].sum() == pytest.approx(2 * (3 + 2 * n) - 1)
    assert space.entropy(0, np.zeros(space.n_parts(0))) == pytest.approx(math.log(catalan), abs=1e-8)


def test_chains_are_those_that_are_listed() -> None:
    a, b, c = range(3)
    space = Grammar([[[c]]], 3, np.zeros((0, 3), int), [(a, b), (b, c), (a, b, c)], root=[a, b])
    trees = [space.decode(0, parts)[:, 2].tolist() for parts in space.kbest(0, np.zeros(space.n_parts(0)), 9)]
    assert sorted(trees) == [[a, b, c], [b, c]]  # (a, b) needs a b that is made of a word


def test_pruning_keeps_what_is_allowed() -> None:
    low = [(0, 5, S), (0, 1, NP), (1, 5, VP), (1, 2, V), (2, 5, NP), (2, 3, NP), (3, 5, PP), (3, 4, P), (4, 5, NP)]
    words = [[NP], [V], [NP], [P], [NP]]
    space = Grammar([words], 6, BINARY, root=[S], allowed=[np.array(low)])
    assert space.decode(0, space.argmax(0, np.zeros(space.n_parts(0)))).tolist() == [list(row) for row in low]
    assert space.n_parts(0) == 9 + 9 + 1  # constituents, a rule for each, the root


def test_a_constituent_cost_sees_labels_not_symbols() -> None:
    space = Grammar([[[1], [1], [1]]], 3, [(0, 0, 1), (0, 1, 1), (2, 1, 2), (2, 1, 1)], labels=[0, -1, 0])
    left, right = np.array([(0, 3, 0), (0, 2, 0), (0, 1, 1), (1, 2, 1), (2, 3, 1)]), None
    for parts in space.kbest(0, np.zeros(space.n_parts(0)), 9):
        rows = space.decode(0, parts)
        if rows[0, 2] == 2:
            right = rows
    assert right is not None
    p, q = ConstituentCost(2.0, 3.0).parts(space, 0, space.encode(0, left)[: space.n_atoms(0)])
    assert p @ space.encode(0, left)[: len(p)] + q == 0.0
    assert p @ space.encode(0, right)[: len(p)] + q == 5.0  # one wrong, one missed, the top right in its other flavour


def test_a_problem_on_a_grammar_agrees_with_batch_and_threads() -> None:
    words = [[NP], [V], [NP], [P], [NP], [P], [NP]]
    space = Grammar([words, words[:5], words[:3]], 6, BINARY, root=[S], n_threads=2)
    sizes, _ = space.instance_sizes()
    theta = np.random.default_rng(0).normal(size=sizes.sum())
    best = Batch(space, n_threads=2).outputs(theta)
    loss, gradient = Problem(space, GivenScores(sizes), best, "crf").loss_and_gradient(theta)
    log_partition = sum(
        space.marginals(i, theta[a : a + n])[0] - theta[a : a + n] @ space.argmax(i, theta[a : a + n])
        for i, (a, n) in enumerate(zip(np.cumsum(sizes) - sizes, sizes, strict=True))
    )
    assert loss == pytest.approx(log_partition)
    assert abs(gradient).max() <= 1.0


def test_messages() -> None:
    with pytest.raises(InputError, match=r"no tree for instance 1 \(and 0 others\)"):
        Grammar([[[NP], [V], [NP]], [[V]]], 6, BINARY, root=[S])
    with pytest.raises(InputError, match="empty sentence"):
        Grammar([[]], 6, BINARY)
    with pytest.raises(ParameterError, match="above every symbol"):
        Grammar([[[0]]], 1, [(0, 1, 1)])
    with pytest.raises(ParameterError, match="two symbols or more"):
        Grammar([[[0]]], 1, [(0, 0, 0)], [(0,)])
    space = attachments(0)
    with pytest.raises(InputError, match=r"symbol 4 over words 1\.\.2 of instance 0: the forest has no such"):
        space.encode(0, [(0, 3, S), (0, 1, NP), (1, 3, PP), (1, 2, V), (2, 3, NP)])
    with pytest.raises(InputError, match="makes it with other children only"):
        space.encode(0, [(0, 3, S), (1, 3, VP), (1, 2, V), (2, 3, NP)])
    with pytest.raises(InputError, match="rows outside of"):
        Grammar([[[0]]], 1, [(0, 0, 0)], allowed=[np.array([(0, 2, 0)])])
