"""Vector instructions for products of a vector with the rows of a matrix, the inner loops of chains.

The compiler vectorises such a loop by itself, but loses time on what is left over when the rows are not a multiple of
the vectors (22 labels are two vectors of eight and six numbers one by one), and on writing down after every few rows
what could stay in registers. Here a tile of ``TILE`` columns stays in registers over all rows, and the last tile
overlaps the one before it. Every function is written twice: in Python, which runs when compilation is switched off and
says what is meant, and in LLVM vector code, which compiled callers get. They need at least ``TILE`` columns.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from partwise._llvm import INT32, INT64, data, load, splat, store

__all__ = ["TILE", "tiled_add", "tiled_dot", "tiled_max", "tiled_sum"]

TILE = 8

_VECTOR = ir.VectorType(ir.DoubleType(), TILE)
_FAST = ("reassoc", "contract", "nsz")


def tiled_sum(y, at, a, start, stride, matrix, first, step, rows, n):
    """y[at + b] = Σ_j a[start + j·stride]·matrix[first + j·step + b] for b < n, j < rows."""
    for b in range(n):
        y[at + b] = 0.0
    tiled_add(y, at, a, start, stride, matrix, first, step, rows, n)


def tiled_add(y, at, a, start, stride, matrix, first, step, rows, n):
    """y[at + b] += Σ_j a[start + j·stride]·matrix[first + j·step + b] for b < n, j < rows."""
    for b in range(n):
        y[at + b] += sum(a[start + j * stride] * matrix[first + j * step + b] for j in range(rows))


def tiled_max(y, at, a, start, stride, matrix, first, step, rows, n):
    """y[at + b] = max_j a[start + j·stride] + matrix[first + j·step + b] for b < n, j < rows."""
    for b in range(n):
        y[at + b] = max(a[start + j * stride] + matrix[first + j * step + b] for j in range(rows))


def tiled_dot(y, at, stride, x, start, matrix, first, step, rows, n):
    """y[at + j·stride] = Σ_b matrix[first + j·step + b]·x[start + b] for b < n, j < rows."""
    for j in range(rows):
        y[at + j * stride] = sum(matrix[first + j * step + b] * x[start + b] for b in range(n))


# ------------------------------------------------------------------ the same, in vector instructions


def _splat(builder: Any, value: Any) -> Any:
    return splat(builder, value, TILE)


def _load(builder: Any, base: Any, index: Any) -> Any:
    return load(builder, base, index, _VECTOR, align=8)


def _tiled(kind: str) -> Any:
    """Code of one of the functions above."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        y, a, matrix = (data(context, builder, signature.args[place], args[place]) for place in (0, 2, 5))
        at, start, stride, first, step, rows, n = (args[place] for place in (1, 3, 4, 6, 7, 8, 9))
        size = ir.Constant(INT64, TILE)
        lanes = ir.Constant(ir.VectorType(INT64, TILE), list(range(TILE)))
        lowest = ir.Constant(_VECTOR, [float("-inf") if kind == "max" else 0.0] * TILE)
        held = cgutils.alloca_once(builder, _VECTOR)
        last = builder.sub(n, size)
        tiles = builder.udiv(builder.add(n, ir.Constant(INT64, TILE - 1)), size)
        with cgutils.for_range(builder, tiles) as tile:
            wanted = builder.mul(tile.index, size)
            column = builder.select(builder.icmp_unsigned(">", wanted, last), last, wanted)
            builder.store(lowest, held)
            with cgutils.for_range(builder, rows) as row:
                factor = builder.load(builder.gep(a, [builder.add(start, builder.mul(row.index, stride))]))
                place = builder.add(builder.add(first, builder.mul(row.index, step)), column)
                values, known = _load(builder, matrix, place), builder.load(held)
                if kind == "max":
                    found = builder.fadd(_splat(builder, factor), values, flags=_FAST)
                    known = builder.select(builder.fcmp_ordered(">", found, known), found, known)
                else:
                    known = builder.fadd(known, builder.fmul(_splat(builder, factor), values, flags=_FAST), flags=_FAST)
                builder.store(known, held)
            result, target = builder.load(held), builder.add(at, column)
            if kind == "add":  # columns that the tile before has done already get nothing more
                new = builder.icmp_unsigned(">=", lanes, _splat(builder, builder.sub(wanted, column)))
                result = builder.select(new, result, lowest)
                result = builder.fadd(_load(builder, y, target), result, flags=_FAST)
            store(builder, result, y, target, align=8)
        return context.get_dummy_value()

    return code


def _dot_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Code of ``tiled_dot``."""

    y, x, matrix = (data(context, builder, signature.args[place], args[place]) for place in (0, 3, 5))
    at, stride, start, first, step, rows, n = (args[place] for place in (1, 2, 4, 6, 7, 8, 9))
    size = ir.Constant(INT64, TILE)
    nothing = ir.Constant(_VECTOR, [0.0] * TILE)
    held = cgutils.alloca_once(builder, _VECTOR)
    whole, rest = builder.udiv(n, size), builder.urem(n, size)
    # the last tile overlaps the one before it: there x counts as 0
    last = builder.sub(n, size)
    lanes = ir.Constant(ir.VectorType(INT64, TILE), list(range(TILE)))
    new = builder.icmp_unsigned(">=", lanes, _splat(builder, builder.sub(size, rest)))
    tail = builder.select(new, _load(builder, x, builder.add(start, last)), nothing)
    with cgutils.for_range(builder, rows) as row:
        place = builder.add(first, builder.mul(row.index, step))

        def product(column: Any, factors: Any) -> Any:
            values = _load(builder, matrix, builder.add(place, column))
            return builder.fmul(values, factors, flags=_FAST)

        builder.store(product(last, tail), held)
        with cgutils.for_range(builder, whole) as tile:
            column = builder.mul(tile.index, size)
            factors = _load(builder, x, builder.add(start, column))
            builder.store(builder.fadd(builder.load(held), product(column, factors), flags=_FAST), held)
        total, width = builder.load(held), TILE
        while width > 1:
            width //= 2
            halves = [ir.Constant(ir.VectorType(INT32, width), list(range(k, k + width))) for k in (0, width)]
            low, high = (builder.shuffle_vector(total, total, half) for half in halves)
            total = builder.fadd(low, high, flags=_FAST)
        result = builder.extract_element(total, ir.Constant(INT32, 0))
        builder.store(result, builder.gep(y, [builder.add(at, builder.mul(row.index, stride))]))
    return context.get_dummy_value()


@intrinsic
def _dot(typing: Any, y: Any, at: Any, stride: Any, x: Any, start: Any, matrix: Any, first: Any, step: Any,
         rows: Any, n: Any) -> Any:  # fmt: skip
    place = types.uintp
    return types.void(y, place, place, x, place, matrix, place, place, place, place), _dot_code


def _intrinsic(kind: str) -> Any:
    code = _tiled(kind)

    @intrinsic
    def call(typing: Any, y: Any, at: Any, a: Any, start: Any, stride: Any, matrix: Any, first: Any, step: Any,
             rows: Any, n: Any) -> Any:  # fmt: skip
        place = types.uintp
        return types.void(y, place, a, place, place, matrix, place, place, place, place), code

    return call


# numba compares the signatures of an overload and of its implementation, annotations included: none here.


def _give(function: Any, kind: str) -> None:
    """Let compiled callers of a function have its vector code."""
    vector_code = _intrinsic(kind)

    @overload(function, inline="always")
    def choose(y, at, a, start, stride, matrix, first, step, rows, n):
        def call(y, at, a, start, stride, matrix, first, step, rows, n):
            return vector_code(y, at, a, start, stride, matrix, first, step, rows, n)

        return call


_give(tiled_sum, "sum")
_give(tiled_add, "add")
_give(tiled_max, "max")


@overload(tiled_dot, inline="always")
def _choose_dot(y, at, stride, x, start, matrix, first, step, rows, n):
    def call(y, at, stride, x, start, matrix, first, step, rows, n):
        return _dot(y, at, stride, x, start, matrix, first, step, rows, n)

    return call
