"""Small cases of Grammar, with every derivation listed."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from cases import REGISTRY, random_mask
from partwise.structures.grammar import Grammar
from partwise.testing import Case, enumerated

Row = tuple[int, int, int]
Tree = tuple[Row, ...]


def all_trees(
    tags: Sequence[Sequence[int]],
    binary: Sequence[tuple[int, int, int]],
    unary: Sequence[tuple[int, ...]],
    root: Sequence[int],
    allowed: set[Row],
) -> list[Tree]:
    """Every derivation, by the definition of a context-free grammar: rows (start, stop, symbol) from the top down."""

    @functools.cache
    def made(a: int, s: int, e: int) -> list[Tree]:
        """Trees with a at the top that is made of a word or of two children."""
        if (s, e, a) not in allowed:
            return []
        if e - s == 1:
            return [((s, e, a),)] if a in tags[s] else []
        return [
            ((s, e, a), *left, *right)
            for head, b, c in binary
            if head == a
            for m in range(s + 1, e)
            for left in trees(b, s, m)
            for right in trees(c, m, e)
        ]

    @functools.cache
    def trees(a: int, s: int, e: int) -> list[Tree]:
        chains = [
            (*((s, e, b) for b in chain[:-1]), *bottom)
            for chain in unary
            if chain[0] == a and all((s, e, b) in allowed for b in chain)
            for bottom in made(chain[-1], s, e)
        ]
        return [*made(a, s, e), *chains]

    return [tree for a in root for tree in trees(a, 0, len(tags))]


@st.composite
def grammar_cases(draw: st.DrawFn) -> Case:
    """Random rules over three symbols, chains of up to three, ambiguous words, any symbol at the top, pruned or not."""
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    n_symbols, pruned = 3, draw(st.booleans())
    binary = sorted({tuple(rng.integers(n_symbols, size=3).tolist()) for _ in range(draw(st.integers(1, 5)))})
    unary = sorted(
        {tuple(rng.integers(n_symbols, size=rng.integers(2, 4)).tolist()) for _ in range(draw(st.integers(0, 3)))}
    )
    root = sorted(set(rng.integers(n_symbols, size=2).tolist()))
    labels = np.where(rng.random(n_symbols) < 0.7, rng.integers(2, size=n_symbols), -1)
    tags, allowed, outputs = [], [], []
    for length in draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)):
        words = [sorted(set(rng.integers(n_symbols, size=2).tolist())) for _ in range(length)]
        spans = [(s, e, a) for e in range(1, length + 1) for s in range(e) for a in range(n_symbols)]
        rows = np.array(spans)[random_mask(rng, (len(spans),), pruned)]
        derivations = all_trees(words, binary, unary, root, {tuple(row) for row in rows.tolist()})
        if 0 < len(derivations) <= 400:
            tags.append(words)
            allowed.append(rows)
            outputs.append(derivations)
    assume(tags)
    given = {"allowed": allowed} if pruned else {}
    structure = Grammar(tags, n_symbols, binary, unary, root=root, labels=labels, **given)
    return Case(structure, [enumerated(structure, i, [np.array(y) for y in ys]) for i, ys in enumerate(outputs)])


REGISTRY[Grammar] = grammar_cases()
