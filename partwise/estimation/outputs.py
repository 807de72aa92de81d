"""Lists of structured outputs, as estimators return them and as scikit-learn and pandas hand them over."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError

__all__ = ["Outputs", "as_instances", "as_list"]

Output = TypeVar("Output")


class Outputs(list[Output]):
    """A list with one output per instance, which NumPy converts to an array of that many objects.

    Outputs differ in size, and NumPy cannot make an array of a plain list of them; ``cross_val_predict``, which joins
    the predictions of its folds with NumPy, needs one.

    Examples
    --------
    >>> np.concatenate([Outputs([["B", "I"]]), Outputs([["O"]])]).tolist()
    [['B', 'I'], ['O']]
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != object:
            return np.asarray(list(self), dtype)
        array = np.empty(len(self), object)
        for i, output in enumerate(self):
            array[i] = output
        return array


def as_list(values: Any, what: str = "y") -> Any:
    """The values of a pandas Series, or of a DataFrame of one column, in their order; all else as it is.

    The index of a Series is ignored: ``values[i]`` would look i up in it.
    """
    if not hasattr(values, "iloc"):
        return values if what == "y" else _several(values, what)
    if not hasattr(values, "columns"):
        return values.tolist()
    if values.shape[1] != 1:
        raise InputError(f"{what} is a DataFrame of {values.shape[1]} columns; expected a Series, or one column")
    return values.iloc[:, 0].tolist()


def as_instances(X: Any) -> Any:
    """The values of a pandas Series, or the rows of a DataFrame as tuples, in their order; all else as it is."""
    if not hasattr(X, "iloc"):
        return _several(X, "X")
    return list(X.itertuples(index=False, name=None)) if hasattr(X, "columns") else X.tolist()


def _several(values: Any, what: str) -> Any:
    """The values, unless they are a single thing where a sequence of instances is expected."""
    if not hasattr(values, "__iter__"):
        kind = type(values).__name__
        raise InputError(f"{what} is of type {kind}; expected a sequence of instances (a single one goes into a list)")
    return values
