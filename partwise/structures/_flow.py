"""Maximum-weight bipartite flow by shortest augmenting paths: matchings, and links with convex fertility penalties.

    max_x  Σ_jk w_jk x_jk − Σ_j C_j(Σ_k x_jk) − Σ_k C_k(Σ_j x_jk),   x_jk ∈ {0, 1}

with C(d) the sum of the first d of a word's unit costs, 0 ≤ c_1 ≤ c_2 ≤ … (+inf: no such unit). With one unit of cost 0
a word this is the assignment problem with unmatched words, Lacoste-Julien eq. (3.1) and Figure 3.1(a); with D units
it is the flow of eq. (3.2) and Figure 3.1(b).
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["best_flow"]


@kernel
def best_flow(weights, row_costs, col_costs, flow, row_price, col_price):
    """flow ← the links of an optimal flow; row_price, col_price ← λ, μ with w_jk − λ_j − μ_k ≤ 0 off the flow.

    ``weights`` (J, K), ``row_costs`` (J, D) and ``col_costs`` (K, D) ascending in D, ``flow`` (J, K) uint8.
    Sides are joined in one node O: residual arcs are O → j (the next unit of j), j → k, k → O and their reverses.
    The units enter one by one. Each is an arc c added to an optimal circulation, so the new optimum pushes at most one
    unit along the shortest way from j back to O, and does so where c + length < 0. Lengths are taken in costs
    reduced by the potentials λ_j, −μ_k (Dijkstra), which every search corrects. A link of weight ≤ 0 is never used,
    because units cost nothing less than 0. O(D·J) searches of at most O((J + K)²) steps each.
    """
    n_rows, n_cols = weights.shape
    n_units = row_costs.shape[1]
    mates = np.empty((n_cols, n_units), np.int64)  # the rows linked to a column
    row_degree, col_degree = np.zeros(n_rows, np.int64), np.zeros(n_cols, np.int64)
    row_dist, col_dist = np.empty(n_rows), np.empty(n_cols)
    row_parent, col_parent = np.empty(n_rows, np.int64), np.empty(n_cols, np.int64)
    row_done, col_done = np.empty(n_rows, np.uint8), np.empty(n_cols, np.uint8)
    flow[:, :] = 0
    row_price[:] = 0.0
    col_price[:] = 0.0
    for j in range(n_rows):
        top = -np.inf
        for k in range(n_cols):
            if weights[j, k] > 0.0 and col_costs[k, 0] < np.inf:
                top = max(top, weights[j, k] - col_price[k])
        if top == -np.inf:
            continue
        row_price[j] = top
        for unit in range(n_units):
            cost = row_costs[j, unit]
            if cost == np.inf:
                break
            row_dist[:] = np.inf
            col_dist[:] = np.inf
            row_done[:] = 0
            col_done[:] = 0
            row_dist[j] = 0.0
            best, end, end_is_row = np.inf, -1, False
            while True:
                # the nearest node that is not done, if it is nearer than the best way back to O
                near, node, is_row = best, -1, False
                for i in range(n_rows):
                    if row_done[i] == 0 and row_dist[i] < near:
                        near, node, is_row = row_dist[i], i, True
                for k in range(n_cols):
                    if col_done[k] == 0 and col_dist[k] < near:
                        near, node, is_row = col_dist[k], k, False
                if node < 0:
                    break
                if is_row:
                    row_done[node] = 1
                    price = row_price[node]
                    if row_degree[node] > 0:  # back to O by giving up the row's last unit
                        way = near + max(price - row_costs[node, row_degree[node] - 1], 0.0)
                        if way < best:
                            best, end, end_is_row = way, node, True
                    for k in range(n_cols):
                        w = weights[node, k]
                        if w > 0.0 and col_done[k] == 0 and flow[node, k] == 0 and col_costs[k, 0] < np.inf:
                            way = near + max(price + col_price[k] - w, 0.0)
                            if way < col_dist[k]:
                                col_dist[k] = way
                                col_parent[k] = node
                else:
                    col_done[node] = 1
                    price = col_price[node]
                    degree = col_degree[node]
                    if degree < n_units and col_costs[node, degree] < np.inf:
                        way = near + max(col_costs[node, degree] - price, 0.0)
                        if way < best:
                            best, end, end_is_row = way, node, False
                    for r in range(degree):
                        i = mates[node, r]
                        if row_done[i] == 0:
                            way = near + max(weights[i, node] - price - row_price[i], 0.0)
                            if way < row_dist[i]:
                                row_dist[i] = way
                                row_parent[i] = node
            if end < 0:
                # no way back to O: what was reached may be shifted until the unit is not worth its cost
                best = max(row_price[j] - cost, 0.0)
                for i in range(n_rows):
                    if row_done[i] == 1:
                        best = max(best, row_dist[i])
                for k in range(n_cols):
                    if col_done[k] == 1:
                        best = max(best, col_dist[k])
            gain = row_price[j] - best - cost
            for i in range(n_rows):
                if row_done[i] == 1:
                    row_price[i] -= best - row_dist[i]
            for k in range(n_cols):
                if col_done[k] == 1:
                    col_price[k] += best - col_dist[k]
            if end < 0 or gain <= 0.0 or (end_is_row and end == j):
                break
            row_degree[j] += 1
            if end_is_row:
                row_degree[end] -= 1
            else:
                col_degree[end] += 1
                slot = col_degree[end] - 1
                i = col_parent[end]
                mates[end, slot] = i
                flow[i, end] = 1
                end = i
            # walk back to j: row `end` gives up the column it was reached from, which takes that column's parent
            while end != j:
                k = row_parent[end]
                flow[end, k] = 0
                slot = 0
                while mates[k, slot] != end:
                    slot += 1
                i = col_parent[k]
                if i == end:
                    break
                mates[k, slot] = i
                flow[i, k] = 1
                end = i
