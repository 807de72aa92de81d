"""A vector type of eight numbers, for kernels whose loops contain branches.

In Python a vector is an array of ``LANES`` numbers, and the functions below say what is meant; compiled callers get
LLVM vectors, which stay in registers. A vector is read from and written to a row of a two-dimensional array with
``LANES`` columns, contiguous. Vectors add, subtract, multiply and divide with one another.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, overload, register_model

from partwise._llvm import INT32, INT64, data, load, splat, store

__all__ = [
    "LANES",
    "add_lanes",
    "exp_lanes",
    "fill_lanes",
    "load_lanes",
    "log_lanes",
    "max_lanes",
    "min_lanes",
    "pick_lanes",
    "store_lanes",
    "sum_lanes",
    "take_lanes",
    "top_lanes",
]

LANES = 8

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(INT64, LANES)
_FAST = ("reassoc", "contract", "nsz")


def fill_lanes(value):
    """The same number in every lane."""
    return np.full(LANES, float(value))


def load_lanes(array, row):
    """array[row]."""
    return array[row].copy()


def store_lanes(array, row, vector):
    """array[row] ← vector."""
    array[row] = vector


def take_lanes(array, index, row):
    """array[index[row, k]] in lane k; indices are not negative."""
    return array[index[row]]


def add_lanes(array, index, row, vector):
    """array[index[row, k]] += vector[k], lane by lane: an index may occur twice."""
    np.add.at(array, index[row], vector)


def max_lanes(a, b):
    """The larger of two, lane by lane."""
    return np.maximum(a, b)


def min_lanes(a, b):
    """The smaller of two, lane by lane."""
    return np.minimum(a, b)


def pick_lanes(a, b, yes, no):
    """``yes`` where a > b, ``no`` elsewhere, lane by lane."""
    return np.where(a > b, yes, no)


def sum_lanes(a):
    """The sum over the lanes."""
    return a.sum()


def top_lanes(a):
    """The largest of the lanes."""
    return a.max()


def exp_lanes(a):
    """e^a for a ≤ 700, to about 1e-10 of itself; 0, or about 1e-304, for a below −700."""
    return np.exp(np.maximum(a, -700.0))


def log_lanes(a):
    """log a for positive normal numbers, to about 1e-10."""
    return np.log(a)


# ------------------------------------------------------------------ the same, in vector instructions


class _LanesType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="PartwiseLanes")


_lanes = _LanesType()


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _place(builder: Any, row: Any) -> Any:
    return builder.mul(row, ir.Constant(INT64, LANES))


def _lane(k: int) -> Any:
    return ir.Constant(INT32, k)


def _fill(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return splat(builder, args[0], LANES)


def _load(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return load(builder, data(context, builder, signature.args[0], args[0]), _place(builder, args[1]), _VECTOR, align=8)


def _store(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    store(builder, args[2], data(context, builder, signature.args[0], args[0]), _place(builder, args[1]), align=8)
    return context.get_dummy_value()


def _targets(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Pointers to array[index[row, k]]."""
    array, index = (data(context, builder, signature.args[k], args[k]) for k in (0, 1))
    first = _place(builder, args[2])
    found = []
    for k in range(LANES):
        where = builder.load(builder.gep(index, [builder.add(first, ir.Constant(INT64, k))]))
        found.append(builder.gep(array, [builder.zext(where, INT64)]))
    return found


def _take(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    vector = ir.Constant(_VECTOR, ir.Undefined)
    for k, target in enumerate(_targets(context, builder, signature, args)):
        vector = builder.insert_element(vector, builder.load(target), _lane(k))
    return vector


def _add_to(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    for k, target in enumerate(_targets(context, builder, signature, args)):
        more = builder.extract_element(args[3], _lane(k))
        builder.store(builder.fadd(builder.load(target), more), target)
    return context.get_dummy_value()


def _extreme(sign: str) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(sign, args[0], args[1]), args[0], args[1])

    return code


def _pick(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])


def _sum(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    total, width = args[0], LANES
    while width > 1:
        width //= 2
        halves = [ir.Constant(ir.VectorType(INT32, width), list(range(k, k + width))) for k in (0, width)]
        low, high = (builder.shuffle_vector(total, total, half) for half in halves)
        total = builder.fadd(low, high, flags=_FAST)
    return builder.extract_element(total, _lane(0))


def _top(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    top, width = args[0], LANES
    while width > 1:
        width //= 2
        halves = [ir.Constant(ir.VectorType(INT32, width), list(range(k, k + width))) for k in (0, width)]
        low, high = (builder.shuffle_vector(top, top, half) for half in halves)
        top = builder.select(builder.fcmp_ordered(">", low, high), low, high)
    return builder.extract_element(top, _lane(0))


def _numbers(value: float) -> Any:
    return ir.Constant(_VECTOR, [value] * LANES)


def _integers(value: int) -> Any:
    return ir.Constant(_INTEGERS, [value] * LANES)


def _series(builder: Any, x: Any, coefficients: list[float]) -> Any:
    """Σ_k c_k x^k by Horner's rule."""
    total = _numbers(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = builder.fadd(builder.fmul(total, x, flags=_FAST), _numbers(c), flags=_FAST)
    return total


def _exp(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """2^n e^r with n = round(a/log 2): |r| ≤ ½ log 2, where ten terms of the series do."""
    a = builder.select(builder.fcmp_ordered(">", args[0], _numbers(-700.0)), args[0], _numbers(-700.0))
    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    nearest = cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.v{LANES}f64")
    n = builder.call(nearest, [builder.fmul(a, _numbers(1.0 / math.log(2.0)))])
    r = builder.fsub(a, builder.fmul(n, _numbers(math.log(2.0)), flags=_FAST), flags=_FAST)
    grown = _series(builder, r, [1.0 / math.factorial(k) for k in range(10)])
    shifted = builder.fadd(n, _numbers(1.5 * 2.0**52))  # whose low bits are n's
    power = builder.shl(builder.bitcast(shifted, _INTEGERS), _integers(52))
    return builder.bitcast(builder.add(builder.bitcast(grown, _INTEGERS), power), _VECTOR)


def _log(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """log m + e log 2 with m in [1/√2, √2); log m = 2s(1 + s²/3 + s⁴/5 + …) with s = (m − 1)/(m + 1)."""
    bits = builder.bitcast(args[0], _INTEGERS)
    moved = builder.sub(bits, _integers(0x3FE6A09E667F3BCD))  # of 1/√2
    exponent = builder.ashr(moved, _integers(52))
    m = builder.bitcast(builder.sub(bits, builder.shl(exponent, _integers(52))), _VECTOR)
    s = builder.fdiv(builder.fsub(m, _numbers(1.0)), builder.fadd(m, _numbers(1.0)), flags=_FAST)
    terms = _series(builder, builder.fmul(s, s, flags=_FAST), [2.0 / (2 * k + 1) for k in range(7)])
    e = builder.sitofp(builder.trunc(exponent, ir.VectorType(INT32, LANES)), _VECTOR)
    return builder.fadd(builder.fmul(s, terms, flags=_FAST), builder.fmul(e, _numbers(math.log(2.0))), flags=_FAST)


def _arithmetic(name: str) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, name)(args[0], args[1], flags=_FAST)

    return code


def _is(*kinds: Any) -> bool:
    return all(kind is _lanes or isinstance(kind, _LanesType) for kind in kinds)


# numba compares the signatures of an overload and of its implementation, annotations included: none here.


def _give_pair(function: Any, code: Any) -> None:
    """A function of two vectors."""

    @intrinsic
    def vector_code(typing: Any, a: Any, b: Any) -> Any:
        return _lanes(_lanes, _lanes), code

    @overload(function, inline="always")
    def choose(a, b):
        if _is(a, b):
            return lambda a, b: vector_code(a, b)
        return None


for _operator, _name in ((operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"),
                         (operator.truediv, "fdiv")):  # fmt: skip
    _give_pair(_operator, _arithmetic(_name))
_give_pair(max_lanes, _extreme(">"))
_give_pair(min_lanes, _extreme("<"))


@intrinsic
def _fill_code(typing: Any, value: Any) -> Any:
    return _lanes(types.float64), _fill


@intrinsic
def _load_code(typing: Any, array: Any, row: Any) -> Any:
    return _lanes(array, types.intp), _load


@intrinsic
def _store_code(typing: Any, array: Any, row: Any, vector: Any) -> Any:
    return types.void(array, types.intp, _lanes), _store


@intrinsic
def _take_code(typing: Any, array: Any, index: Any, row: Any) -> Any:
    return _lanes(array, index, types.intp), _take


@intrinsic
def _add_code(typing: Any, array: Any, index: Any, row: Any, vector: Any) -> Any:
    return types.void(array, index, types.intp, _lanes), _add_to


@intrinsic
def _pick_code(typing: Any, a: Any, b: Any, yes: Any, no: Any) -> Any:
    return _lanes(_lanes, _lanes, _lanes, _lanes), _pick


@intrinsic
def _sum_code(typing: Any, a: Any) -> Any:
    return types.float64(_lanes), _sum


@overload(fill_lanes, inline="always")
def _choose_fill(value):
    return lambda value: _fill_code(value)


@overload(load_lanes, inline="always")
def _choose_load(array, row):
    return lambda array, row: _load_code(array, row)


@overload(store_lanes, inline="always")
def _choose_store(array, row, vector):
    return lambda array, row, vector: _store_code(array, row, vector)


@overload(take_lanes, inline="always")
def _choose_take(array, index, row):
    return lambda array, index, row: _take_code(array, index, row)


@overload(add_lanes, inline="always")
def _choose_add(array, index, row, vector):
    return lambda array, index, row, vector: _add_code(array, index, row, vector)


@overload(pick_lanes, inline="always")
def _choose_pick(a, b, yes, no):
    return lambda a, b, yes, no: _pick_code(a, b, yes, no)


@overload(sum_lanes, inline="always")
def _choose_sum(a):
    return lambda a: _sum_code(a)


@intrinsic
def _top_code(typing: Any, a: Any) -> Any:
    return types.float64(_lanes), _top


@intrinsic
def _exp_code(typing: Any, a: Any) -> Any:
    return _lanes(_lanes), _exp


@intrinsic
def _log_code(typing: Any, a: Any) -> Any:
    return _lanes(_lanes), _log


@overload(top_lanes, inline="always")
def _choose_top(a):
    return lambda a: _top_code(a)


@overload(exp_lanes, inline="always")
def _choose_exp(a):
    return lambda a: _exp_code(a)


@overload(log_lanes, inline="always")
def _choose_log(a):
    return lambda a: _log_code(a)
