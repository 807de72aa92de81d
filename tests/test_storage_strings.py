"""Strings as arrays: there and back, and arrays that are no strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import same_bits
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from partwise.exceptions import ParameterError, StorageError
from partwise.storage import pack_strings, unpack_strings
from partwise.storage.layout import Array


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=8)))
def test_round_trip(strings: list[str]) -> None:
    data, offsets = pack_strings(strings)
    assert (data.dtype, offsets.dtype) == (np.uint8, np.int64)
    assert unpack_strings(data, offsets) == strings


@given(
    hnp.arrays(np.uint8, st.integers(0, 12)),
    hnp.arrays(np.int64, st.integers(0, 5), elements=st.integers(-3, 14)),
)
def test_unpack_refuses_or_repeats(data: Array, offsets: Array) -> None:
    try:
        strings = unpack_strings(data, offsets)
    except StorageError:
        return
    again = pack_strings(strings)
    assert same_bits(data, again[0]) and same_bits(offsets, again[1])


TWO = np.zeros(2, np.uint8)


@pytest.mark.parametrize(
    ("data", "offsets", "message"),
    [
        (np.zeros(2), np.array([0, 2]), "uint8 and int64"),
        (TWO, np.zeros((1, 1), np.int64), "uint8 and int64"),
        (TWO, np.array([], np.int64), "ascend"),
        (TWO, np.array([1, 2]), "ascend"),
        (TWO, np.array([0, 3, 2]), "ascend"),
        (TWO, np.array([0, 1]), "ascend"),
        (np.array([0xFF], np.uint8), np.array([0, 1]), "not UTF-8"),
        (np.array([0xC3, 0xA9], np.uint8), np.array([0, 1, 2]), "inside a character"),
    ],
)
def test_unpack_refuses(data: Array, offsets: Array, message: str) -> None:
    with pytest.raises(StorageError, match=message):
        unpack_strings(data, offsets)


@pytest.mark.parametrize("strings", ["abc", "", ["a", 1], [b"a"], [None]])
def test_pack_refuses(strings: Any) -> None:
    with pytest.raises(ParameterError, match="a list of strings"):
        pack_strings(strings)
