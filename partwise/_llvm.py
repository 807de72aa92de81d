"""Small pieces of LLVM code for intrinsics: data of arrays, vectors loaded, stored and filled with one value."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

__all__ = ["INT32", "INT64", "data", "load", "splat", "store"]

INT32, INT64 = ir.IntType(32), ir.IntType(64)


def data(context: Any, builder: Any, array_type: Any, array: Any) -> Any:
    """Pointer to the first element of an array."""
    return context.make_array(array_type)(context, builder, array).data


def splat(builder: Any, value: Any, width: int) -> Any:
    """A vector of that many equal elements."""
    empty = ir.Constant(ir.VectorType(value.type, width), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(INT32, 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(INT32, width), [0] * width))


def _pointer(builder: Any, base: Any, index: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(base, [index]), kind.as_pointer())


def load(builder: Any, base: Any, index: Any, kind: Any, align: int) -> Any:
    """The vector that begins at base[index]; ``align`` is the size of an element."""
    return builder.load(_pointer(builder, base, index, kind), align=align)


def store(builder: Any, value: Any, base: Any, index: Any, align: int) -> None:
    """Write a vector to base[index] and the elements after it."""
    builder.store(value, _pointer(builder, base, index, value.type), align=align)
