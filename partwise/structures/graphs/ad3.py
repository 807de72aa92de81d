"""AD³: the linear relaxation of the argmax by alternating directions (Martins et al. 2015).

    max Σ_C s_C·q_C  subject to  q_C in the hull of factor C's configurations, and M_C q_C = p for the bits p it meets.

Every factor solves max_q s_C·q + Σ_e (θ_b/d_b + λ_e) q_e − η/2 Σ_e (q_e − p_b)² over its own hull, p is the average of
the copies and λ_e ← λ_e − η(q_e − p_b); b is the bit of edge e, d_b the number of its edges. As Σ_e λ_e = 0 at every
bit, the maxima without the quadratic term add up to an upper bound on the best score at every iteration, and its
minimum is the relaxation's value. Where the bits come out as 0 or 1 and the score meets the bound, the output is the
best: a certificate.

Where all factors are logical, copies count 1.8 times (over-relaxation), so that λ swings around the minimum, and the
bound is also evaluated at a mean of λ in which the k-th iteration has a weight of about k³: sums of 0 stay sums of 0,
and the bound is convex. A bit whose value is known to be at most u (``presolve``) keeps p ≤ u; then Σ_e λ_e may be
below 0, and the bound has u·max(0, −Σ_e λ_e) more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise._compile import kernel
from partwise.structures.graphs.lanes import (
    follow_prices,
    lanes_bound,
    lanes_scratch,
    load_prices,
    project_lanes,
    store_prices,
    update_prices,
)
from partwise.structures.graphs.logic import HARD_TABLE, TABLE
from partwise.structures.graphs.quadratic import project_structure
from partwise.structures.graphs.subproblems import (
    clauses_bound,
    factor_scratch,
    project_clauses,
    solve_table,
    table_bound,
)
from partwise.structures.oracles import argmax, part_count, work_size

__all__ = ["Ad3Settings", "price_bound", "solve_relaxation"]

AHEAD = 1.5  # over-relaxation: copies count this much more than what p was
FAR_AHEAD = 1.8  # the same where the mean of λ is kept
FOLLOW = 4.0  # weights of the mean: those of iteration k are as k³
STRUCTURE_SET = 40  # outputs that the active set of a structured factor may hold
CHANGE = 1.5  # by which η changes at most at a time
STEADY = 1.2  # residuals that differ by less leave η as it is
REACH = 50.0  # how far η may go from the unit


class Ad3Settings(NamedTuple):
    """When to stop: residuals below the tolerance, or an output whose score is within ``gap`` of the bound."""

    max_iter: int
    tolerance: float
    gap: float  # relative to 1 + |bound|
    every: int  # iterations between two evaluations of the bound
    sweeps: int  # of sequential messages before the first iteration, at most


@kernel
def price_bound(space, i, local, links, which, lam, point, scratch):
    """Σ_C max over its configurations of scores and prices θ_b/d_b + λ_e: an upper bound for any λ with Σ_e λ_e = 0.

    C are the tables and those logical factors that ``which`` names.
    """
    total = clauses_bound(local, links, which, lam, scratch)
    first, kinds, share, bit_of = space.factor_start[i], local.kind, local.share, links.bit
    if local.set_start[kinds.shape[0]] == 0:  # no tables
        return total
    for e in range(lam.shape[0]):
        point[e] = share[bit_of[e]] + lam[e] if bit_of[e] >= 0 else 0.0
    for f in range(first, space.factor_start[i + 1]):
        if kinds[f - first] in (TABLE, HARD_TABLE):
            total += table_bound(space, i, f, local, point, scratch)
    return total


@kernel
def solve_tables(space, i, local, links, eta, lam, aim, scratch, point, copies, sums):
    """Copies of every table's bits, and their sums; a table whose point has not moved keeps its copies."""
    first = space.factor_start[i]
    edge_base = space.edge_start[space.slot_start[first]]
    inverse, kinds = 1.0 / eta, local.kind
    if local.set_start[kinds.shape[0]] == 0:
        return
    for f in range(first, space.factor_start[i + 1]):
        if kinds[f - first] not in (TABLE, HARD_TABLE):
            continue
        start = space.edge_start[space.slot_start[f]] - edge_base
        stop = space.edge_start[space.slot_start[f + 1]] - edge_base
        moved = False
        for e in range(start, stop):
            b = links.bit[e]
            if b >= 0:
                x = aim[b] + inverse * lam[e]
                if not abs(x - point[e]) <= 1e-12:
                    moved = True
                    point[e] = x
        if moved:
            solve_table(space, i, f, local, eta, point, scratch, copies)
        for e in range(start, stop):
            if links.bit[e] >= 0:
                sums[links.bit[e]] += copies[e]


@kernel
def loose_edges(links, lanes):
    """The copies of free bits in tables and in factors that are in no batch."""
    bit_of, edges = links.bit, lanes.edge
    batched = np.zeros(bit_of.shape[0], np.uint8)
    for r in range(edges.shape[0]):
        for k in range(edges.shape[1]):
            batched[edges[r, k]] = 1
    count = 0
    for e in range(bit_of.shape[0]):
        count += bit_of[e] >= 0 and batched[e] == 0
    found = np.empty(count, np.int64)
    count = 0
    for e in range(bit_of.shape[0]):
        if bit_of[e] >= 0 and batched[e] == 0:
            found[count] = e
            count += 1
    return found


@kernel
def move_bits(copied, ahead, eta, cap, sums, p, drift, slack):
    """p ← p + ahead·(mean of the copies − p), drift ← (1 − ahead)·(old p) − p; returns Σ copies·(change)².

    With caps, p is the nearest number below its cap, and slack ← Σ_e λ_e, 0 where p is below.
    """
    total = 0.0
    if cap.shape[0] == 0:
        for b in range(p.shape[0]):
            change = ahead * (sums[b] / max(copied[b], 1.0) - p[b]) if copied[b] > 0 else 0.0
            total += copied[b] * change * change
            drift[b] = (1.0 - ahead) * p[b] - (p[b] + change)
            p[b] += change
        return total
    for b in range(p.shape[0]):
        drift[b] = -ahead * p[b]
        if copied[b] > 0:
            after = p[b] + ahead * (sums[b] / copied[b] - p[b])
            free = after - slack[b] / (eta * copied[b])
            after = min(free, cap[b])
            slack[b] = min(eta * copied[b] * (after - free), 0.0)
            change = after - p[b]
            total += copied[b] * change * change
            drift[b] = (1.0 - ahead) * p[b] - after
            p[b] = after
    return total


@kernel
def cap_slack(links, lam, cap, slack):
    """slack ← Σ_e λ_e of every bit."""
    for b in range(cap.shape[0]):
        slack[b] = 0.0
    bit_of = links.bit
    if cap.shape[0] > 0:
        for e in range(lam.shape[0]):
            if bit_of[e] >= 0:
                slack[bit_of[e]] += lam[e]


@kernel
def cap_bound(cap, slack):
    """Σ_b max over 0 ≤ p ≤ u of −p·Σ_e λ_e."""
    total = 0.0
    for b in range(cap.shape[0]):
        total += cap[b] * max(0.0, -slack[b])
    return total


@kernel
def review_due(iteration):
    """Whether η may change: often at first, then seldom, in the end never, or nothing would have to converge."""
    return (iteration % 5 == 0 and iteration <= 100) or (iteration % 50 == 0 and iteration <= 1000)


@kernel
def solve_relaxation(
    space, i, extra, bits, local, links, lanes, settings, unit, eta, before, lam, mean, more, cap, p, primal
):
    """Runs AD³ from the multipliers λ; p ← relaxed bits. Returns (bound, iterations, residual, η).

    ``unit`` is a typical difference of scores, ``before`` the number of earlier iterations. η follows the ratio of the
    residuals. They are the distances of the copies from p, and of p from what it was, the latter times η/unit where
    that is more: a large η makes p move slowly however far λ has to go. ``primal`` is a score that some output attains
    (−inf where none is known): a bound that meets it ends the search. ``more`` are multipliers of ``extra``, a
    structured factor over ``bits`` (see ``messages``). ``mean``: of λ over the earlier iterations, or empty where none
    is to be kept, as with tables or a structured factor. ``cap``: the most that every bit may be, or empty.
    """
    n_edges, n_bits = lam.shape[0], p.shape[0]
    size = part_count(extra, i)
    work, spot, near = np.empty(work_size(extra, i)), np.empty(size), np.empty(size)
    vertices, mix, held = np.empty((STRUCTURE_SET if size > 0 else 0, size)), np.empty(STRUCTURE_SET), 0
    scratch = factor_scratch(space, i, local)
    block, price, batched = lanes_scratch(lanes), np.empty(lanes.edge.shape), np.empty(lanes.edge.shape)
    load_prices(lanes, lam, price)
    loose = loose_edges(links, lanes)
    bit_of, share, follow = links.bit, local.share, mean.shape[0] > 0
    ahead = FAR_AHEAD if follow else AHEAD
    middle = np.empty(lanes.edge.shape if follow else (0, lanes.edge.shape[1]))
    slack, mean_slack = np.empty(cap.shape[0]), np.empty(cap.shape[0])
    cap_slack(links, lam, cap, slack)
    if follow:
        load_prices(lanes, mean, middle)
        cap_slack(links, mean, cap, mean_slack)
    copies, point = np.zeros(n_edges), np.full(n_edges, np.nan)
    sums, aim, drift, copied = np.empty(n_bits), np.empty(n_bits), np.empty(n_bits), local.degree.copy()
    weight = 0.0
    for b in range(n_bits):
        if local.fixed[b] >= 0:
            p[b], copied[b] = local.fixed[b], 0.0
        weight += copied[b]
    weight = max(weight, 1.0)
    best, residual, steps = np.inf, np.inf, settings.max_iter
    for iteration in range(1, settings.max_iter + 1):
        inverse = 1.0 / eta
        for b in range(n_bits):
            sums[b], aim[b] = 0.0, p[b] + inverse * share[b]
        solve_tables(space, i, local, links, eta, lam, aim, scratch, point, copies, sums)
        project_clauses(local, links, lanes.single, inverse, lam, aim, scratch, copies, sums)
        project_lanes(lanes, inverse, price, aim, block, batched, sums)
        if size > 0:
            for r in range(size):
                spot[r] = aim[bits[r]] + inverse * more[r]
            held = project_structure(extra, i, spot, work, vertices, mix, held, near)
            for r in range(size):
                sums[bits[r]] += near[r]
        gap_dual = move_bits(copied, ahead, eta, cap, sums, p, drift, slack)
        gap_primal = update_prices(lanes, eta, ahead, drift, p, batched, price)
        for e in loose:
            b = bit_of[e]
            lam[e] -= eta * (ahead * copies[e] + drift[b])
            gap_primal += (copies[e] - p[b]) * (copies[e] - p[b])
        for r in range(size):
            b = bits[r]
            more[r] -= eta * (ahead * near[r] + drift[b])
            gap_primal += (near[r] - p[b]) * (near[r] - p[b])
        if follow:
            weight_now = FOLLOW / (before + iteration + FOLLOW - 1.0)
            follow_prices(price, weight_now, middle)
            for e in loose:
                mean[e] += weight_now * (lam[e] - mean[e])
            for b in range(cap.shape[0]):
                mean_slack[b] += weight_now * (slack[b] - mean_slack[b])
        gap_primal, gap_dual = np.sqrt(gap_primal / weight), np.sqrt(gap_dual / weight)
        residual = max(gap_primal, max(1.0, eta / unit) * gap_dual)
        done = residual <= settings.tolerance
        if done or iteration % settings.every == 0 or iteration == settings.max_iter:
            bound = np.inf
            if done or not follow or iteration == settings.max_iter:
                bound = price_bound(space, i, local, links, lanes.single, lam, point, scratch)
                bound += lanes_bound(lanes, local.share, price, block) + cap_bound(cap, slack)
            if size > 0:
                for r in range(size):
                    spot[r] = local.share[bits[r]] + more[r]
                bound += argmax(extra, i, spot, work, near)
            if follow:
                other = price_bound(space, i, local, links, lanes.single, mean, point, scratch)
                other += lanes_bound(lanes, local.share, middle, block) + cap_bound(cap, mean_slack)
                bound = min(bound, other)
            point[:] = np.nan
            best = min(best, bound)
            if done or best - primal <= settings.gap * (1.0 + abs(best)):
                steps = iteration
                break
        if review_due(before + iteration):
            ratio = np.sqrt(max(gap_primal, 1e-300) / max(gap_dual, 1e-300))
            if not 1.0 / STEADY <= ratio <= STEADY:
                eta = min(max(eta * min(max(ratio, 1.0 / CHANGE), CHANGE), unit / REACH), unit * REACH)
                point[:] = np.nan
    store_prices(lanes, price, lam)
    if follow:
        store_prices(lanes, middle, mean)
    return best, steps, residual, eta
