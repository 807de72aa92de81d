"""Convex quadratic network flow: what a projection onto the polytope of cuts comes down to (appendix 2.A).

    min_x Σ_j n_j x_j² − 2 a_j x_j + Σ_{e = jk} g_e(x_j − x_k),     low ≤ x ≤ high,                            (primal)

with g_e(d) = ½ (max(|d|, q_e) − q_e)² − const: for q ≥ 0 a flat bottom of width q, for q = −c < 0 a kink, ½d² + c|d|.
Its dual is a flow φ along the edges (Lacoste-Julien eq. 2.24), which costs q|φ| + ½φ² for q ≥ 0 and ½ (|φ| − c)⁺² for
q < 0: up to c it is free. At the optimum d = 0 on every edge with |φ| < c, so the x_j of whole regions are equal, and
inside a region a *maximum flow* decides whether a free flow can carry the differences between nodes. The solver
alternates

1. **Regions.** Given which edges are fused, the primal is a smooth problem with one variable per region (Newton steps,
   conjugate gradients). A maximum flow inside the regions completes the dual point. If everything is carried,
   the gap between primal and dual is 0 to rounding, and this is the solution.
2. **Augmented Lagrangian.** Otherwise, from the better of the dual points known, minimise over x the primal with c|d|
   replaced by max_{|f'| ≤ c} f'd − (f' − f)²/2σ, a proximal step of the dual; its flow f' says which edges are fused.

Step 2 alone converges; step 1 ends the search as soon as the pattern is right, and moves flow across large regions
at once. The gap is summed from terms ≥ 0, one per node and edge (Fenchel–Young), so that it is exact to rounding, and
Σ n_j (x_j − x*_j)² ≤ gap.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._maxflow import maximum_flow

__all__ = ["regions", "solve_flow"]

MAX_ROUNDS = 200
MAX_NEWTON = 60
#: A gap below this ends the search: ‖x − x*‖ ≤ 1e-8.
GAP = 1e-16
#: Rounding may leave a gap up to this; what is above did not converge.
ROUNDING = 1e-10


@kernel
def edge_slope(d, q, f, sigma):
    """Derivative of g_e at d, for q < 0 with c·sign(d) replaced by the flow [f + σd] cut to ±c."""
    if q < 0.0:
        return d + min(max(f + sigma * d, q), -q)
    if d > q:
        return d - q
    return d + q if d < -q else 0.0


@kernel
def gradient(ends, q, f, sigma, size, pull, x, out):
    """out ← ∂/∂x of Σ_r (size_r x_r² − 2 pull_r x_r) + Σ_e g_e."""
    for r in range(x.shape[0]):
        out[r] = 2.0 * (size[r] * x[r] - pull[r])
    for e in range(q.shape[0]):
        j, k = ends[2 * e], ends[2 * e + 1]
        t = edge_slope(x[j] - x[k], q[e], f[e], sigma)
        out[j] += t
        out[k] -= t


@kernel
def newton_direction(ends, weight, diagonal, free, slope, accuracy, direction):
    """direction ← −H⁻¹ slope on the free variables by conjugate gradients; H = diagonal matrix + weighted Laplacian.

    ``ends`` and ``weight`` hold only edges that weigh something; ``diagonal`` is the whole diagonal of H.
    """
    n = slope.shape[0]
    residual, image, move = np.empty(n), np.empty(n), np.empty(n)
    base = diagonal.copy()
    for e in range(weight.shape[0]):
        base[ends[2 * e]] -= weight[e]
        base[ends[2 * e + 1]] -= weight[e]
    fit, begin = 0.0, 0.0
    for r in range(n):
        direction[r] = 0.0
        residual[r] = -slope[r] if free[r] != 0 else 0.0
        move[r] = residual[r] / diagonal[r]
        fit += residual[r] * move[r]
    begin = fit
    for _ in range(2 * n + 20):
        if fit <= accuracy * accuracy * begin:
            break
        for r in range(n):
            image[r] = base[r] * move[r]
        for e in range(weight.shape[0]):
            j, k = ends[2 * e], ends[2 * e + 1]
            t = weight[e] * (move[j] - move[k])
            image[j] += t
            image[k] -= t
        curve = 0.0
        for r in range(n):
            if free[r] == 0:
                image[r] = 0.0
            curve += move[r] * image[r]
        step = fit / curve
        following = 0.0
        for r in range(n):
            direction[r] += step * move[r]
            residual[r] -= step * image[r]
            following += residual[r] * residual[r] / diagonal[r]
        share = following / fit
        fit = following
        for r in range(n):
            move[r] = residual[r] / diagonal[r] + share * move[r]


@kernel
def minimise(ends, q, f, sigma, size, pull, low, high, x, tolerance):
    """x ← argmin of the smooth problem over the box, by projected Newton steps from x.

    A step is cut until the slope at its end is hardly positive, so the convex objective falls. Ends when no
    coordinate is off by more than about ``tolerance``.
    """
    n, n_edges = x.shape[0], q.shape[0]
    slope, ahead, following = np.empty(n), np.empty(n), np.empty(n)
    direction, diagonal, free = np.empty(n), np.empty(n), np.empty(n, np.uint8)
    some, weight = np.empty(2 * n_edges, ends.dtype), np.empty(n_edges)
    gradient(ends, q, f, sigma, size, pull, x, slope)
    best, idle = np.inf, 0
    for _ in range(MAX_NEWTON):
        worst = 0.0
        for r in range(n):
            free[r] = 0 if (x[r] <= low[r] and slope[r] >= 0.0) or (x[r] >= high[r] and slope[r] <= 0.0) else 1
            diagonal[r] = 2.0 * size[r]
            if free[r] != 0:
                worst = max(worst, abs(slope[r]) / diagonal[r])
        idle = 0 if worst < 0.5 * best else idle + 1
        best = min(best, worst)
        if worst <= tolerance or (idle > 3 and worst <= 1e-11):
            break
        count = 0
        for e in range(n_edges):
            j, k = ends[2 * e], ends[2 * e + 1]
            d = x[j] - x[k]
            w = 0.0
            if q[e] < 0.0:
                w = 1.0 + (sigma if abs(f[e] + sigma * d) < -q[e] else 0.0)
            elif abs(d) > q[e]:
                w = 1.0
            if w > 0.0:
                some[2 * count], some[2 * count + 1], weight[count] = j, k, w
                count += 1
                diagonal[j] += w
                diagonal[k] += w
        accuracy = min(max(worst, 1e-10), 1e-2)
        newton_direction(some[: 2 * count], weight[:count], diagonal, free, slope, accuracy, direction)
        length, steepest = 1.0, False
        for _ in range(60):
            fall, end = 0.0, 0.0
            for r in range(n):
                following[r] = min(max(x[r] + length * direction[r], low[r]), high[r])
                fall += slope[r] * (following[r] - x[r])
            if fall >= 0.0:  # the box has turned the step: go down the slope instead
                if steepest:
                    following[:] = x
                    ahead[:] = slope
                    break
                for r in range(n):
                    direction[r] = -slope[r] / diagonal[r]
                steepest, length = True, 1.0
                continue
            gradient(ends, q, f, sigma, size, pull, following, ahead)
            for r in range(n):
                end += ahead[r] * (following[r] - x[r])
            if end <= -1e-2 * fall:
                break
            length *= min(max(fall / (fall - end), 0.1), 0.5)
        x[:] = following
        slope[:] = ahead


@kernel
def find(parent, j):
    """The representative of j's set, halving the way."""
    while parent[j] != j:
        parent[j] = parent[parent[j]]
        j = parent[j]
    return j


@kernel
def regions(ends, fused, region):
    """region ← numbers 0 … m − 1 of the sets that the fused edges connect; returns m."""
    n = region.shape[0]
    parent = np.arange(n)
    for e in range(fused.shape[0]):
        if fused[e] != 0:
            j, k = find(parent, np.int64(ends[2 * e])), find(parent, np.int64(ends[2 * e + 1]))
            if j != k:
                parent[max(j, k)] = min(j, k)
    count = 0
    for j in range(n):
        if parent[j] == j:
            region[j] = count
            count += 1
    for j in range(n):
        if parent[j] != j:
            region[j] = region[find(parent, j)]
    return count


@kernel
def region_solution(ends, q, f, region, count, size, pull, low, high, x):
    """x ← the solution with one value per region; False if the bounds of some region contradict each other.

    On edges between regions with q < 0 the flow is f = ±c, which says the sign of d.
    """
    n, n_edges = x.shape[0], q.shape[0]
    weight, force, mean = np.zeros(count), np.zeros(count), np.zeros(count)
    lowest, highest = np.full(count, -np.inf), np.full(count, np.inf)
    for j in range(n):
        r = region[j]
        weight[r] += size[j]
        force[r] += pull[j]
        mean[r] += size[j] * x[j]
        lowest[r] = max(lowest[r], low[j])
        highest[r] = min(highest[r], high[j])
    for r in range(count):
        if lowest[r] > highest[r]:
            return False
        mean[r] = min(max(mean[r] / weight[r], lowest[r]), highest[r])
    between, limit, flow = np.empty(2 * n_edges, np.int64), np.empty(n_edges), np.empty(n_edges)
    live = 0
    for e in range(n_edges):
        j, k = region[ends[2 * e]], region[ends[2 * e + 1]]
        if j != k:
            between[2 * live], between[2 * live + 1], limit[live], flow[live] = j, k, q[e], f[e]
            live += 1
    minimise(between[: 2 * live], limit[:live], flow[:live], 0.0, weight, force, lowest, highest, mean, 1e-14)
    for j in range(n):
        x[j] = mean[region[j]]
    return True


@kernel
def complete_flow(start, neighbor, arc, ends, q, f, region, size, pull, low, high, x, phi):
    """phi ← a dual point for x: the slopes of g between regions, a maximum flow of what is missing inside them."""
    n, n_edges = x.shape[0], q.shape[0]
    terminal, room = np.empty(n), np.zeros(2 * n_edges)
    pinned = False
    for j in range(n):
        terminal[j] = 2.0 * (pull[j] - size[j] * x[j])
    for e in range(n_edges):
        j, k = ends[2 * e], ends[2 * e + 1]
        if q[e] < 0.0 and region[j] == region[k]:
            room[2 * e] = room[2 * e + 1] = -q[e]
            phi[e] = 0.0
        else:
            phi[e] = edge_slope(x[j] - x[k], q[e], f[e], 0.0)
            terminal[j] -= phi[e]
            terminal[k] += phi[e]
    for j in range(n):
        if low[j] == high[j]:  # takes whatever comes
            terminal[j] = -np.inf
            pinned = True
    maximum_flow(start, neighbor, arc, ends, terminal, room)
    if pinned:  # and gives whatever is wanted
        for j in range(n):
            if low[j] == high[j]:
                terminal[j] = np.inf
        maximum_flow(start, neighbor, arc, ends, terminal, room)
    for e in range(n_edges):
        if q[e] < 0.0 and region[ends[2 * e]] == region[ends[2 * e + 1]]:
            phi[e] = 0.5 * (room[2 * e + 1] - room[2 * e])


@kernel
def duality_gap(ends, q, size, pull, low, high, x, phi):
    """(primal − dual, dual) at x and φ; the gap as a sum of Fenchel–Young terms, each ≥ 0."""
    n = x.shape[0]
    balance = np.zeros(n)
    gap, dual = 0.0, 0.0
    for e in range(q.shape[0]):
        j, k = ends[2 * e], ends[2 * e + 1]
        flow = phi[e] if x[j] >= x[k] else -phi[e]
        balance[j] += phi[e]
        balance[k] -= phi[e]
        d, amount = abs(x[j] - x[k]), abs(flow)
        if q[e] < 0.0:
            over = max(amount + q[e], 0.0)
            dual -= 0.5 * over * over
            if flow >= -q[e]:
                gap += 0.5 * (d - over) ** 2
            elif d > 0.0:
                gap += 0.5 * (d * d + over * over) + (-q[e] - flow) * d
            else:
                gap += 0.5 * over * over
        else:
            dual -= q[e] * amount + 0.5 * amount * amount
            bend = max(d - q[e], 0.0)
            if flow >= 0.0 and d >= q[e]:
                gap += 0.5 * (bend - amount) ** 2
            else:
                gap += 0.5 * (bend * bend + amount * amount) + q[e] * amount - flow * d
    for j in range(n):
        best = min(max((pull[j] - 0.5 * balance[j]) / size[j], low[j]), high[j])
        dual += (size[j] * best - 2.0 * pull[j] + balance[j]) * best
        gap += (x[j] - best) * (size[j] * (x[j] + best) - 2.0 * pull[j] + balance[j])
    return gap, dual


@kernel
def solve_flow(start, neighbor, arc, ends, size, pull, low, high, q, x):
    """x ← the solution of the primal with n = size, a = pull; returns the gap that is left.

    The graph is as in :mod:`partwise.structures._maxflow`; q is finite.
    """
    n, n_edges = x.shape[0], q.shape[0]
    f, phi = np.zeros(n_edges), np.zeros(n_edges)
    fused, region = np.zeros(n_edges, np.uint8), np.zeros(n, np.int64)
    trial, best_x = np.empty(n), np.empty(n)
    pinned = False
    for j in range(n):
        x[j] = min(max(pull[j] / size[j], low[j]), high[j])
        pinned = pinned or low[j] == high[j]
    for e in range(n_edges):
        fused[e] = 1 if q[e] < 0.0 and not pinned else 0
    best, lagrangian_dual, sigma, tolerance = np.inf, -np.inf, 4.0, 1e-2
    for _ in range(MAX_ROUNDS):
        count = regions(ends, fused, region)
        trial[:] = x
        if region_solution(ends, q, f, region, count, size, pull, low, high, trial):
            complete_flow(start, neighbor, arc, ends, q, f, region, size, pull, low, high, trial, phi)
            gap, dual = duality_gap(ends, q, size, pull, low, high, trial, phi)
            if gap < best:
                best = gap
                best_x[:] = trial
            if gap <= GAP:
                break
            if dual >= lagrangian_dual:
                for e in range(n_edges):
                    f[e] = min(max(phi[e], q[e]), -q[e]) if q[e] < 0.0 else 0.0
                x[:] = trial
        minimise(ends, q, f, sigma, size, pull, low, high, x, tolerance)
        for e in range(n_edges):
            d = x[ends[2 * e]] - x[ends[2 * e + 1]]
            fused[e] = 0
            phi[e] = edge_slope(d, q[e], f[e], sigma)
            if q[e] < 0.0:
                value = f[e] + sigma * d
                fused[e] = 1 if abs(value) < -q[e] else 0
                f[e] = min(max(value, q[e]), -q[e])
        gap, lagrangian_dual = duality_gap(ends, q, size, pull, low, high, x, phi)
        if gap < best:
            best = gap
            best_x[:] = x
        if gap <= GAP:
            break
        sigma = min(1.5 * sigma, 1e4)
        tolerance = max(0.2 * tolerance, 1e-12)
    x[:] = best_x
    return best
