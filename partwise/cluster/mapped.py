"""Arrays that live in files without a name: pages that the system may drop, and nothing to clean up."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import StorageError

__all__ = ["to_disk"]

#: Smaller arrays are no memory to speak of.
SMALLEST = 1 << 16


def to_disk(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, mapped from a file that goes with the last use of the array."""
    if array.nbytes < SMALLEST:
        return array
    try:
        with tempfile.TemporaryFile(prefix="partwise-") as file:
            array.tofile(file)
            file.flush()
            mapped = np.memmap(file, array.dtype, "c", shape=array.shape)
    except OSError as error:
        where = tempfile.gettempdir()
        raise StorageError(
            f"{where}: cannot be written: {error.strerror or error}; set TMPDIR to a larger disk"
        ) from None
    return mapped.view(np.ndarray)
