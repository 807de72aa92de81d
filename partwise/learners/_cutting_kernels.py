"""Kernels of the cutting-plane learners: passes over the instances and their working sets."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise._math import dot
from partwise.features.base import accumulate, feature_scores, norm_and_clear
from partwise.learners._cut_weights import hildreth, signed_block
from partwise.learners._cuts import fits, put, scatter, worth_of
from partwise.learners.certified import cut_of
from partwise.structures.base import part_count


@kernel
def n_slack_pass(
    data, order, begin, seek, C, epsilon, tolerance, signed, buffers, kept, scratch, raw, theta, cuts, totals
):  # fmt: skip
    """Over the instances order[begin:]: add the cut at θ where it is violated by more than ε, and weigh the cuts anew.

    Without ``seek`` no oracle is called and only the weights change. ``raw`` is C v and ``theta`` the same, clipped at
    0 where ``signed`` (None if nothing is); they may be one array. ``totals``: Σ_i of the gaps that were
    found, max_k⁺ w_k − Σ_k α_k w_k with w the values of the cuts of i, and the number of new cuts. Returns the place
    where room ran out, or the end.
    """
    images = np.zeros((0, raw.shape[0]))  # F_i u_k of the cuts of an instance, where ``signed``
    for place in range(begin, order.shape[0]):
        i = order[place]
        n = part_count(data.space, i)
        first, room, count = cuts.first[i], cuts.first[i + 1] - cuts.first[i], cuts.filled[i]
        loss, constant = 0.0, 0.0
        if seek:
            loss, constant = cut_of(data, i, theta, buffers, kept)
        elif count > 0:
            feature_scores(data.features, i, theta, kept, 0)
        worth = np.empty(count + 1)
        model, mean = 0.0, 0.0
        for k in range(count):
            worth[k] = worth_of(cuts, first + k, kept)
            model = max(model, worth[k])
            mean += cuts.alpha[first + k] * worth[k]
        gram = cuts.gram[cuts.square[i] : cuts.square[i + 1]].reshape((room, room))
        mixed = buffers.parts[:n]
        if seek and loss - model > epsilon:
            if fits(cuts, i, mixed, n) < 0:
                return place
            put(cuts, i, first + count, mixed, n, constant)
            accumulate(data.features, i, mixed, 0, 1.0, scratch)
            feature_scores(data.features, i, scratch, buffers.scores, 0)
            norm_and_clear(data.features, i, mixed, 0, scratch)
            for k in range(count + 1):
                product = worth_of(cuts, first + k, buffers.scores) - cuts.constant[first + k]
                gram[count, k] = product
                gram[k, count] = product
            worth[count] = model = loss
            count += 1
            cuts.filled[i] = count
            totals[1] += 1.0
        totals[0] += model - mean
        if model - mean > tolerance:
            alpha = cuts.alpha[first : first + count]
            if signed is not None:  # None is a type of its own: without signs this is not even compiled
                if count > images.shape[0]:
                    images = np.zeros((2 * count, raw.shape[0]))
                for k in range(count):
                    for r in range(n):
                        mixed[r] = 0.0
                    scatter(cuts, first + k, 1.0, mixed)
                    accumulate(data.features, i, mixed, 0, 1.0, images[k])
                constants = cuts.constant[first : first + count]
                signed_block(images, constants, count, C, signed, raw, theta, alpha, tolerance)
                continue
            before = alpha.copy()
            for k in range(count):
                for j in range(count):
                    worth[k] += C * gram[k, j] * before[j]
            hildreth(gram, worth, count, C, alpha, tolerance)
            for r in range(n):
                mixed[r] = 0.0
            for k in range(count):
                if alpha[k] != before[k]:
                    scatter(cuts, first + k, alpha[k] - before[k], mixed)
            accumulate(data.features, i, mixed, 0, -C, raw)
    return order.shape[0]


@kernel
def products(rows, count, x, out):
    """out[k] ← rows[k]·x for k < count."""
    for k in range(count):
        out[k] = dot(rows[k], x)


@kernel
def mixture(rows, weights, count, out):
    """out ← Σ_{k < count} weights[k]·rows[k]."""
    n = np.uintp(out.shape[0])
    for j in range(n):
        out[j] = 0.0
    for k in range(count):
        w = weights[k]
        if w != 0.0:
            row = rows[k]
            for j in range(n):
                out[j] += w * row[j]


@kernel
def remembering_pass(data, begin, theta, stamp, buffers, kept, cache, losses, direction):
    """losses[i] ← L_i(θ) and direction ← direction + Σ_i F_i u_i from ``begin`` on, each cut taking the oldest slot.

    Returns the instance at which memory ran out, or the end.
    """
    for i in range(begin, losses.shape[0]):
        n = part_count(data.space, i)
        loss, constant = cut_of(data, i, theta, buffers, kept)
        first, room = cache.first[i], cache.first[i + 1] - cache.first[i]
        slot = first
        for other in range(first, first + room):
            if cache.age[other] < cache.age[slot]:
                slot = other
        cache.filled[i] = 0  # every slot may be replaced: only memory can be short
        short = fits(cache, i, buffers.parts, n) < 0
        cache.filled[i] = room
        if short:
            return i
        put(cache, i, slot, buffers.parts, n, constant)
        cache.age[slot] = stamp
        losses[i] = loss
        accumulate(data.features, i, buffers.parts[:n], 0, 1.0, direction)
    return losses.shape[0]


@kernel
def cached_cut(data, theta, kept, mixed, cache, direction):
    """direction ← direction + Σ_i F_i u_i over the best cached cut of every instance, or 0; returns Σ_i b_i."""
    constant = 0.0
    for i in range(cache.filled.shape[0]):
        n = part_count(data.space, i)
        feature_scores(data.features, i, theta, kept, 0)
        top, chosen = 0.0, -1
        for slot in range(cache.first[i], cache.first[i] + cache.filled[i]):
            worth = worth_of(cache, slot, kept)
            if worth > top:
                top, chosen = worth, slot
        if chosen >= 0:
            for r in range(n):
                mixed[r] = 0.0
            scatter(cache, chosen, 1.0, mixed)
            accumulate(data.features, i, mixed[:n], 0, 1.0, direction)
            constant += cache.constant[chosen]
    return constant
