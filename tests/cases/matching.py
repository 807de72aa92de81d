"""Small cases of matching, with every output listed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import oracles
from hypothesis import strategies as st
from numpy.typing import NDArray

from cases import REGISTRY, random_mask
from partwise.structures.assignment import PAIRS, Assignment, RelaxedAssignment
from partwise.structures.matching import Matching
from partwise.testing import Case

Floats = NDArray[np.float64]


def penalties(structure: Matching | Assignment) -> Callable[[int, Floats], Floats]:
    """Turns fertility scores into penalties that grow with the fertility."""

    def tame(i: int, scores: Floats) -> Floats:
        start, levels = structure.n_atoms(i), structure.max_fertility - 1
        stop = start + levels * sum(structure.size(i))
        if levels:
            scores[start:stop] = -np.sort(np.abs(scores[start:stop].reshape(-1, levels)), axis=1).ravel()
        return scores

    return tame


@st.composite
def link_sizes(draw: st.DrawFn, largest: int) -> list[tuple[int, int]]:
    """Sizes (J, K) of at most ``largest`` cells."""
    pairs = [(j, k) for j in range(1, 5) for k in range(1, 5) if j * k <= largest]
    return draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2))


@st.composite
def matching_cases(draw: st.DrawFn) -> Case:
    """All matchings up to 4 × 4; with fertility parts few cells, because their polytope has many corners."""
    fertility = draw(st.integers(1, 3))
    sizes = draw(link_sizes({1: 16, 2: 4, 3: 2}[fertility]))
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    masks = [random_mask(rng, size, constrained) for size in sizes]
    structure = Matching(sizes, max_fertility=fertility, allowed=masks if constrained else None)
    return Case(structure, [oracles.enumerate_links(fertility, mask) for mask in masks], penalties(structure))


@st.composite
def assignment_cases(draw: st.DrawFn) -> Case:
    """Any mix of pairs; scores of any sign."""
    fertility = draw(st.integers(1, 3))
    sizes = draw(link_sizes({1: 12, 2: 9, 3: 6}[fertility]))
    kinds = draw(st.lists(st.sampled_from([*PAIRS][: 2 if fertility == 1 else 3]), unique=True))
    kinds.sort(key=[*PAIRS].index)
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    masks = [random_mask(rng, size, constrained) for size in sizes]
    structure = Assignment(sizes, max_fertility=fertility, pairs=kinds, allowed=masks if constrained else None)
    return Case(structure, [oracles.enumerate_links(fertility, mask, kinds, hull=False) for mask in masks])


@st.composite
def relaxed_cases(draw: st.DrawFn) -> Case:
    """Polytopes in few dimensions, whose corners can be listed."""
    fertility = draw(st.integers(1, 2))
    shapes = [(2, 2), (1, 3), (2, 1)] if fertility == 1 else [(1, 2), (2, 1)]
    sizes = draw(st.lists(st.sampled_from(shapes), min_size=1, max_size=2))
    kinds = tuple(PAIRS)[: 2 if fertility == 1 else 3]
    rng, constrained = np.random.default_rng(draw(st.integers(0, 999))), draw(st.booleans())
    masks = [random_mask(rng, size, constrained) for size in sizes]
    structure = RelaxedAssignment(sizes, max_fertility=fertility, pairs=kinds, allowed=masks if constrained else None)
    instances = []
    for mask in masks:
        corners = oracles.relaxed_corners(*mask.shape, fertility, kinds)
        corners = corners[(corners[:, : mask.size][:, ~mask.ravel()] == 0).all(axis=1)]
        instances.append(replace(oracles.enumerate_links(fertility, mask, kinds, hull=False), corners=corners))
    return Case(structure, instances, penalties(structure), relaxed=True)


REGISTRY[Matching] = matching_cases()
REGISTRY[Assignment] = assignment_cases()
REGISTRY[RelaxedAssignment] = relaxed_cases()
