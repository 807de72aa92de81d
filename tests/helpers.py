"""What several test files share: where the data is, and model files made by hand."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.storage import pack_strings, save
from partwise.storage.layout import MAGIC, PRELUDE, Array, align, digest_of

DATA = Path(os.environ.get("PARTWISE_DATA", Path(__file__).parents[2] / "shared" / "data"))


def data_file(name: str) -> Path:
    """A file of the benchmark data; without it the test is skipped."""
    if not (DATA / name).exists():
        pytest.skip(f"{name} is not in PARTWISE_DATA ({DATA})")
    return DATA / name


def same_bits(left: Array, right: Array) -> bool:
    native = left.astype(left.dtype.newbyteorder("="))
    return native.dtype == right.dtype and left.shape == right.shape and native.tobytes() == right.tobytes()


def example(path: Path) -> bytes:
    """Save a small model file with several arrays, one of them empty, and a string table."""
    data, offsets = pack_strings(["das", "Äpfel", "", "漢字", "x" * 20])
    arrays = {
        "weights": np.arange(10.0).reshape(2, 5),
        "empty": np.zeros((0, 3), np.int32),
        "mask": np.array([True, False, True]),
        "strings": data,
        "offsets": offsets,
        "scalar": np.array(3, np.uint8),
    }
    save(path, "model", {"C": 0.5, "names": ["a", "b"], "state": {"w": {"$array": "weights"}}}, arrays)
    return path.read_bytes()


def split(content: bytes) -> tuple[bytes, bytes]:
    """Header and data of a model file."""
    end = PRELUDE.size + PRELUDE.unpack(content[: PRELUDE.size])[2]
    return content[PRELUDE.size : end], content[align(end + 16) :]


def forge(header: Any, data: bytes, version: int = 1) -> bytes:
    """A model file whose header has a good checksum, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    head = PRELUDE.pack(MAGIC, version, len(text)) + text
    head += digest_of(head)
    return head.ljust(align(len(head)), b"\0") + data


def forge_arrays(*entries: Any, data: bytes = bytes(16), header: Any = None) -> bytes:
    """``forge`` with these entries of arrays."""
    root = {"kind": "m", "partwise": "1", "header": header or {}, "arrays": list(entries)}
    return forge(root, data)
