"""Loopy belief propagation on second-order trees, Smith & Eisner (2008); section 3.2 of Martins et al. (2010).

The graph has a binary variable per candidate arc, a TREE factor over all of them, a chain factor over the children of
each head and side (siblings), and a pair factor per grandparent part. Messages are log-odds: arc a has score s_a and
belief b_a = s_a + Σ_F m_{F→a}, and a factor F that sees q_a = b_a − m_{F→a} answers with

    m_{F→a} = logit P_F(z_a = 1) − q_a,

where P_F are the factor's own marginals: the matrix–tree theorem for TREE, forward–backward for a chain. At a fixed
point the Bethe approximation of eqs. (18)–(19) is

    log Z ≈ Σ_F log Z_F(q) − Σ_a (deg(a) − 1) log(1 + e^{b_a}),

and its gradient in the scores are the beliefs. Without second-order scores all messages but those of TREE vanish, and
the answer is exact. Nothing guarantees a fixed point: :func:`propagate` returns whether one was reached.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._math import log_add
from partwise.structures._arborescence_laplacian import tree_marginals
from partwise.structures._second_order_space import SecondOrderSpace, child, layout
from partwise.structures.oracles import marginals

__all__ = ["DAMPING", "MOST_ROUNDS", "propagate"]

MOST_ROUNDS = 100
TOLERANCE = 1e-5  # of messages, which are log-odds
DAMPING = 0.3
FAR = 30.0  # log-odds beyond which a probability is indistinguishable from 0 or 1


@kernel
def _softplus(x):
    """log(1 + e^x)."""
    return x + math.log1p(math.exp(-x)) if x > 0.0 else math.log1p(math.exp(x))


@kernel
def _logit(p):
    return min(max(math.log(p) - math.log1p(-p), -FAR), FAR) if 0.0 < p < 1.0 else (FAR if p >= 1.0 else -FAR)


@kernel
def _chain(lay, h, side, q, scores, alpha, beta, parts, write):
    """Forward–backward over the children of h on a side with log-odds q; returns log Z.

    alpha_j = q_j + log(e^first_j + Σ_i e^(alpha_i + follows_ij)),
    beta_j = log(e^last_j + Σ_k e^(follows_jk + q_k + beta_k)).

    Where ``write``, the marginals of the sibling parts go to ``parts``.
    """
    k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
    base = lay.siblings[h, side]
    pairs = base + k
    stops = pairs + k * (k - 1) // 2
    total = 0.0
    for j in range(k):
        value = scores[base + j]
        for r in range(j):
            value = log_add(value, alpha[r] + scores[pairs + j * (j - 1) // 2 + r])
        alpha[j] = value + q[j]
        total = log_add(total, alpha[j] + scores[stops + j])
    for j in range(k - 1, -1, -1):
        value = scores[stops + j]
        for r in range(j + 1, k):
            value = log_add(value, scores[pairs + r * (r - 1) // 2 + j] + q[r] + beta[r])
        beta[j] = value
    if write:
        for j in range(k):
            parts[base + j] = math.exp(scores[base + j] + q[j] + beta[j] - total)
            parts[stops + j] = math.exp(alpha[j] + scores[stops + j] - total)
            for r in range(j):
                place = pairs + j * (j - 1) // 2 + r
                parts[place] = math.exp(alpha[r] + scores[place] + q[j] + beta[j] - total)
    return total


@kernel
def _tree(lay, q, single_root, dense, mass):
    """TREE with log-odds q: mass[h, m] ← its marginals; returns log Z."""
    dense[:, :] = -np.inf
    for a in range(q.shape[0]):
        dense[lay.heads[a], lay.modifiers[a]] = q[a]
    return tree_marginals(dense, single_root, mass)


@kernel
def _grand_round(lay, n, scores, belief, to_in, to_out, damping, first):
    """Messages of all pair factors, one after the other; returns the largest change."""
    change = 0.0
    for h in range(1, n + 1):
        part = lay.grands[h]
        for a in range(lay.into[h], lay.into[h + 1]):
            for p in range(lay.out_start[h], lay.out_start[h + 1]):
                b, g, r = lay.out[p], scores[part], part - first
                part += 1
                if g == 0.0 or belief[a] == -np.inf or belief[b] == -np.inf or lay.heads[a] == lay.modifiers[b]:
                    continue  # nothing to say, or arcs that no tree has both of
                qa, qb = belief[a] - to_in[r], belief[b] - to_out[r]
                new_in = damping * to_in[r] + (1.0 - damping) * (_softplus(qb + g) - _softplus(qb))
                new_out = damping * to_out[r] + (1.0 - damping) * (_softplus(qa + g) - _softplus(qa))
                change = max(change, abs(new_in - to_in[r]), abs(new_out - to_out[r]))
                belief[a] += new_in - to_in[r]
                belief[b] += new_out - to_out[r]
                to_in[r], to_out[r] = new_in, new_out
    return change


@kernel
def _chain_round(lay, n, scores, belief, message, damping, scratch):
    """Messages of all sibling chains; returns the largest change."""
    change = 0.0
    q, alpha, beta = scratch[0], scratch[1], scratch[2]
    for h in range(n + 1):
        for side in range(2):
            k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
            if k == 0:
                continue
            for j in range(k):
                a = child(lay, h, side, j)
                q[j] = belief[a] - message[a]
            total = _chain(lay, h, side, q, scores, alpha, beta, scores, False)
            for j in range(k):
                a = child(lay, h, side, j)
                if q[j] > -np.inf:
                    p = math.exp(alpha[j] + beta[j] - total)
                    new = damping * message[a] + (1.0 - damping) * (_logit(p) - q[j])
                    if abs(q[j]) > FAR:  # the factor cannot be heard over the others
                        new = message[a]
                    change = max(change, abs(new - message[a]))
                    belief[a] += new - message[a]
                    message[a] = new
    return change


@kernel
def propagate(lay, n, arc_scores, scores, single_root, max_rounds, damping, arc_mass, parts):
    """(Bethe log Z, rounds, whether a fixed point was reached). arc_mass ← beliefs of arcs; parts ← of higher parts."""
    count, first = arc_scores.shape[0], lay.grands[1] if n > 0 else 0
    n_grand = lay.size[0] - first
    belief = arc_scores.copy()
    to_in, to_out = np.zeros(n_grand), np.zeros(n_grand)
    chain_message, tree_message, q = np.zeros(count), np.zeros(count), np.empty(count)
    scratch = np.empty((3, count))
    dense, mass = np.empty((n + 1, n + 1)), np.empty((n + 1, n + 1))
    rounds, done = 0, False
    while rounds < max_rounds and not done:
        rounds += 1
        change = _grand_round(lay, n, scores, belief, to_in, to_out, damping, first)
        change = max(change, _chain_round(lay, n, scores, belief, chain_message, damping, scratch))
        for a in range(count):
            q[a] = belief[a] - tree_message[a]
        if _tree(lay, q, single_root, dense, mass) == -np.inf:
            arc_mass[:] = 0.0
            return -np.inf, rounds, True
        for a in range(count):
            if q[a] > -np.inf:
                new = _logit(mass[lay.heads[a], lay.modifiers[a]]) - q[a]
                new = damping * tree_message[a] + (1.0 - damping) * new
                change = max(change, abs(new - tree_message[a]))
                belief[a] += new - tree_message[a]
                tree_message[a] = new
        done = change < TOLERANCE
    # the factors once more, with what they see at the end
    for a in range(count):
        q[a] = belief[a] - tree_message[a]
    value = _tree(lay, q, single_root, dense, mass)
    degree = np.zeros(count)
    for a in range(count):
        arc_mass[a] = mass[lay.heads[a], lay.modifiers[a]]
        degree[a] = 1.0  # TREE and the chain, less one
    for h in range(n + 1):
        for side in range(2):
            k = lay.split[h] - lay.out_start[h] if side == 0 else lay.out_start[h + 1] - lay.split[h]
            for j in range(k):
                a = child(lay, h, side, j)
                scratch[0, j] = belief[a] - chain_message[a]
            if k > 0:
                value += _chain(lay, h, side, scratch[0], scores, scratch[1], scratch[2], parts, True)
    for h in range(1, n + 1):
        part = lay.grands[h]
        for a in range(lay.into[h], lay.into[h + 1]):
            for p in range(lay.out_start[h], lay.out_start[h + 1]):
                b, g, r = lay.out[p], scores[part], part - first
                part += 1
                if lay.heads[a] == lay.modifiers[b]:
                    continue
                qa, qb = belief[a] - to_in[r], belief[b] - to_out[r]
                both = qa + qb + g
                whole = log_add(log_add(0.0, both), log_add(qa, qb))
                parts[part - 1] = math.exp(both - whole) if both > -np.inf else 0.0
                if g != 0.0:
                    value += whole
                    degree[a] += 1.0
                    degree[b] += 1.0
    for a in range(count):
        if belief[a] > -np.inf:
            value -= degree[a] * _softplus(belief[a])
    return value, rounds, done


@kernel
def soft_arcs(n_labels, scores, arc_scores, parts):
    """arc_scores[a] ← log Σ_l e^s(a, l); parts ← the probability of each label given its arc."""
    for a in range(arc_scores.shape[0]):
        start = a * n_labels
        top = -np.inf
        for r in range(start, start + n_labels):
            top = max(top, scores[r])
        total = 0.0
        for r in range(start, start + n_labels):
            parts[r] = math.exp(scores[r] - top) if top > -np.inf else 0.0
            total += parts[r]
        for r in range(start, start + n_labels):
            parts[r] = parts[r] / total if total > 0.0 else 0.0
        arc_scores[a] = top + math.log(total) if top > -np.inf else top


@marginals.register(SecondOrderSpace)
def _(space, i, scores, work, parts):
    lay = layout(space, i)
    n, count, L = space.offsets[i + 1] - space.offsets[i], lay.heads.shape[0], space.n_labels
    arc_scores, mass = np.empty(count), np.zeros(count)
    parts[:] = 0.0
    soft_arcs(L, scores, arc_scores, parts)
    value, rounds, done = propagate(lay, n, arc_scores, scores, space.single_root, MOST_ROUNDS, DAMPING, mass, parts)
    space.log[i, 2] = rounds
    space.log[i, 3] = 1.0 if done else 0.0
    if value == -np.inf:
        parts[:] = 0.0
        return value
    for a in range(count):
        for r in range(a * L, (a + 1) * L):
            parts[r] *= mass[a]
    return value
