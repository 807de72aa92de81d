"""The integer program of the quadratic assignment, eq. (3.3), and its linear relaxation, through HiGHS.

max Σ_e s_e x_e + Σ_dj s_dj y_dj + Σ_q s_q w_q      (links, fertilities, pairs of links)
Σ_k x_jk ≤ 1 + Σ_d y_dj,   Σ_j x_jk ≤ 1 + Σ_d y_dk,   w_q ≤ x_e,   w_q ≤ x_f      for s_q > 0
                                                      w_q ≥ x_e + x_f − 1         for s_q < 0
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from partwise.exceptions import SolverError
from partwise.structures.base import Floats

__all__ = ["Answer", "Program", "penalty_faults", "solve", "worthwhile"]

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Program(NamedTuple):
    """One instance: its layout and its scores, −inf where a part is forbidden."""

    n_rows: int
    n_cols: int
    first: Ints  # (P,) the links of each pair, as numbers of links
    second: Ints
    links: Floats  # (J·K,)
    nodes: Floats  # (J + K, D − 1)
    pairs: Floats  # (P,)


@dataclass(frozen=True)
class Answer:
    """What a solver found: x of the links (None if nothing), an upper bound on the score, and whether x is optimal."""

    links: Floats | None
    nodes: Floats | None
    pairs: Floats | None
    bound: float
    optimal: bool


def penalty_faults(nodes: Floats) -> Mask:
    """(words, D − 1): where fertility scores break 0 ≥ s_2 ≥ s_3 ≥ … by more than rounding."""
    above = np.hstack([np.zeros((len(nodes), 1)), nodes[:, :-1]])
    return nodes > np.where(np.isneginf(above), above, above + 1e-12 * (1.0 + np.abs(np.maximum(above, -1e300))))


def worthwhile(program: Program) -> Mask:
    """(J·K,): links that some best output may hold.

    A link cannot pay whose score, with all pairs it could complete and the fertility scores above 0 it could earn, is
    ≤ 0: leave it out. That goes on until nothing changes, since a link left out takes its pairs along.
    """
    shape = (program.n_rows, program.n_cols)
    earned = program.nodes.max(axis=1, initial=0.0)  # what the last link of a word may switch on
    base = program.links + (earned[: shape[0], None] + earned[shape[0] :]).ravel()
    keep = base > -np.inf
    gains = np.maximum(program.pairs, 0.0)
    useful = gains > 0
    first, second, gains = program.first[useful], program.second[useful], gains[useful]
    while True:
        both = keep[first] & keep[second]
        first, second, gains = first[both], second[both], gains[both]
        reach = base + np.bincount(first, gains, len(base)) + np.bincount(second, gains, len(base))
        after = keep & (reach > 0)
        if (after == keep).all():
            result: Mask = keep
            return result
        keep = after


def solve(program: Program, keep: Mask, integral: bool, time_limit: float | None) -> Answer:
    """The best x with x = 0 where ``keep`` is not, integral or in the relaxed polytope."""
    number = np.cumsum(keep) - 1
    chosen = np.flatnonzero(keep)
    n, n_words, extra = len(chosen), len(program.nodes), program.nodes.shape[1]
    inside = keep[program.first] & keep[program.second] & (program.pairs != 0)
    first, second, pairs = number[program.first[inside]], number[program.second[inside]], program.pairs[inside]
    gain, loss, barred = pairs > 0, (pairs < 0) & (pairs > -np.inf), np.isneginf(pairs)
    n_nodes, n_pairs = program.nodes.size, len(pairs)
    nodes, at_pairs = program.nodes.ravel(), n + n_nodes
    finite = np.concatenate([program.links[chosen], np.maximum(nodes, -1e300), np.where(barred, 0.0, pairs)])
    finite[n:at_pairs][np.isneginf(nodes)] = 0.0
    top = float(np.abs(finite).max(initial=0.0))
    scale = 1e3 / top if top > 0 else 1.0  # HiGHS takes its tolerances as absolute

    blocks: list[tuple[NDArray[Any], ...]] = []  # (row, column, value) of the constraints
    bounds: list[Floats] = []
    count = 0

    def add(columns: list[NDArray[np.int64]], values: list[float], bound: float) -> None:
        nonlocal count
        size = len(columns[0])
        for column, value in zip(columns, values, strict=True):
            blocks.append((count + np.arange(size), column, np.full(size, value)))
        bounds.append(np.full(size, bound))
        count += size

    rows, cols = chosen // program.n_cols, chosen % program.n_cols
    links = np.arange(n)
    blocks += [(rows, links, np.ones(n)), (program.n_rows + cols, links, np.ones(n))]
    blocks.append((np.repeat(np.arange(n_words), extra), n + np.arange(n_nodes), np.full(n_nodes, -1.0)))
    bounds.append(np.ones(n_words))
    count = n_words
    numbers = at_pairs + np.arange(n_pairs)
    add([numbers[gain], first[gain]], [1.0, -1.0], 0.0)
    add([numbers[gain], second[gain]], [1.0, -1.0], 0.0)
    add([first[loss], second[loss], numbers[loss]], [1.0, 1.0, -1.0], 1.0)
    add([first[barred], second[barred]], [1.0, 1.0], 1.0)
    wrong = np.flatnonzero(penalty_faults(program.nodes).any(axis=1)) if integral else np.zeros(0, np.int64)
    for word in wrong:  # [degree ≥ d] in full: y_{d+1} ≤ y_d, and d·y_d ≤ degree
        own = np.flatnonzero(rows == word) if word < program.n_rows else np.flatnonzero(cols == word - program.n_rows)
        for d in range(extra):
            here = n + word * extra + d
            if d:
                add([np.array([here]), np.array([here - 1])], [1.0, -1.0], 0.0)
            blocks.append((np.full(len(own) + 1, count), np.append(own, here), np.append(-np.ones(len(own)), d + 2.0)))
            bounds.append(np.zeros(1))
            count += 1
    row, column, value = (np.concatenate(part) for part in zip(*blocks, strict=True))
    matrix = scipy.sparse.csr_array((value, (row, column)), shape=(count, at_pairs + n_pairs))
    upper = np.ones(at_pairs + n_pairs)
    upper[n:at_pairs][np.isneginf(nodes)] = 0.0
    upper[numbers[barred]] = 0.0
    whole = np.zeros(at_pairs + n_pairs)
    if integral:
        whole[:n] = 1
        for word in wrong:
            whole[n + word * extra : n + (word + 1) * extra] = 1
    options: dict[str, float] = {} if time_limit is None else {"time_limit": time_limit}
    if integral:
        options["mip_rel_gap"] = 0.0
    result = scipy.optimize.milp(
        -scale * finite,
        integrality=whole,
        bounds=scipy.optimize.Bounds(0.0, upper),
        constraints=scipy.optimize.LinearConstraint(matrix, -np.inf, np.concatenate(bounds)),
        options=options,
    )
    if result.status not in (0, 1):
        raise SolverError(f"HiGHS could not solve the program of an assignment: {result.message}")
    bound = math.inf
    if result.status == 0 and not integral:
        bound = -result.fun / scale
    elif integral and result.mip_dual_bound is not None:
        bound = -result.mip_dual_bound / scale
    if result.x is None:
        return Answer(None, None, None, bound, False)
    found = np.clip(result.x, 0.0, 1.0)
    near = np.round(found)
    found = np.where(np.abs(found - near) < 1e-9, near, found)
    all_links = np.zeros(len(keep))
    all_links[chosen] = np.round(found[:n]) if integral else found[:n]
    all_pairs = np.minimum(all_links[program.first], all_links[program.second])
    all_pairs[inside] = found[at_pairs:]
    return Answer(all_links, found[n:at_pairs], all_pairs, bound, result.status == 0)
