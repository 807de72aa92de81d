"""Small cases of SecondOrderTree, with every output listed."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY
from partwise.structures.second_order import SecondOrderTree
from partwise.testing import Case, Enumeration

Floats = NDArray[np.float64]
Name = tuple[Any, ...]


def children(heads: Any, h: int, side: int, n: int) -> list[int]:
    """The words that hang from h on a side, going outward; ``heads`` maps a word to all that may be its head."""
    outward = range(h - 1, 0, -1) if side == 0 else range(h + 1, n + 1)
    return [m for m in outward if h in heads(m)]


def part_names(n: int, n_labels: int, candidates: NDArray[np.bool_]) -> list[Name]:
    def possible(m: int) -> list[int]:
        return [h for h in range(n + 1) if h != m and candidates[h, m - 1]]

    words = range(1, n + 1)
    names: list[Name] = [("arc", h, m, b) for m in words for h in possible(m) for b in range(n_labels)]
    for h, side in product(range(n + 1), range(2)):
        line = children(possible, h, side, n)
        names += [("sibling", h, side, None, c) for c in line]
        names += [("sibling", h, side, a, c) for j, c in enumerate(line) for a in line[:j]]
        names += [("sibling", h, side, c, None) for c in line]
    for h in words:
        below = [m for m in words if h in possible(m)]
        names += [("grand", g, h, m) for g in possible(h) for m in below]
    return names


def parts_of(heads: tuple[int, ...], labels: tuple[int, ...]) -> list[Name]:
    n = len(heads)
    names: list[Name] = [("arc", h, m, b) for m, (h, b) in enumerate(zip(heads, labels, strict=True), 1)]
    for h, side in product(range(n + 1), range(2)):
        line = [None, *children(lambda m: [heads[m - 1]], h, side, n), None]
        names += [("sibling", h, side, a, c) for a, c in pairwise(line) if (a, c) != (None, None)]
    names += [("grand", heads[h - 1], h, m) for m, h in enumerate(heads, 1) if h > 0]
    return names


def enumerate_second_order(
    n: int, n_labels: int | None, single_root: bool, candidates: NDArray[np.bool_]
) -> Enumeration:
    number = {name: r for r, name in enumerate(part_names(n, n_labels or 1, candidates))}
    outputs, rows = [], []
    for heads in product(range(n + 1), repeat=n):
        if not oracles.is_tree(heads, single_root, False):
            continue
        if not all(candidates[h, m] for m, h in enumerate(heads)):
            continue
        for labels in product(range(n_labels or 1), repeat=n):
            row = np.zeros(len(number))
            row[[number[name] for name in parts_of(heads, labels)]] = 1.0
            rows.append(row)
            outputs.append(np.array(heads) if n_labels is None else np.array([heads, labels]).T)
    return Enumeration(outputs, np.array(rows), [])


@st.composite
def second_order_cases(draw: st.DrawFn) -> Case:
    """Up to 4 words without labels, 3 with; one root or several, pruned or not."""
    n_labels = draw(st.sampled_from([None, None, 2]))
    lengths = draw(st.lists(st.integers(1, 4 if n_labels is None else 3), min_size=1, max_size=2))
    single_root, pruned = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    tables = [rng.random((n + 1, n)) < (0.7 if pruned else 1.0) for n in lengths]
    for table in tables:  # a tree of each instance stays possible: a chain from the root
        table[np.arange(table.shape[1]), np.arange(table.shape[1])] = True
    structure = SecondOrderTree(tables, n_labels, single_root=single_root)

    def tame(i: int, scores: Floats) -> Floats:
        higher = scores[structure.n_atoms(i) :]
        higher[np.isneginf(higher)] = -2.0
        return scores

    shape = (n_labels, single_root)
    instances = [enumerate_second_order(n, *shape, table) for n, table in zip(lengths, tables, strict=True)]
    return Case(structure, instances, tame)


REGISTRY[SecondOrderTree] = second_order_cases()
