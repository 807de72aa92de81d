"""The model file: what goes in comes out, and what could not come out is refused."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import example, forge_arrays, same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from partwise._version import __version__
from partwise.exceptions import ParameterError, StorageError
from partwise.storage import FORMAT_VERSION, Checkpoint, check_writable, describe, load, save
from partwise.storage.layout import Array

anything = st.text(st.characters(exclude_categories=()), max_size=8)  # lone surrogates too
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | anything
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)
dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
)
arrays_ = hnp.arrays(dtypes, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))


@settings(max_examples=150, deadline=None)
@given(anything.filter(bool), st.dictionaries(anything, trees, max_size=4), st.dictionaries(anything, arrays_))
def test_round_trip(kind: str, header: dict[str, Any], arrays: dict[str, Array]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m")
        save(path, kind, header, arrays)
        for mmap in (False, True):
            stored = load(path, kind, mmap=mmap, verify=True)
            assert (stored.kind, stored.header, list(stored.arrays)) == (kind, header, list(arrays))
            for key, array in arrays.items():
                assert same_bits(array, stored.arrays[key])
                assert stored.arrays[key].flags.writeable is not mmap or not array.size
                assert stored.arrays[key].flags.aligned and stored.arrays[key].flags.c_contiguous
        described = describe(path)
        assert (described.kind, described.header) == (kind, header)
        assert described.size == os.path.getsize(path) and described.format_version == FORMAT_VERSION
        for key, array in arrays.items():
            info = described.arrays[key]
            assert (info.dtype, info.shape, info.nbytes) == (array.dtype.name, array.shape, array.nbytes)
            assert info.offset % 64 == 0


def test_layouts_of_memory_and_large_arrays(tmp_path: Path) -> None:
    base, large = np.arange(24, dtype=">i4").reshape(2, 3, 4), np.random.default_rng(0).random(300_001)
    arrays = {
        "fortran": np.asfortranarray(base),
        "transposed": base.T,
        "strided": base[:, ::2, ::-1],
        "broadcast": np.broadcast_to(base, (2, 2, 3, 4)),
        "large": large,
        "after it": large[:7],
    }
    save(tmp_path / "m", "model", {}, arrays)
    for mmap in (False, True):
        for key, array in load(tmp_path / "m", mmap=mmap, verify=True).arrays.items():
            assert same_bits(arrays[key], array)


def test_not_a_number_and_infinities_in_the_header(tmp_path: Path) -> None:
    save(tmp_path / "m", "model", {"nan": math.nan, "inf": -math.inf, "zero": -0.0, "t": (1, (2,))}, {})
    header = load(tmp_path / "m").header
    assert math.isnan(header["nan"]) and header["inf"] == -math.inf and header["t"] == [1, [2]]
    assert math.copysign(1, header["zero"]) == -1


def test_deepest_header(tmp_path: Path) -> None:
    def nest(depth: int) -> dict[str, Any]:
        return {"a": nest(depth - 1)} if depth else {}

    save(tmp_path / "m", "model", nest(64), {})
    assert load(tmp_path / "m").header == nest(64)
    with pytest.raises(ParameterError, match="nested at most 64 deep"):
        save(tmp_path / "m", "model", nest(65), {})
    (tmp_path / "m").write_bytes(forge_arrays(header=nest(65)))
    with pytest.raises(StorageError, match="nested more than 64 deep"):
        load(tmp_path / "m")


def test_same_content_same_bytes_and_the_version_of_the_package(tmp_path: Path) -> None:
    assert example(tmp_path / "a") == example(tmp_path / "b")
    assert load(tmp_path / "a").version == describe(tmp_path / "a").version == __version__


def test_mmap_is_a_read_only_view_of_the_file(tmp_path: Path) -> None:
    content = example(tmp_path / "m")
    stored = load(tmp_path / "m", mmap=True)
    for key, array in stored.arrays.items():
        assert not array.flags.writeable and type(array) is np.ndarray
        bases = [array]
        while isinstance(bases[-1].base, np.ndarray):
            bases.append(bases[-1].base)
        assert any(isinstance(base, np.memmap) for base in bases)
        assert array.ctypes.data % 64 == 0
        info = describe(tmp_path / "m").arrays[key]
        assert array.tobytes() == content[info.offset : info.offset + info.nbytes]
    with pytest.raises(ValueError, match="read-only"):
        stored.arrays["weights"][0, 0] = 1
    # Replacing the file does not touch what is mapped.
    save(tmp_path / "m", "model", {}, {"weights": np.zeros((2, 5))})
    assert stored.arrays["weights"][1, 4] == 9.0


@pytest.mark.parametrize(
    ("options", "notices"),
    [
        ({}, True),
        ({"verify": True}, True),
        ({"mmap": True, "verify": True}, True),
        ({"verify": False}, False),
        ({"mmap": True}, False),
        ({"mmap": True, "verify": False}, False),
    ],
)
def test_what_is_verified(tmp_path: Path, options: dict[str, Any], notices: bool) -> None:
    content = bytearray(example(tmp_path / "m"))
    content[describe(tmp_path / "m").arrays["weights"].offset] ^= 1
    (tmp_path / "m").write_bytes(content)
    if notices:
        with pytest.raises(StorageError, match="m: damaged: the checksum of array 'weights' does not match"):
            load(tmp_path / "m", **options)
    else:
        assert load(tmp_path / "m", **options).arrays["weights"].shape == (2, 5)


CYCLIC: dict[str, Any] = {}
CYCLIC["a"] = CYCLIC


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({1: "a"}, {}, "strings as keys"),
        ({"a": {None: 1}}, {}, r"header\['a'\].*strings as keys"),
        ({"a": [0, {"b": {1}}]}, {}, r"header\['a'\]\[1\]\['b'\].*None, bool"),
        ({"a": np.int64(1)}, {}, r"header\['a'\].*None, bool"),
        ({"a": np.zeros(1)}, {}, r"header\['a'\].*None, bool"),
        ({"a": 10**5000}, {}, "JSON-able"),
        ({"a": "x" * (1 << 24)}, {}, "large data belong in arrays"),
        (CYCLIC, {}, "nested"),
        ({}, {1: np.zeros(1)}, "strings as keys"),
        ({}, {"w": [1.0]}, r"arrays\['w'\].*a numpy array"),
        ({}, {"w": np.float64(1)}, r"arrays\['w'\].*a numpy array"),
        ({}, {"w": np.ma.array([1.0], mask=[True])}, "without mask"),
        ({}, {"w": np.array([None])}, r"arrays\['w'\].*dtypes.*object"),
        ({}, {"w": np.array(["a"])}, "dtypes"),
        ({}, {"w": np.zeros(1, np.longdouble)}, "dtypes"),
        ({}, {"w": np.zeros(1, "M8[s]")}, "dtypes"),
        ({}, {"w": np.zeros(1, [("a", "f8")])}, "dtypes"),
        ({}, {"w": np.zeros((1,) * 33)}, "at most 32 dimensions"),
    ],
)
def test_contents_that_cannot_be_stored(tmp_path: Path, header: Any, arrays: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        save(tmp_path / "m", "model", header, arrays)
    assert os.listdir(tmp_path) == []


def test_kinds(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="kind"):
        save(tmp_path / "m", "", {}, {})
    example(tmp_path / "m")
    with pytest.raises(StorageError, match="m: expected kind 'topics', got kind 'model'"):
        load(tmp_path / "m", "topics")


@pytest.mark.parametrize("name", ["a\0b", "", 3, None])
@pytest.mark.parametrize(
    "action", [lambda path: save(path, "model", {}, {}), load, describe, check_writable, Checkpoint]
)
def test_names_that_are_none(action: Any, name: Any) -> None:
    with pytest.raises(ParameterError, match="a file name"):
        action(name)
