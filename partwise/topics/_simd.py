"""Vector instructions for the two inner loops of Gibbs sampling, which numba does not vectorise by itself.

``draw_topic`` draws one topic from K unnormalised probabilities; ``draw_lanes`` draws one topic for each
of W independent chains, one chain per vector lane. Both are written twice: in NumPy, which runs when
compilation is switched off and says what the function means, and in LLVM vector code, which compiled
callers get. The two agree up to float32 rounding of the sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from partwise._llvm import INT32, INT64, data, load, splat, store

__all__ = ["BLOCK", "LANES", "draw_lanes", "draw_topic", "prefetch", "score_lanes"]

BLOCK = 16  # topics a vector in draw_topic: tables are padded to a multiple of it
LANES = 8  # chains a vector in draw_lanes: chains are padded to a multiple of it

_FLOAT = ir.FloatType()


def draw_topic(
    weights: np.ndarray,
    table: np.ndarray,
    offset: int,
    beta: float,
    sums: np.ndarray,
    blocks: int,
    uniform: float,
) -> int:
    """Draw k with probability ∝ weights[k]·(table[offset + k] + beta), O(K) with vector instructions.

    weights: (K,) float32; table: (V·K,) float32 flat; sums: scratch (blocks + 1,) float32;
    K = blocks·BLOCK; uniform in [0, 1). Padding must have weight zero. Rounding may return an index past
    the last positive weight: the caller clamps.
    """
    size = blocks * BLOCK
    products = weights[:size] * (table[offset : offset + size] + np.float32(beta))
    total = np.cumsum(products.astype(np.float64))
    return int(np.searchsorted(total, uniform * total[-1], side="right"))


def prefetch(table: np.ndarray, offset: int, lines: int) -> None:
    """Ask for ``lines`` cache lines of a flat float32 table ahead of their use; changes nothing."""


def draw_lanes(
    state: np.ndarray,
    likelihood: np.ndarray,
    offset: int,
    counts: np.ndarray,
    cumulative: np.ndarray,
    n_topics: int,
    lane_blocks: int,
    topics: np.ndarray,
    token: int,
    chosen: np.ndarray,
) -> None:
    """Redraw one token in every lane j: l with probability ∝ likelihood[offset + l·W + j]·counts[l·W + j].

    state: (4·W,) uint32 of the xoshiro128+ generators, one per lane; counts, cumulative: (L·W,) float32;
    topics: (N·W,) int32, the token's old topics at token·W, replaced by the new. chosen: (W,) int32, the
    topics drawn by the *previous* call, which this call adds to the counts in the same pass that takes
    the old ones out (a vector store can be read back at once, scalar stores into a vector can not); −1
    at the start. W = lane_blocks·LANES. O(L·W) with vector instructions.
    """
    width = lane_blocks * LANES
    bits = _xoshiro(state, width)
    shape = (n_topics, width)
    table = counts.reshape(shape)
    rows = np.arange(n_topics)[:, None]
    table += (rows == chosen[:width]).astype(np.float32)
    table -= (rows == topics[token * width : (token + 1) * width]).astype(np.float32)
    products = likelihood[offset : offset + n_topics * width].reshape(shape) * table
    total = np.cumsum(products, axis=0)
    threshold = (bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24) * total[-1]
    chosen[:width] = (total[:-1] <= threshold).sum(axis=0)
    topics[token * width : (token + 1) * width] = chosen[:width]


def score_lanes(
    state: np.ndarray,
    likelihood: np.ndarray,
    offset: int,
    counts: np.ndarray,
    cumulative: np.ndarray,
    n_topics: int,
    lane_blocks: int,
    topics: np.ndarray,
    token: int,
    chosen: np.ndarray,
    table: np.ndarray,
    scores: np.ndarray,
) -> None:
    """``draw_lanes``, and scores[j] += table[offset + l·W + j] for the topic l that lane j drew.

    table: flat float32 of the layout of ``likelihood``; scores: (W,) float32. The value is picked while the topic is
    counted out, by one blend per topic: reading it afterwards would take one load per lane.
    """
    draw_lanes(state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen)
    width = lane_blocks * LANES
    scores[:width] += table[offset : offset + n_topics * width].reshape(n_topics, width)[
        chosen[:width], np.arange(width)
    ]


def _xoshiro(state: np.ndarray, width: int) -> np.ndarray:
    s0, s1, s2, s3 = (state[i * width : (i + 1) * width] for i in range(4))
    result = s0 + s3
    shifted = s1 << np.uint32(9)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3[:] = (s3 << np.uint32(11)) | (s3 >> np.uint32(21))
    return np.asarray(result)


# ------------------------------------------------------------------ the same, in vector instructions


def _vector(element: Any, width: int) -> Any:
    return ir.VectorType(element, width)


def _load(builder: Any, base: Any, index: Any, kind: Any) -> Any:
    return load(builder, base, index, kind, align=4)


def _store(builder: Any, value: Any, base: Any, index: Any) -> None:
    store(builder, value, base, index, align=4)


@intrinsic
def _draw_topic(
    typing: Any, weights: Any, table: Any, offset: Any, beta: Any, sums: Any, blocks: Any, uniform: Any
) -> Any:
    signature = types.intp(weights, table, types.intp, types.float32, sums, types.intp, types.float32)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = _vector(_FLOAT, BLOCK)
        one = ir.Constant(INT64, 1)
        weights, table, sums = (data(context, builder, signature.args[i], args[i]) for i in (0, 1, 4))
        row = builder.gep(table, [args[2]])
        beta = splat(builder, args[3], BLOCK)

        def products(block: Any) -> Any:
            start = builder.mul(block, ir.Constant(INT64, BLOCK))
            prior = builder.fadd(_load(builder, row, start, kind), beta)
            return builder.fmul(_load(builder, weights, start, kind), prior)

        reduce = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_FLOAT, [_FLOAT, kind]), f"llvm.vector.reduce.fadd.v{BLOCK}f32"
        )
        zero = ir.Constant(_FLOAT, 0.0)
        builder.store(zero, sums)
        total = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, args[5]) as loop:  # sums[b + 1] = Σ of the blocks 0..b
            block_sum = builder.call(reduce, [zero, products(loop.index)], fastmath=("reassoc",))
            running = builder.fadd(builder.load(total), block_sum)
            builder.store(running, total)
            builder.store(running, builder.gep(sums, [builder.add(loop.index, one)]))
        threshold = builder.fmul(args[6], builder.load(total))
        # The block is *counted*, not searched for: a branch on a random number is mispredicted.
        block = cgutils.alloca_once_value(builder, ir.Constant(INT64, 0))
        with cgutils.for_range(builder, builder.sub(args[5], one)) as loop:
            end = builder.load(builder.gep(sums, [builder.add(loop.index, one)]))
            passed = builder.fcmp_ordered("<=", end, threshold)
            builder.store(builder.add(builder.load(block), builder.zext(passed, INT64)), block)
        chosen = builder.load(block)
        rest = builder.fsub(threshold, builder.load(builder.gep(sums, [chosen])))
        prefix = products(chosen)
        zeros = ir.Constant(kind, [0.0] * BLOCK)
        step = 1
        while step < BLOCK:  # prefix sums in log2(BLOCK) shifted additions
            places = [BLOCK + j - step if j >= step else j for j in range(BLOCK)]
            mask = ir.Constant(_vector(INT32, BLOCK), places)
            prefix = builder.fadd(prefix, builder.shuffle_vector(zeros, prefix, mask))
            step *= 2
        passed = builder.fcmp_ordered("<=", prefix, splat(builder, rest, BLOCK))
        inside = builder.zext(builder.ctpop(builder.bitcast(passed, ir.IntType(BLOCK))), INT64)
        return builder.add(builder.mul(chosen, ir.Constant(INT64, BLOCK)), inside)

    return signature, codegen


@intrinsic
def _prefetch(typing: Any, table: Any, offset: Any, lines: Any) -> Any:
    signature = types.void(table, types.intp, types.intp)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = builder.gep(data(context, builder, signature.args[0], args[0]), [args[1]])
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, INT32, INT32, INT32])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        options = [ir.Constant(INT32, value) for value in (1, 3, 1)]  # to write, keep, data cache
        with cgutils.for_range(builder, args[2]) as loop:
            floats = builder.mul(loop.index, ir.Constant(INT64, 16))
            builder.call(fetch, [builder.bitcast(builder.gep(start, [floats]), byte), *options])
        return context.get_dummy_value()

    return signature, codegen


def _lanes_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """``draw_lanes``, or with two more arguments ``score_lanes``."""
    floats, ints = _vector(_FLOAT, LANES), _vector(INT32, LANES)
    state, likelihood, counts, cumulative, topics, chosen, *scoring = (
        data(context, builder, signature.args[i], args[i]) for i in (0, 1, 3, 4, 7, 9, *range(10, len(args)))
    )
    likelihood = builder.gep(likelihood, [args[2]])
    lanes = ir.Constant(INT64, LANES)
    width = builder.mul(args[6], lanes)
    topics = builder.gep(topics, [builder.mul(args[8], width)])
    ones, zeros = ir.Constant(floats, [1.0] * LANES), ir.Constant(floats, [0.0] * LANES)

    def constant(value: int) -> Any:
        return ir.Constant(ints, [value] * LANES)

    with cgutils.for_range(builder, args[6]) as loop:
        first = builder.mul(loop.index, lanes)
        places = [builder.add(first, builder.mul(width, ir.Constant(INT64, i))) for i in range(4)]
        s0, s1, s2, s3 = (_load(builder, state, place, ints) for place in places)
        bits = builder.add(s0, s3)
        shifted = builder.shl(s1, constant(9))
        s2, s3 = builder.xor(s2, s0), builder.xor(s3, s1)
        s1, s0 = builder.xor(s1, s2), builder.xor(s0, s3)
        s2 = builder.xor(s2, shifted)
        s3 = builder.or_(builder.shl(s3, constant(11)), builder.lshr(s3, constant(21)))
        for value, place in zip((s0, s1, s2, s3), places, strict=True):
            _store(builder, value, state, place)
        uniform = builder.fmul(
            builder.sitofp(builder.lshr(bits, constant(8)), floats),
            ir.Constant(floats, [2.0**-24] * LANES),
        )
        old, pending = _load(builder, topics, first, ints), _load(builder, chosen, first, ints)
        total = cgutils.alloca_once_value(builder, zeros)
        with cgutils.for_range(builder, args[5]) as topic:  # cumulative[l] = Σ_{l' ≤ l} p[l']
            place = builder.add(first, builder.mul(topic.index, width))
            here = splat(builder, builder.trunc(topic.index, INT32), LANES)
            added = builder.select(builder.icmp_signed("==", pending, here), ones, zeros)
            taken = builder.select(builder.icmp_signed("==", old, here), ones, zeros)
            count = builder.fadd(_load(builder, counts, place, floats), builder.fsub(added, taken))
            _store(builder, count, counts, place)
            product = builder.fmul(_load(builder, likelihood, place, floats), count)
            running = builder.fadd(builder.load(total), product)
            builder.store(running, total)
            _store(builder, running, cumulative, place)
        threshold = builder.fmul(uniform, builder.load(total))
        index = cgutils.alloca_once_value(builder, constant(0))
        if scoring:
            table, scores = builder.gep(scoring[0], [args[2]]), scoring[1]
            score = cgutils.alloca_once_value(builder, _load(builder, table, first, floats))
        last = builder.sub(args[5], ir.Constant(INT64, 1))
        with cgutils.for_range(builder, last) as topic:  # l = how many cumulative sums are passed
            place = builder.add(first, builder.mul(topic.index, width))
            passed = builder.fcmp_ordered("<=", _load(builder, cumulative, place, floats), threshold)
            builder.store(builder.sub(builder.load(index), builder.sext(passed, ints)), index)
            if scoring:
                following = _load(builder, table, builder.add(place, width), floats)
                builder.store(builder.select(passed, following, builder.load(score)), score)
        _store(builder, builder.load(index), chosen, first)
        _store(builder, builder.load(index), topics, first)
        if scoring:
            _store(builder, builder.fadd(_load(builder, scores, first, floats), builder.load(score)), scores, first)
    return context.get_dummy_value()


@intrinsic
def _draw_lanes(
    typing: Any,
    state: Any,
    likelihood: Any,
    offset: Any,
    counts: Any,
    cumulative: Any,
    n_topics: Any,
    lane_blocks: Any,
    topics: Any,
    token: Any,
    chosen: Any,
) -> Any:
    integers = (types.intp, types.intp)
    signature = types.void(state, likelihood, types.intp, counts, cumulative, *integers, topics, types.intp, chosen)
    return signature, _lanes_code


@intrinsic
def _score_lanes(
    typing: Any,
    state: Any,
    likelihood: Any,
    offset: Any,
    counts: Any,
    cumulative: Any,
    n_topics: Any,
    lane_blocks: Any,
    topics: Any,
    token: Any,
    chosen: Any,
    table: Any,
    scores: Any,
) -> Any:
    integers = (types.intp, types.intp)
    common = (state, likelihood, types.intp, counts, cumulative, *integers, topics, types.intp, chosen)
    return types.void(*common, table, scores), _lanes_code


# numba compares the signatures of an overload and of its implementation, annotations included: none here.
# Inlined always: as a function of its own, each would be in the program twice, optimised in two ways, and which of the
# two runs would depend on whether the caller was compiled just now or read from the cache. Their last bits differ.


@overload(draw_topic, inline="always")
def _choose_draw_topic(weights, table, offset, beta, sums, blocks, uniform):
    def call(weights, table, offset, beta, sums, blocks, uniform):
        return _draw_topic(weights, table, offset, beta, sums, blocks, uniform)

    return call


@overload(prefetch, inline="always")
def _choose_prefetch(table, offset, lines):
    def call(table, offset, lines):
        _prefetch(table, offset, lines)

    return call


@overload(draw_lanes, inline="always")
def _choose_draw_lanes(state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen):
    def call(state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen):
        _draw_lanes(state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen)

    return call


@overload(score_lanes, inline="always")
def _choose_score_lanes(
    state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen, table, scores
):
    def call(
        state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen, table, scores
    ):
        _score_lanes(
            state, likelihood, offset, counts, cumulative, n_topics, lane_blocks, topics, token, chosen, table, scores
        )

    return call
