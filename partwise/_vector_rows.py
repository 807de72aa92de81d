"""Vector instructions for short rows: rows of a table added up or added to, products and extremes of a row.

A row of labels is short and rarely a multiple of the vectors: of 22 labels the compiler's own loops do six one by
one. Here a row is cut into vectors of ``TILE`` numbers and a rest of 4, 2 and 1, or its last vector overlaps the
one before where that changes nothing. As in :mod:`partwise._vectors` every function is written twice: in Python, which
says what is meant, and in LLVM vector code, which compiled callers get.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from partwise._llvm import INT32, INT64, data, load, splat, store
from partwise._vectors import TILE

__all__ = ["add_rows", "add_to_rows", "extent", "multiply_row", "row_size", "weigh_row"]

_DOUBLE = ir.DoubleType()
_FAST = ("reassoc", "contract", "nsz")


def add_rows(y, at, table, base, rows, start, stop, n):
    """y[at + b] = Σ_e table[base + rows[e]·n + b] over start ≤ e < stop, for b < n; n ≥ ``TILE``."""
    for b in range(n):
        y[at + b] = 0.0
        for e in range(start, stop):
            y[at + b] += table[base + rows[e] * n + b]


def add_to_rows(table, base, rows, start, stop, step, x, at, n):
    """table[base + rows[e]·n + b] += step·x[at + b] for start ≤ e < stop, b < n."""
    for e in range(start, stop):
        for b in range(n):
            table[base + rows[e] * n + b] += step * x[at + b]


def multiply_row(y, at, x, start, n):
    """y[at + b] *= x[start + b] for b < n; returns their sum."""
    total = 0.0
    for b in range(n):
        y[at + b] *= x[start + b]
        total += y[at + b]
    return total


def row_size(x, at, n):
    """Σ_b |x[at + b]| over b < n."""
    total = 0.0
    for b in range(n):
        total += abs(x[at + b])
    return total


def weigh_row(parts, label, e, alpha, gain, state, beta, start, inverse, n):
    """parts[label + b] += alpha[state + b]·β and gain[state + b] = e[label + b]·β·inverse, β = beta[start + b], b < n.

    A state that nothing reaches (alpha = 0) may have a beta of any size: it counts as 0, so that 0 is never multiplied
    by infinity.
    """
    for b in range(n):
        x = beta[start + b] if alpha[state + b] > 0.0 else 0.0
        parts[label + b] += alpha[state + b] * x
        gain[state + b] = e[label + b] * x * inverse


def extent(x, start, stop):
    """(max, min of what is not −inf) of x[start:stop], which holds at least ``TILE`` numbers."""
    top, low = -np.inf, np.inf
    for j in range(start, stop):
        top = max(top, x[j])
        low = min(low, x[j] if x[j] > -np.inf else np.inf)
    return top, low


# ------------------------------------------------------------------ the same, in vector instructions


def _vector(width: int) -> Any:
    return ir.VectorType(_DOUBLE, width)


def _load(builder: Any, base: Any, index: Any, width: int) -> Any:
    return load(builder, base, index, _vector(width), align=8)


def _constant(value: float, width: int) -> Any:
    return ir.Constant(_vector(width), [value] * width)


def _pieces(builder: Any, n: Any, body: Callable[[Any, int], None]) -> None:
    """body(offset, width) for vectors that cover 0:n without overlapping."""
    size = ir.Constant(INT64, TILE)
    with cgutils.for_range(builder, builder.udiv(n, size)) as tile:
        body(builder.mul(tile.index, size), TILE)
    width = TILE
    while width > 1:
        width //= 2
        left = builder.and_(n, ir.Constant(INT64, width))
        with builder.if_then(builder.icmp_unsigned("!=", left, ir.Constant(INT64, 0))):
            body(builder.and_(n, ir.Constant(INT64, -2 * width)), width)


def _overlapping(builder: Any, n: Any, body: Callable[[Any], None]) -> None:
    """body(offset) for vectors of ``TILE`` that cover 0:n, the last of which may overlap the one before."""
    size, last = ir.Constant(INT64, TILE), builder.sub(n, ir.Constant(INT64, TILE))
    with cgutils.for_range(builder, builder.udiv(builder.add(n, ir.Constant(INT64, TILE - 1)), size)) as tile:
        wanted = builder.mul(tile.index, size)
        body(builder.select(builder.icmp_unsigned(">", wanted, last), last, wanted))


def _reduced(builder: Any, value: Any, width: int, join: Callable[[Any, Any], Any]) -> Any:
    """All elements of a vector joined, halves first."""
    while width > 1:
        width //= 2
        halves = [ir.Constant(ir.VectorType(INT32, width), list(range(k, k + width))) for k in (0, width)]
        low, high = (builder.shuffle_vector(value, value, half) for half in halves)
        value = join(low, high)
    return builder.extract_element(value, ir.Constant(INT32, 0))


def _row_start(builder: Any, base: Any, rows: Any, entry: Any, n: Any) -> Any:
    number = builder.load(builder.gep(rows, [entry]))
    number = number if number.type == INT64 else builder.zext(number, INT64)
    return builder.add(base, builder.mul(number, n))


def _range(builder: Any, start: Any, stop: Any) -> Any:
    return cgutils.for_range_slice(builder, start, stop, ir.Constant(INT64, 1), INT64)


def _add_rows_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    y, table, rows = (data(context, builder, signature.args[place], args[place]) for place in (0, 2, 4))
    at, base, start, stop, n = (args[place] for place in (1, 3, 5, 6, 7))
    held = cgutils.alloca_once(builder, _vector(TILE))

    def tile(column: Any) -> None:
        builder.store(_constant(0.0, TILE), held)
        with _range(builder, start, stop) as (entry, _):
            place = builder.add(_row_start(builder, base, rows, entry, n), column)
            builder.store(builder.fadd(builder.load(held), _load(builder, table, place, TILE), flags=_FAST), held)
        store(builder, builder.load(held), y, builder.add(at, column), align=8)

    _overlapping(builder, n, tile)
    return context.get_dummy_value()


def _add_to_rows_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    table, rows, x = (data(context, builder, signature.args[place], args[place]) for place in (0, 2, 6))
    base, start, stop, step, at, n = (args[place] for place in (1, 3, 4, 5, 7, 8))

    def piece(column: Any, width: int) -> None:
        factors = _load(builder, x, builder.add(at, column), width)
        added = builder.fmul(factors, splat(builder, step, width), flags=_FAST)
        with _range(builder, start, stop) as (entry, _):
            place = builder.add(_row_start(builder, base, rows, entry, n), column)
            store(builder, builder.fadd(_load(builder, table, place, width), added, flags=_FAST), table, place, align=8)

    _pieces(builder, n, piece)
    return context.get_dummy_value()


def _sum_of_pieces(builder: Any, n: Any, value: Callable[[Any, int], Any]) -> Any:
    """Sum of all elements of value(offset, width) over the vectors that cover 0:n."""
    total, tiles = cgutils.alloca_once(builder, _DOUBLE), cgutils.alloca_once(builder, _vector(TILE))
    builder.store(ir.Constant(_DOUBLE, 0.0), total)
    builder.store(_constant(0.0, TILE), tiles)

    def add(low: Any, high: Any) -> Any:
        return builder.fadd(low, high, flags=_FAST)

    def piece(column: Any, width: int) -> None:
        found = value(column, width)
        if width == TILE:
            builder.store(add(builder.load(tiles), found), tiles)
        else:
            builder.store(add(builder.load(total), _reduced(builder, found, width, add)), total)

    _pieces(builder, n, piece)
    return add(builder.load(total), _reduced(builder, builder.load(tiles), TILE, add))


def _multiply_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    y, x = (data(context, builder, signature.args[place], args[place]) for place in (0, 2))
    at, start, n = (args[place] for place in (1, 3, 4))

    def product(column: Any, width: int) -> Any:
        place = builder.add(at, column)
        factors = _load(builder, x, builder.add(start, column), width)
        found = builder.fmul(_load(builder, y, place, width), factors, flags=_FAST)
        store(builder, found, y, place, align=8)
        return found

    return _sum_of_pieces(builder, n, product)


def _size_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    x = data(context, builder, signature.args[0], args[0])
    at, n = args[1:]

    def size(column: Any, width: int) -> Any:
        values, nothing = _load(builder, x, builder.add(at, column), width), _constant(0.0, width)
        below = builder.fcmp_ordered("<", values, nothing)
        return builder.select(below, builder.fsub(nothing, values), values)

    return _sum_of_pieces(builder, n, size)


def _weigh_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    places = (0, 2, 3, 4, 6)
    parts, e, alpha, gain, beta = (data(context, builder, signature.args[place], args[place]) for place in places)
    label, state, start, inverse, n = (args[place] for place in (1, 5, 7, 8, 9))

    def piece(column: Any, width: int) -> None:
        here, there = builder.add(label, column), builder.add(state, column)
        reach, nothing = _load(builder, alpha, there, width), _constant(0.0, width)
        reached = builder.fcmp_ordered(">", reach, nothing)
        x = builder.select(reached, _load(builder, beta, builder.add(start, column), width), nothing)
        mass = builder.fadd(_load(builder, parts, here, width), builder.fmul(reach, x, flags=_FAST), flags=_FAST)
        store(builder, mass, parts, here, align=8)
        x = builder.fmul(builder.fmul(_load(builder, e, here, width), x), splat(builder, inverse, width))
        store(builder, x, gain, there, align=8)

    _pieces(builder, n, piece)
    return context.get_dummy_value()


def _extent_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    x = data(context, builder, signature.args[0], args[0])
    start, stop = args[1:]
    lowest, highest = _constant(-np.inf, TILE), _constant(np.inf, TILE)
    top, low = (cgutils.alloca_once_value(builder, value) for value in (lowest, highest))

    def larger(a: Any, b: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    def smaller(a: Any, b: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", a, b), a, b)

    def tile(column: Any) -> None:
        values = _load(builder, x, builder.add(start, column), TILE)
        builder.store(larger(values, builder.load(top)), top)
        finite = builder.select(builder.fcmp_ordered(">", values, lowest), values, highest)
        builder.store(smaller(finite, builder.load(low)), low)

    _overlapping(builder, builder.sub(stop, start), tile)
    found = [_reduced(builder, builder.load(top), TILE, larger), _reduced(builder, builder.load(low), TILE, smaller)]
    return context.make_tuple(builder, signature.return_type, found)


_PLACE = types.uintp


@intrinsic
def _add_rows(typing: Any, y: Any, at: Any, table: Any, base: Any, rows: Any, start: Any, stop: Any, n: Any) -> Any:
    return types.void(y, _PLACE, table, _PLACE, rows, _PLACE, _PLACE, _PLACE), _add_rows_code


@intrinsic
def _add_to_rows(typing: Any, table: Any, base: Any, rows: Any, start: Any, stop: Any, step: Any, x: Any, at: Any,
                 n: Any) -> Any:  # fmt: skip
    places = (_PLACE, rows, _PLACE, _PLACE, types.float64, x, _PLACE, _PLACE)
    return types.void(table, *places), _add_to_rows_code


@intrinsic
def _multiply_row(typing: Any, y: Any, at: Any, x: Any, start: Any, n: Any) -> Any:
    return types.float64(y, _PLACE, x, _PLACE, _PLACE), _multiply_code


@intrinsic
def _row_size(typing: Any, x: Any, at: Any, n: Any) -> Any:
    return types.float64(x, _PLACE, _PLACE), _size_code


@intrinsic
def _weigh_row(typing: Any, parts: Any, label: Any, e: Any, alpha: Any, gain: Any, state: Any, beta: Any, start: Any,
               inverse: Any, n: Any) -> Any:  # fmt: skip
    return types.void(parts, _PLACE, e, alpha, gain, _PLACE, beta, _PLACE, types.float64, _PLACE), _weigh_code


@intrinsic
def _extent(typing: Any, x: Any, start: Any, stop: Any) -> Any:
    return types.UniTuple(types.float64, 2)(x, _PLACE, _PLACE), _extent_code


def _contiguous(*arrays: Any) -> bool:
    """Whether vectors can be loaded from all: double precision, one element after the other."""
    return all(array.layout == "C" and array.dtype == types.float64 for array in arrays)


# numba compares the signatures of an overload and of its implementation, annotations included: none here. Arrays that
# vectors cannot be loaded from get the code in Python, compiled.


@overload(add_rows, inline="always")
def _choose_add_rows(y, at, table, base, rows, start, stop, n):
    if not _contiguous(y, table):
        return add_rows

    def call(y, at, table, base, rows, start, stop, n):
        _add_rows(y, at, table, base, rows, start, stop, n)

    return call


@overload(add_to_rows, inline="always")
def _choose_add_to_rows(table, base, rows, start, stop, step, x, at, n):
    if not _contiguous(table, x):
        return add_to_rows

    def call(table, base, rows, start, stop, step, x, at, n):
        _add_to_rows(table, base, rows, start, stop, step, x, at, n)

    return call


@overload(multiply_row, inline="always")
def _choose_multiply_row(y, at, x, start, n):
    if not _contiguous(y, x):
        return multiply_row

    def call(y, at, x, start, n):
        return _multiply_row(y, at, x, start, n)

    return call


@overload(row_size, inline="always")
def _choose_row_size(x, at, n):
    if not _contiguous(x):
        return row_size

    def call(x, at, n):
        return _row_size(x, at, n)

    return call


@overload(weigh_row, inline="always")
def _choose_weigh_row(parts, label, e, alpha, gain, state, beta, start, inverse, n):
    if not _contiguous(parts, e, alpha, gain, beta):
        return weigh_row

    def call(parts, label, e, alpha, gain, state, beta, start, inverse, n):
        _weigh_row(parts, label, e, alpha, gain, state, beta, start, inverse, n)

    return call


@overload(extent, inline="always")
def _choose_extent(x, start, stop):
    if not _contiguous(x):
        return extent

    def call(x, start, stop):
        return _extent(x, start, stop)

    return call
