"""The projection onto the relaxed quadratic assignment polytope: set up, interior point method, exact finish."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from partwise.exceptions import SolverError
from partwise.structures._assignment_program import Program, worthwhile
from partwise.structures._assignment_project import measure, project_relaxed
from partwise.structures.base import Floats

__all__ = ["nearest_point"]

Ints = NDArray[np.int64]
LOW = -1e6  # stands for −inf, which an interior point cannot take; such parts end below 1e-12 and are set to 0


def nearest_point(program: Program) -> tuple[Floats, Floats, Floats] | None:
    """(links, fertilities, pairs) of the point of the polytope nearest to the scores; None if no pair matters.

    Links that cannot leave 0 are left out: a point with x_e > 0 is no nearer than the one without e and its pairs,
    if p_e with all that its pairs can add is ≤ 0. The longer side orders the links, which keeps the band narrow.
    """
    n_rows, n_cols = program.n_rows, program.n_cols
    keep = worthwhile(program._replace(nodes=np.zeros_like(program.nodes)))
    used = keep[program.first] & keep[program.second]
    if not used.any():
        return None
    chosen = np.flatnonzero(keep)
    nodes = program.nodes
    swap = n_cols > n_rows
    rows, cols = chosen // n_cols, chosen % n_cols
    if swap:
        order = np.lexsort((rows, cols))
        chosen, rows, cols = chosen[order], cols[order], rows[order]
        n_rows, n_cols = n_cols, n_rows
        nodes = np.concatenate([nodes[n_cols:], nodes[:n_cols]])
    number = np.zeros(len(keep), np.int64)
    number[chosen] = np.arange(len(chosen))
    ends = np.sort([number[program.first[used]], number[program.second[used]]], axis=0)
    values = np.concatenate([program.links[chosen], nodes.ravel(), program.pairs[used]])
    hopeless = np.isneginf(values)
    low = min(LOW, 1e2 * values[~hopeless].min(initial=0.0))
    found = _solve(np.where(hopeless, low, values), rows, cols, ends[0], ends[1], n_rows, n_cols)
    found[hopeless] = 0.0
    links, pairs = np.zeros(len(keep)), np.zeros(len(used))
    links[chosen] = found[: len(chosen)]
    ups = found[len(chosen) : len(chosen) + nodes.size].reshape(nodes.shape)
    if swap:
        ups = np.concatenate([ups[n_rows:], ups[:n_rows]])
    first, second = links[program.first[used]], links[program.second[used]]
    lowest, highest = np.maximum(first + second - 1.0, 0.0), np.minimum(first, second)
    pairs[used] = np.clip(found[len(chosen) + nodes.size :], lowest, highest)
    return links, ups.ravel(), pairs


def _solve(p: Floats, rows: Ints, cols: Ints, first: Ints, second: Ints, n_rows: int, n_cols: int) -> Floats:
    n, n_pairs, n_words = len(rows), len(first), n_rows + n_cols
    width = int(max((second - first).max(initial=0), np.bincount(rows, minlength=1).max() - 1))
    v = np.empty_like(p)
    slack, dual = np.empty((2, n_words + 2 * n + 2 * (len(p) - n - n_pairs) + 4 * n_pairs))
    scale = max(1.0, float(np.abs(p).max()))
    for push_off in (0.1, 1.0, 0.01):  # one start is enough but for huge points full of ties
        mean = project_relaxed(p, rows, cols, first, second, n_rows, n_cols, width, push_off, v, slack, dual)
        if mean <= 1e-9 * scale:
            break
    else:
        raise SolverError(f"the projection onto the relaxed polytope did not converge: complementarity {mean:g}")
    for factor in (1.0, 1e-2, 1e2):
        exact = _polish(p, v, slack < factor * dual, rows, cols, first, second, n_rows, n_words)
        if exact is not None:
            return exact
    return np.clip(v, 0.0, 1.0)


def _polish(
    p: Floats,
    v: Floats,
    active: NDArray[np.bool_],
    rows: Ints,
    cols: Ints,
    first: Ints,
    second: Ints,
    n_rows: int,
    n_words: int,
) -> Floats | None:
    """The point nearest to p with the active constraints as equations, if it is in the polytope and no worse than v.

    Bounds and w ≤ x make parts equal to 0, to 1 or to each other; what is left is a least-squares problem in such
    classes with one equation per tight word (and one per pair with w = x_e + x_f − 1). If the nearest point of the
    polytope satisfies the equations, this is it. A constraint with slack and multiplier both 0 may be taken as active
    or not.
    """
    size, n, n_pairs = len(p), len(rows), len(first)
    n_nodes = size - n - n_pairs
    extra = n_nodes // n_words
    words, rest = active[:n_words], active[n_words:]
    at_zero, at_one = rest[:n], rest[n : 2 * n]
    rest = rest[2 * n :]
    node_zero, node_one = rest[:n_nodes], rest[n_nodes : 2 * n_nodes]
    zero, left, right, both = rest[2 * n_nodes :].reshape(-1, 4).T
    pairs = n + n_nodes + np.arange(n_pairs)
    zeros = np.concatenate([np.flatnonzero(at_zero), n + np.flatnonzero(node_zero), pairs[zero]])
    ones = np.concatenate([np.flatnonzero(at_one) if n_nodes else zeros[:0], n + np.flatnonzero(node_one)])
    tails = np.concatenate([zeros, ones, pairs[left], pairs[right]])
    heads = np.concatenate([np.full(len(zeros), size), np.full(len(ones), size + 1), first[left], second[right]])
    graph = scipy.sparse.coo_array((np.ones(len(tails)), (tails, heads)), shape=(size + 2, size + 2))
    n_classes, label = connected_components(graph, directed=False)
    if label[size] == label[size + 1]:
        return None
    value = np.zeros(n_classes)
    value[label[size + 1]] = 1.0
    free = np.ones(n_classes, bool)
    free[label[size:]] = False
    weight = np.bincount(label[:size], minlength=n_classes)
    weight = np.where(free, weight, 1)  # at least the part itself
    centre = np.bincount(label[:size], p, n_classes) / weight
    value[free] = centre[free]

    equation = np.full(n_words, -1)
    equation[words] = np.arange(words.sum())
    in_row, in_col = words[rows], words[n_rows + cols]
    links, units = np.arange(n), np.repeat(words, extra)
    extras = words.sum() + np.arange(both.sum())
    where = np.concatenate(
        [
            equation[rows[in_row]],
            equation[n_rows + cols[in_col]],
            np.repeat(equation, extra)[units],
            extras,
            extras,
            extras,
        ]
    )
    which = np.concatenate(
        [links[in_row], links[in_col], n + np.flatnonzero(units), first[both], second[both], pairs[both]]
    )
    sign = np.ones(len(where))
    sign[in_row.sum() + in_col.sum() : in_row.sum() + in_col.sum() + units.sum()] = -1.0
    sign[len(sign) - len(extras) :] = -1.0
    matrix = np.zeros((words.sum() + len(extras), n_classes))
    np.add.at(matrix, (where, label[which]), sign)
    inner = matrix[:, free]
    if len(matrix):
        scaled = inner / weight[free]
        gram = scaled @ inner.T
        for _ in range(2):  # the second time only rounding is left
            value[free] -= np.linalg.lstsq(gram, matrix @ value - 1.0, rcond=1e-12)[0] @ scaled
    exact = value[label[:size]]
    slack = np.empty(len(active))
    measure(rows, cols, first, second, n_rows, n_words, n_nodes > 0, exact, 1.0, slack)
    worse = 0.5 * np.dot(exact - v, (exact - p) + (v - p))
    if slack.min() < -1e-10 or worse > 1e-12 * max(1.0, float(np.abs(p).max())):
        return None
    result: Floats | None = np.clip(exact, 0.0, 1.0)
    return result
