"""Projection onto the matching polytope: a min-cost quadratic flow, Lacoste-Julien Figure 2.3, solved in its dual.

    min ½‖x − p‖² + ½‖y − n‖²   with   0 ≤ x, y ≤ 1,   Σ_k x_jk ≤ 1 + Σ_d y_dj,   Σ_j x_jk ≤ 1 + Σ_d y_dk

(links x, fertility parts y of eq. (3.2), none where D = 1). With multipliers α_j, β_k ≥ 0 of the words

    x_jk = [p_jk − α_j − β_k]_0^1,   y_dj = [n_dj + α_j]_0^1,   y_dk = [n_dk + β_k]_0^1.

Given α, every β_k is the root of a monotone piecewise linear function, so the dual is a concave, piecewise quadratic
function of α alone, whose Newton steps have a closed form; its gradient is the excess of every row.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise.structures._flow import best_flow
from partwise.structures._matching_kernels import MatchingSpace, masked
from partwise.structures.base import project

__all__: list[str] = []

MAX_STEPS = 500
LARGE = 3.0  # from which on the prices of a flow are a better start than 0


@kernel
def balance(t, first, last, nodes, lower, guess):
    """The smallest b ≥ lower with Σ_e [t_e − b]_0^1 − Σ_d [nodes_d + b]_0^1 ≤ 1, by safeguarded Newton steps."""
    low, high = lower, lower
    b = lower
    for step in range(100):
        excess, slope = -1.0, 0
        for e in range(first, last):
            x = t[e] - b
            if x > 0.0:
                if x < 1.0:
                    slope += 1
                else:
                    x = 1.0
                excess += x
                if step == 0 and t[e] > high:
                    high = t[e]
        for d in range(nodes.shape[0]):
            y = nodes[d] + b
            if y > 0.0:
                if y < 1.0:
                    slope += 1
                else:
                    y = 1.0
                excess -= y
        if step == 0:
            if excess <= 0.0:
                return lower
            following = guess
        else:
            if abs(excess) <= 4e-16 * (8.0 + abs(b)):
                return b
            if excess > 0.0:
                low = b
            else:
                high = b
            following = b + excess / slope if slope > 0 else np.inf
        if not (low < following < high):
            following = b + excess / slope if step == 0 and slope > 0 else 0.5 * (low + high)
            if not (low < following < high):
                following = 0.5 * (low + high)
        if following == b:
            return b
        b = following
    return b


@kernel
def excesses(start, outer, q, a, inner_nodes, inner_low, outer_nodes, t, b, x, excess):
    """b ← the multipliers of the inner words given those of the outer words, a; x ← the links; excess ← gradient."""
    for j in range(a.shape[0]):
        total = -1.0
        for d in range(outer_nodes.shape[1]):
            total -= min(max(outer_nodes[j, d] + a[j], 0.0), 1.0)
        excess[j] = total
    for k in range(b.shape[0]):
        first, last = start[k], start[k + 1]
        for e in range(first, last):
            t[e] = q[e] - a[outer[e]]
        b[k] = balance(t, first, last, inner_nodes[k], inner_low[k], b[k])
        for e in range(first, last):
            x[e] = min(max(t[e] - b[k], 0.0), 1.0)
            excess[outer[e]] += x[e]


@kernel
def curvature(start, outer, a, b, x, inner_nodes, inner_low, outer_nodes, hessian):
    """hessian ← minus that of the dual in a: each free inner word passes on what its free links receive."""
    n = a.shape[0]
    for j in range(n):
        for i in range(n):
            hessian[j, i] = 0.0
        for d in range(outer_nodes.shape[1]):
            y = outer_nodes[j, d] + a[j]
            if 0.0 < y < 1.0:
                hessian[j, j] += 1.0
    for k in range(b.shape[0]):
        count = 0
        for e in range(start[k], start[k + 1]):
            if 0.0 < x[e] < 1.0:
                hessian[outer[e], outer[e]] += 1.0
                count += 1
        if b[k] <= inner_low[k] or count == 0:
            continue
        for d in range(inner_nodes.shape[1]):
            y = inner_nodes[k, d] + b[k]
            if 0.0 < y < 1.0:
                count += 1
        share = 1.0 / count
        for e in range(start[k], start[k + 1]):
            if 0.0 < x[e] < 1.0:
                for f in range(start[k], start[k + 1]):
                    if 0.0 < x[f] < 1.0:
                        hessian[outer[e], outer[f]] -= share


@kernel
def newton_direction(hessian, excess, work_set, shift, d):
    """d ← (H + shift·I)⁻¹ excess on the work set, 0 elsewhere, by Cholesky in place."""
    n = excess.shape[0]
    m = 0
    members = np.empty(n, np.int64)
    for j in range(n):
        d[j] = 0.0
        if work_set[j] != 0:
            members[m] = j
            m += 1
    for r in range(m):
        j = members[r]
        hessian[j, j] += shift
        for c in range(r + 1):
            i = members[c]
            total = hessian[j, i]
            for k in range(c):
                total -= hessian[j, members[k]] * hessian[i, members[k]]
            if r == c:
                hessian[j, j] = np.sqrt(max(total, 0.5 * shift))
            else:
                hessian[j, i] = total / hessian[i, i]
    for r in range(m):
        j = members[r]
        total = excess[j]
        for c in range(r):
            total -= hessian[j, members[c]] * d[members[c]]
        d[j] = total / hessian[j, j]
    for r in range(m - 1, -1, -1):
        j = members[r]
        total = d[j]
        for c in range(r + 1, m):
            total -= hessian[members[c], j] * d[members[c]]
        d[j] = total / hessian[j, j]


@kernel
def solve_dual(start, outer, q, outer_nodes, inner_nodes, outer_low, inner_low, x, a, b):
    """Projected Newton steps on the dual in a ≥ outer_low from a = 0; leaves x, a, b. Returns the largest violation.

    A step is cut along its segment until the slope at its end is hardly negative, so the concave dual rises. The
    curvature is singular along a component of free links (its α up and its β down alike, x unchanged), hence the shift,
    which goes to 0 with the violation. The end is finite: one step is exact once the free links are the right ones.
    """
    n = a.shape[0]
    t, excess, ahead = np.empty(q.shape[0]), np.empty(n), np.empty(n)
    hessian, d, here = np.empty((n, n)), np.empty(n), np.empty(n)
    work_set = np.empty(n, np.uint8)
    excesses(start, outer, q, a, inner_nodes, inner_low, outer_nodes, t, b, x, excess)
    violation, best, idle, damping = np.inf, np.inf, 0, 1e-2
    for _ in range(MAX_STEPS):
        violation = 0.0
        for j in range(n):
            work_set[j] = 1 if a[j] > outer_low[j] or excess[j] > 0.0 else 0
            if work_set[j] != 0:
                violation = max(violation, abs(excess[j]))
        idle = 0 if violation < 0.5 * best else idle + 1
        best = min(best, violation)
        if violation <= 1e-14 or (violation <= 1e-11 and idle > 2):  # the latter is rounding
            break
        curvature(start, outer, a, b, x, inner_nodes, inner_low, outer_nodes, hessian)
        newton_direction(hessian, excess, work_set, damping * min(1.0, violation), d)
        here[:] = a
        length = 1.0
        slope, end = 0.0, 0.0
        for _ in range(60):
            slope = 0.0
            for j in range(n):
                a[j] = max(here[j] + length * d[j], outer_low[j])
                slope += excess[j] * (a[j] - here[j])
            excesses(start, outer, q, a, inner_nodes, inner_low, outer_nodes, t, b, x, ahead)
            end = 0.0
            for j in range(n):
                end += ahead[j] * (a[j] - here[j])
            if end >= -1e-3 * abs(slope):
                break
            fall = slope - end  # 0 where rounding has turned a step of no account against the slope
            length *= min(max(slope / fall, 0.1), 0.5) if fall > 0.0 else 0.5
        # a whole step along which the slope hardly fell was too short: the way is long
        damping = max(0.1 * damping, 1e-12) if length == 1.0 and end > 0.5 * slope else 1e-2
        excess[:] = ahead
    return violation


@kernel
def fill_nodes(point, at, nodes, costs):
    """nodes ← the fertility parts of the point, from part ``at`` on; costs ← what they mean to a flow, ascending."""
    extra = nodes.shape[1]
    for j in range(nodes.shape[0]):
        costs[j, 0] = 0.0
        for d in range(extra):
            nodes[j, d] = point[at + j * extra + d]
            cost, place = max(-nodes[j, d], 0.0), d + 1
            while costs[j, place - 1] > cost:  # insertion: costs ascend, and costs[j, 0] = 0
                costs[j, place] = costs[j, place - 1]
                place -= 1
            costs[j, place] = cost


@kernel
def lift(price, nodes):
    """price ← max(price, 0), where α or β starts; nodes ← nodes + price."""
    for j in range(price.shape[0]):
        price[j] = max(price[j], 0.0)
        for d in range(nodes.shape[1]):
            nodes[j, d] += price[j]


@kernel
def write_nodes(nodes, move, parts, at):
    """parts from ``at`` on ← [nodes + move]_0^1."""
    extra = nodes.shape[1]
    for j in range(nodes.shape[0]):
        for d in range(extra):
            parts[at + j * extra + d] = min(max(nodes[j, d] + move[j], 0.0), 1.0)


@project.register(MatchingSpace)
def _(space, i, point, work, parts):
    """Returns 0: the polytope is never empty.

    Where the point is large, α and β start from the prices of the best flow: what is left to find is of the size
    of the polytope, so that rounding is too. Links with p ≤ 0 stay 0 (α, β ≥ 0). The shorter side is the outer.
    """
    n_rows, n_cols, n_units = space.n_rows[i], space.n_cols[i], space.max_fertility
    size = n_rows * n_cols
    p = masked(space, i, point, work)
    row_nodes, col_nodes = np.empty((n_rows, n_units - 1)), np.empty((n_cols, n_units - 1))
    row_costs, col_costs = np.empty((n_rows, n_units)), np.empty((n_cols, n_units))
    fill_nodes(point, size, row_nodes, row_costs)
    fill_nodes(point, size + n_rows * (n_units - 1), col_nodes, col_costs)
    row_price, col_price = np.zeros(n_rows), np.zeros(n_cols)
    top, count = 0.0, 0
    for j in range(n_rows):
        for k in range(n_cols):
            if p[j, k] > 0.0:
                count += 1
                top = max(top, p[j, k])
    if top > LARGE:
        best_flow(p, row_costs, col_costs, np.empty((n_rows, n_cols), np.uint8), row_price, col_price)
        lift(row_price, row_nodes)
        lift(col_price, col_nodes)
    swap = n_rows > n_cols
    start = np.zeros(max(n_rows, n_cols) + 1, np.int64)
    outer, place, q, x = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count), np.empty(count)
    count = 0
    for inner in range(max(n_rows, n_cols)):
        for other in range(min(n_rows, n_cols)):
            j, k = (inner, other) if swap else (other, inner)
            if p[j, k] > 0.0:
                outer[count] = other
                place[count] = j * n_cols + k
                q[count] = p[j, k] - row_price[j] - col_price[k]
                count += 1
        start[inner + 1] = count
    row_move, col_move = np.zeros(n_rows), np.zeros(n_cols)
    if swap:
        left = solve_dual(start, outer, q, col_nodes, row_nodes, -col_price, -row_price, x, col_move, row_move)
    else:
        left = solve_dual(start, outer, q, row_nodes, col_nodes, -row_price, -col_price, x, row_move, col_move)
    if not left <= 1e-9:
        raise ArithmeticError("the projection onto the matching polytope did not converge; is the point finite?")
    for e in range(size):
        parts[e] = 0.0
    for e in range(count):
        parts[place[e]] = x[e]
    write_nodes(row_nodes, row_move, parts, size)
    write_nodes(col_nodes, col_move, parts, size + n_rows * (n_units - 1))
    return 0.0
