"""Block-coordinate steps over kept cuts: the weights of all of an instance's cuts, not only of the newest.

An instance keeps up to K cuts (u_k, b_k) with weights α_k ≥ 0, Σ_k α_k ≤ 1; the rest of the weight is on the gold
output's cut (0, 0). A visit adds the cut at θ and then maximises the dual over all the weights,

    max_α  Σ_k α_k c_k − C/2 ‖Σ_k α_k F_i u_k‖²,        c_k = b_k + (θ + C F_i u_i)ᵀ F_i u_k,

to a fraction of the block's gap: the fully corrective form of Frank–Wolfe (Lacoste-Julien and Jaggi 2015), for one
block. It has no zigzag, so the gap falls geometrically where Algorithm 4's falls like 1/k. The scalar products of
the F_i u_k are kept as well; beside the oracle a visit costs two products with F_i.

A visit whose kept cuts alone promise enough asks no oracle at all (Osokin et al. 2016, §3.2). When the room is full,
an unused cut gives way, or else the two of least weight become one cut, their mean, which changes nothing in the dual.

Cuts are stored as sparse parts, one after the other in a pool.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._compile import composite, kernel
from partwise.features.base import accumulate, feature_scores, norm_and_clear
from partwise.learners._cut_weights import hildreth, signed_block
from partwise.learners.base import Floats, State
from partwise.learners.blocks import draw, put
from partwise.losses import loss_parts
from partwise.problem import Problem
from partwise.structures.base import part_count

__all__ = ["KeptCuts", "add_up", "corrective_pass", "cut_state", "keep_again", "kept_cuts"]

#: Kept cuts are enough if they promise this share of the gap that the oracle found last, …
SHARE = 0.25
#: … and this share of the mean of all gaps.
FLOOR = 0.01
#: A block is solved to this share of its gap.
ACCURACY = 0.02


class KeptCuts(NamedTuple):
    """K slots per instance; cut k of instance i is pool[start[i, k]:][:size[i, k]]."""

    filled: NDArray[np.int64]  # (m,) slots in use
    start: NDArray[np.int64]  # (m, K)
    size: NDArray[np.int64]  # (m, K)
    constants: Floats  # (m, K) b_k
    weights: Floats  # (m, K) α_k
    gram: Floats  # (m, K, K) scalar products of F_i u_k
    used: NDArray[np.int64]  # (1,) how far the pool is filled
    numbers: NDArray[np.int32]  # pool: part numbers
    values: Floats  # pool: their values


def cut_state(m: int, slots: int) -> State:
    """No cuts yet."""
    return {
        "cut_filled": np.zeros(m, np.int64),
        "cut_start": np.zeros((m, slots), np.int64),
        "cut_size": np.zeros((m, slots), np.int64),
        "cut_constants": np.zeros((m, slots)),
        "cut_weights": np.zeros((m, slots)),
        "cut_gram": np.zeros((m, slots, slots)),
        "cut_used": np.zeros(1, np.int64),
        "cut_numbers": np.zeros(0, np.int32),
        "cut_values": np.zeros(0),
    }


def kept_cuts(problem: Problem, state: State) -> KeptCuts:
    """The cuts of a state, with room in the pool for two more of the largest size."""
    names = ("filled", "start", "size", "constants", "weights", "gram", "used", "numbers", "values")
    cuts = KeptCuts(*(state[f"cut_{name}"] for name in names))
    room = 2 * len(problem.buffers().scores)
    if cuts.used[0] + room > len(cuts.numbers):
        live = np.arange(cuts.start.shape[1]) < cuts.filled[:, None]
        sizes = cuts.size[live]
        stops = np.cumsum(sizes)
        shift = np.repeat(cuts.start[live] - (stops - sizes), sizes)
        places = np.arange(len(shift)) + shift  # what is still in use, in the order of the instances
        numbers, values = cuts.numbers[places], cuts.values[places]
        spare = len(numbers) + 8 * room
        state["cut_numbers"] = np.concatenate([numbers, np.zeros(spare, np.int32)])
        state["cut_values"] = np.concatenate([values, np.zeros(spare)])
        cuts.start[live] = stops - sizes
        cuts.used[0] = len(numbers)
        cuts = cuts._replace(numbers=state["cut_numbers"], values=state["cut_values"])
    return cuts


@composite
def keep(cuts, i, k, parts, n):
    """Slot k of instance i ← the non-zero of parts[:n]."""
    place = cuts.used[0]
    cuts.start[i, k] = place
    for r in range(n):
        if parts[r] != 0.0:
            cuts.numbers[place] = r
            cuts.values[place] = parts[r]
            place += 1
    cuts.size[i, k] = place - cuts.used[0]
    cuts.used[0] = place


@composite
def keep_again(cuts, i, k, parts, n):
    """As ``keep``, in the old place where that is large enough: for a slot that is written often."""
    size = 0
    for r in range(n):
        if parts[r] != 0.0:
            size += 1
    if size > cuts.size[i, k]:
        cuts.start[i, k] = cuts.used[0]
        cuts.used[0] += size
    place = cuts.start[i, k]
    for r in range(n):
        if parts[r] != 0.0:
            cuts.numbers[place] = r
            cuts.values[place] = parts[r]
            place += 1
    cuts.size[i, k] = size


@composite
def times(cuts, i, k, scores):
    """u_k · scores."""
    total = 0.0
    for j in range(cuts.start[i, k], cuts.start[i, k] + cuts.size[i, k]):
        total += cuts.values[j] * scores[cuts.numbers[j]]
    return total


@composite
def add_up(cuts, i, k, weight, parts):
    """parts ← parts + weight·u_k."""
    for j in range(cuts.start[i, k], cuts.start[i, k] + cuts.size[i, k]):
        parts[cuts.numbers[j]] += weight * cuts.values[j]


@kernel
def free_slot(cuts, i, worth, parts, n):
    """A slot for a new cut of instance i: a new one, an unused one, or that of two cuts made one."""
    count, slots = cuts.filled[i], cuts.start.shape[1]
    weights, gram = cuts.weights[i], cuts.gram[i]
    if count < slots:
        cuts.filled[i] = count + 1
        weights[count] = 0.0
        return count
    least, next_least = -1, -1
    for k in range(slots):
        if weights[k] == 0.0 and (least < 0 or weights[least] > 0.0 or worth[k] < worth[least]):
            least = k
        elif weights[k] > 0.0 and (least < 0 or weights[k] < weights[least]):
            least, next_least = k, least
        elif next_least < 0 or weights[k] < weights[next_least]:
            next_least = k
    if weights[least] > 0.0 and slots > 1:
        a, b = least, next_least
        total = weights[a] + weights[b]
        x, y = weights[a] / total, weights[b] / total
        for r in range(n):
            parts[r] = 0.0
        add_up(cuts, i, a, x, parts)
        add_up(cuts, i, b, y, parts)
        keep(cuts, i, b, parts, n)
        cuts.constants[i, b] = x * cuts.constants[i, a] + y * cuts.constants[i, b]
        worth[b] = x * worth[a] + y * worth[b]
        square = x * x * gram[a, a] + 2.0 * x * y * gram[a, b] + y * y * gram[b, b]
        for k in range(slots):
            gram[b, k] = x * gram[a, k] + y * gram[b, k]
            gram[k, b] = gram[b, k]
        gram[b, b] = square
        weights[b] = total
        weights[a] = 0.0
    return least


@kernel
def corrective_pass(
    data, order, draws, tree, C, signed, floor, guide, raw, theta, late, gaps, cuts, buffers, kept, aside, scratch,
    counters,
):  # fmt: skip
    """Visits until the pass is over or the pool is full; returns how many. Arguments as for ``block_pass``."""
    slots = cuts.start.shape[1]
    images, start = np.zeros((0, raw.shape[0])), np.zeros(0)
    if signed is not None:  # None is a type of its own: without signs this is not even compiled
        images, start = np.zeros((slots, raw.shape[0])), np.zeros(raw.shape[0])
    worth, offsets, before = np.zeros(slots), np.zeros(slots), np.zeros(slots)
    for place in range(order.shape[0]):
        i = order[place]
        if tree.shape[0] > 0 and tree[1] > 0.0:
            i = draw(tree, draws[place])
        n = part_count(data.space, i)
        if cuts.used[0] + 2 * n > cuts.numbers.shape[0]:
            return place
        parts, mixed = buffers.parts[:n], buffers.spare[:n]
        weights, gram = cuts.weights[i], cuts.gram[i]
        feature_scores(data.features, i, theta, kept, 0)
        own, best = 0.0, 0.0  # b_i + θᵀF_i u_i of the mixture, and the best of the kept cuts
        for k in range(cuts.filled[i]):
            worth[k] = cuts.constants[i, k] + times(cuts, i, k, kept)
            own += weights[k] * worth[k]
            best = max(best, worth[k])
        gap = best - own
        if gap <= max(SHARE * gaps[i], floor) or guide.shape[0] > 0:
            scores = buffers.scores[:n]
            if guide.shape[0] > 0:
                feature_scores(data.features, i, guide, scores, 0)
            else:
                for r in range(n):
                    scores[r] = kept[r]
            for r in range(n):
                aside[r] = scores[r]
            constant = loss_parts(data.loss, data.space, data.gold, data.cost, i, scores, buffers.work, parts, mixed)
            counters[3] += 1.0
            value = 0.0
            for r in range(n):
                if parts[r] != 0.0:
                    constant -= parts[r] * aside[r]
                    value += parts[r] * kept[r]
            value += constant
            gap = max(value, best) - own
            gaps[i] = max(gap, 0.0)
            if value - best > 1e-12 * (1.0 + abs(value)):  # else it is one of the kept cuts, found once more
                accumulate(data.features, i, parts, 0, 1.0, scratch)
                feature_scores(data.features, i, scratch, buffers.scores, 0)
                norm_and_clear(data.features, i, parts, 0, scratch)
                slot = free_slot(cuts, i, worth, mixed, n)
                keep(cuts, i, slot, parts, n)
                cuts.constants[i, slot] = constant
                worth[slot] = value
                for k in range(cuts.filled[i]):
                    gram[slot, k] = times(cuts, i, k, buffers.scores)
                    gram[k, slot] = gram[slot, k]
        if gap > 0.0:
            count = cuts.filled[i]
            for k in range(count):
                before[k] = weights[k]
            for r in range(n):
                mixed[r] = 0.0
            if signed is not None:
                for k in range(count):
                    add_up(cuts, i, k, 1.0, mixed)
                    accumulate(data.features, i, mixed, 0, 1.0, images[k])
                    for r in range(n):
                        mixed[r] = 0.0
                if late.shape[0] > 0:
                    start[:] = raw
                signed_block(images, cuts.constants[i], count, C, signed, raw, theta, weights, ACCURACY * gap)
                if late.shape[0] > 0:
                    for j in range(late.shape[0]):
                        late[j] += (raw[j] - start[j]) * 0.5 * counters[0] * (counters[0] + 1.0)
            else:
                for k in range(count):
                    offsets[k] = worth[k]
                    for j in range(count):
                        offsets[k] += C * gram[k, j] * weights[j]
                hildreth(gram, offsets, count, C, weights, ACCURACY * gap)
                for k in range(count):
                    if weights[k] != before[k]:
                        add_up(cuts, i, k, weights[k] - before[k], mixed)
                accumulate(data.features, i, mixed, 0, -C, theta)
                if late.shape[0] > 0:
                    accumulate(data.features, i, mixed, 0, -C * 0.5 * counters[0] * (counters[0] + 1.0), late)
            for k in range(count):
                counters[1] += (weights[k] - before[k]) * cuts.constants[i, k]
        if tree.shape[0] > 0:
            put(tree, i, gaps[i])
        counters[0] += 1.0
        counters[2] += counters[0] * counters[1]
    return order.shape[0]
