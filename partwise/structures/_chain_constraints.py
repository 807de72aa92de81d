"""The marginal polytope of a chain as linear constraints, Lacoste-Julien (2009) eqs. (2.2) and (2.3), of any order.

The variables are the parts of an untied chain: x_t(b) for the label of position t, and x_t(y_{t−j..t}) for the run of
labels that ends there, j = min(t, order). A chain has a junction tree, so local consistency is all it takes:

    Σ_b x_0(b) = 1,   Σ_{y_{t−j..t−1}} x_t(y_{t−j..t}) = x_t(y_t),   Σ_{y_t} x_t(y_{t−j..t}) = mass of y_{t−j..t−1}.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from partwise.structures.base import Polytope

__all__ = ["chain_polytope"]


def _sums(n: int, groups: NDArray[np.int64], n_groups: int, at: int, width: int) -> scipy.sparse.csr_array:
    """Row g sums the variables at + q, q < n, with groups[q] = g."""
    ones = np.ones(n)
    return scipy.sparse.csr_array((ones, (groups, at + np.arange(n))), shape=(n_groups, width))


def chain_polytope(length: int, n_labels: int, order: int, tied: bool, forbidden: NDArray[np.bool_]) -> Polytope:
    """Constraints of one instance; ``forbidden`` marks its parts that no output may use."""
    depths = [min(t, order) for t in range(length)]
    sizes = [n_labels ** (j + 1) for j in depths]
    # run[t]: where the runs of labels ending at t ≥ 1 begin; the "run" at 0 is its label
    run = [0] + (length * n_labels + np.concatenate([[0], np.cumsum(sizes[1:])])).tolist()
    width = run[length] if length > 1 else n_labels
    rows = [_sums(n_labels, np.zeros(n_labels, np.int64), 1, 0, width)]
    for t in range(1, length):
        q = np.arange(sizes[t])
        labels = _sums(n_labels, np.arange(n_labels), n_labels, t * n_labels, width)
        rows.append(_sums(sizes[t], q % n_labels, n_labels, run[t], width) - labels)
        histories = n_labels ** depths[t]
        earlier = np.arange(sizes[t - 1])
        ends = _sums(sizes[t - 1], earlier % histories, histories, run[t - 1], width)
        rows.append(_sums(sizes[t], q // n_labels, histories, run[t], width) - ends)
    lift = _lift(length, n_labels, order, depths, sizes, run, width) if tied else None
    out = forbidden if lift is None else lift.T @ forbidden.astype(float) > 0
    equal_to = np.zeros(sum(r.shape[0] for r in rows))
    equal_to[0] = 1.0
    if out.any():
        rows.append(scipy.sparse.csr_array(out[None].astype(float)))
        equal_to = np.append(equal_to, 0.0)
    none = scipy.sparse.csr_array((0, width))
    return Polytope(scipy.sparse.vstack(rows, format="csr"), equal_to, none, np.zeros(0), lift)


def _lift(
    length: int, n_labels: int, order: int, depths: list[int], sizes: list[int], run: list[int], width: int
) -> scipy.sparse.csr_array:
    """Parts of a tied chain: labels as they are, and the runs of one length added up over positions."""
    labels = length * n_labels
    block = np.concatenate([[0, 0], np.cumsum([n_labels ** (j + 1) for j in range(1, order + 1)])])
    to = [np.arange(labels), *(labels + block[depths[t]] + np.arange(sizes[t]) for t in range(1, length))]
    start = [np.arange(labels), *(run[t] + np.arange(sizes[t]) for t in range(1, length))]
    shape = (labels + int(block[-1]), width)
    numbers = (np.concatenate(to), np.concatenate(start))
    return scipy.sparse.csr_array((np.ones(len(numbers[0])), numbers), shape=shape)
