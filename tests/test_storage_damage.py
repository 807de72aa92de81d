"""Model files that are not what they should be: each is an error that names it, and nothing else can happen."""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import math
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import example, forge, forge_arrays, split

from partwise.estimators import SequenceLabeler, load_model
from partwise.exceptions import FormatError, PartwiseError, StorageError
from partwise.storage import Checkpoint, describe, load, reading, save, unpack_strings
from partwise.storage.layout import MAGIC, PRELUDE, digest_of

FUZZ = int(os.environ.get("PARTWISE_FUZZ", "3000"))


def test_missing_folders_and_pipes(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="m: cannot be read: No such file or directory") as caught:
        load(tmp_path / "m")
    assert caught.value.errno == errno.ENOENT
    with pytest.raises(StorageError, match="is a folder"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="is a special file"):
        load(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "m: not a partwise file: is empty"),
        (b"PK\x03\x04", r"m: not a partwise file: begins with b'PK\\x03\\x04'"),
        (b"hello " * 99, "not a partwise file"),
    ],
)
def test_foreign_files(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        load(tmp_path / "m")


def test_every_length_but_the_right_one(tmp_path: Path) -> None:
    path = tmp_path / "m"
    content = example(path)
    for size in range(1, len(content)):
        path.write_bytes(content[:size])
        with pytest.raises(StorageError, match=f"m: truncated: [0-9]+ bytes are needed, the file has {size}$"):
            load(path, mmap=True)
    path.write_bytes(content + b"\0")
    with pytest.raises(StorageError, match="m: damaged: 1 extra bytes"):
        describe(path)


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    content = bytearray(example(tmp_path / "m"))
    for i in range(len(content)):
        content[i] ^= 1 << (i % 8)
        (tmp_path / "m").write_bytes(content)
        with pytest.raises((StorageError, FormatError)):
            load(tmp_path / "m")
        content[i] ^= 1 << (i % 8)


@pytest.mark.parametrize("ends", [(b"\r\n", b"\n"), (b"\n", b"\r\n")])
def test_transfer_as_text(tmp_path: Path, ends: tuple[bytes, bytes]) -> None:
    (tmp_path / "m").write_bytes(example(tmp_path / "m").replace(*ends))
    with pytest.raises(StorageError, match="m: damaged: line ends were changed"):
        load(tmp_path / "m")


def test_other_formats(tmp_path: Path) -> None:
    text, data = split(example(tmp_path / "m"))
    root = json.loads(text) | {"partwise": "3.1"}
    newer = forge(root, data, version=3)
    damaged = newer[:30] + b"?" + newer[31:]
    for content, message in [
        (newer, r"m: written by partwise 3\.1, format 3; this version reads up to 1$"),
        # Another layout of everything but the header is no hindrance to saying so.
        (forge({"partwise": "9.0", "tensors": 1}, b"?", 9), r"written by partwise 9\.0, format 9"),
        (damaged, r"damaged: .* header does not match .or from a newer partwise"),
        (forge(root, data, 0), "format 0 does not exist"),
    ]:
        (tmp_path / "m").write_bytes(content)
        with pytest.raises(StorageError, match=message):
            load(tmp_path / "m")


ARRAY = {"name": "w", "dtype": "float64", "shape": [2], "offset": 0, "nbytes": 16, "blake2b": "0" * 32}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "no name"),
        ({"blake2b": None}, "no checksum"),
        ({"dtype": "object"}, "array 'w': unknown dtype 'object'"),
        ({"dtype": ["float64"]}, "unknown dtype"),
        ({"shape": [-2]}, "array 'w': impossible shape"),
        ({"shape": [-1, -2]}, "impossible shape"),
        ({"shape": [2.0]}, "impossible shape"),
        ({"shape": [True, 2]}, "impossible shape"),
        ({"shape": 2}, "impossible shape"),
        ({"shape": [1] * 33 + [2]}, "impossible shape"),
        ({"shape": [0, 2**62], "nbytes": 0}, "impossible shape"),
        ({"shape": [2**63]}, "impossible shape"),
        ({"shape": [10**4000] * 32}, "impossible shape"),
        ({"shape": [3]}, "does not fit the number of bytes 16"),
        ({"nbytes": 10**4000}, "does not fit the number of bytes"),
        ({"nbytes": "16"}, "does not fit"),
        ({"shape": [2**50], "nbytes": 2**53}, "truncated"),
        ({"offset": -64}, "impossible offset -64"),
        ({"offset": 0.0}, "impossible offset"),
        ({"offset": 64}, "expected at offset 0, got 64"),
        ({"offset": 10**4000}, "expected at offset 0, got 1000"),
        ({}, "damaged: the checksum of array 'w'"),
    ],
)
def test_absurd_arrays(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    (tmp_path / "m").write_bytes(forge_arrays(ARRAY | changes))
    tracemalloc.start()
    try:
        with pytest.raises(StorageError, match=message) as caught:
            load(tmp_path / "m")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20  # nothing was allocated on its word
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(str(tmp_path)) and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (forge(b"", b""), "not readable as JSON"),
        (forge(b"\xff", b""), "not readable as JSON"),
        (forge(b"[" * 100_000, b""), "not readable as JSON"),
        (forge(b"9" * 5000, b""), "not readable as JSON"),
        (forge(b"[1]", b""), "expected a JSON object, got list"),
        (forge({}, b""), "without the version"),
        (forge({"partwise": "1", "kind": 1, "header": {}, "arrays": []}, b""), "'kind'"),
        (forge({"partwise": "1", "kind": "m", "header": [], "arrays": []}, b""), "'header'"),
        (forge({"partwise": "1", "kind": "m", "header": {}, "arrays": {}}, b""), "'arrays'"),
        (forge_arrays(3), "no name"),
        (forge_arrays(ARRAY, ARRAY), "overlaps"),
        (forge_arrays(ARRAY, ARRAY | {"offset": 64}), "two arrays 'w'"),
        (PRELUDE.pack(MAGIC, 1, 2**63) + bytes(100), "declares a header of 9223372036854775808 bytes"),
        (
            forge_arrays(
                ARRAY | {"dtype": "bool", "shape": [1], "nbytes": 1, "blake2b": digest_of(b"\2").hex()},
                data=b"\2",
            ),
            "values other than 0 and 1 in array 'w'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_absurd_headers(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(StorageError, match="m: damaged: .*" + message):
        load(tmp_path / "m")


@pytest.mark.parametrize(("array", "message"), [("a", "after the header"), ("b", "before array 'b'")])
def test_gaps_that_are_not_zero(tmp_path: Path, array: str, message: str) -> None:
    save(tmp_path / "m", "model", {}, {"a": np.zeros(1), "b": np.zeros(1)})
    content = bytearray((tmp_path / "m").read_bytes())
    content[describe(tmp_path / "m").arrays[array].offset - 1] = 1
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(StorageError, match=f"nonzero bytes {message}"):
        load(tmp_path / "m")


@pytest.mark.parametrize("mmap", [False, True])
def test_file_cut_while_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mmap: bool) -> None:
    example(tmp_path / "m")
    real = reading._describe

    def cutting(file: Any, name: str) -> Any:
        found = real(file, name)
        os.truncate(name, found.size - 5)
        return found

    monkeypatch.setattr(reading, "_describe", cutting)
    with pytest.raises(StorageError, match="truncated"):
        load(tmp_path / "m", mmap=mmap)


def test_larger_than_memory(tmp_path: Path) -> None:
    # A file with a hole: its size is real, but there is no memory for it.
    nbytes = 1 << 42
    head = forge_arrays(ARRAY | {"dtype": "uint8", "shape": [nbytes], "nbytes": nbytes}, data=b"")
    (tmp_path / "m").write_bytes(head)
    try:
        os.truncate(tmp_path / "m", len(head) + nbytes)
    except OSError:
        pytest.skip("this file system has no files of that size")
    assert describe(tmp_path / "m").arrays["w"].nbytes == nbytes
    with pytest.raises(StorageError, match="does not fit into memory"):
        load(tmp_path / "m")
    os.unlink(tmp_path / "m")


NASTY: list[Any] = [
    *(-1, 0, 1, 2, 63, 64, 65, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**100),
    *([], [0], [-1], [[]], [2**62, 4], [0, 2**63], {}, None, True, False, 0.5, math.nan, math.inf),
    *("", "a", "weights", "float64", "object", "\ud800", "0" * 32),
    *({"$array": "weights"}, {"$scalar": "weights"}, {"name": "weights"}),
]


def mutate_tree(rng: random.Random, root: Any) -> Any:
    """Replace, drop, double or exchange values anywhere in a JSON tree."""
    root = copy.deepcopy(root)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places, todo = [], [root]
        while todo:
            value = todo.pop()
            keys = list(value) if isinstance(value, dict) else range(len(value))
            places += [(value, key) for key in keys]
            todo += [value[key] for key in keys if isinstance(value[key], dict | list)]
        if not places:
            return root
        (value, key), (other, at) = rng.choice(places), rng.choice(places)
        kind = rng.randrange(5)
        if kind == 0:
            del value[key]
        elif kind == 1 and isinstance(value, list):
            value.insert(key, copy.deepcopy(value[key]))
        elif kind == 2 and type(value[key]) is int:
            value[key] += rng.choice((-64, -8, -1, 1, 8, 64))
        else:
            value[key] = copy.deepcopy(other[at] if kind == 3 else rng.choice(NASTY))
    return root


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Flip bits, cut, or move pieces."""
    changed = bytearray(content)
    i, j = sorted(rng.randrange(len(changed) + 1) for _ in range(2))
    match rng.randrange(5):
        case 0:
            changed += rng.randbytes(rng.randrange(1, 80))
        case 1:
            for _ in range(rng.choice((1, 1, 2, 8, 64))):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        case 2:
            del changed[i:]
        case 3:
            k = rng.randrange(len(changed) + 1)
            changed[k:k] = changed[i:j]
        case _:
            changed[i:j] = rng.choice((b"", rng.randbytes(j - i), bytes(j - i), b"\xff" * (j - i)))
    return bytes(changed)


def mutant(rng: random.Random, kind: int, content: bytes) -> bytes:
    text, data = split(content)
    root = json.loads(text)
    if kind == 0:  # damage as it happens
        return mutate_bytes(rng, content)
    if kind == 1:  # headers that are not quite JSON
        return forge(mutate_bytes(rng, text), data)
    if kind == 2:  # headers that are JSON but lie
        return forge(mutate_tree(rng, root), data)
    if kind == 3:  # both lie
        return forge(mutate_tree(rng, root), mutate_bytes(rng, data))
    # Good checksums over bad data: what is stored must still not break the readers.
    bad = mutate_bytes(rng, data)[: len(data)].ljust(len(data), b"\0")
    for entry in root["arrays"]:
        block = bad[entry["offset"] : entry["offset"] + entry["nbytes"]]
        entry["blake2b"] = digest_of(block).hex()
    return forge(root, bad, rng.choice((1, 1, 1, 0, 2, 2**32 - 1)))


def test_fuzz(tmp_path: Path) -> None:
    path = tmp_path / "m"
    content = example(path)
    actions = (
        lambda: load(path),
        lambda: load(path, mmap=True, verify=True),
        lambda: load(path, mmap=True),
        lambda: describe(path),
        lambda: Checkpoint(path).load("model"),
    )
    loaded = 0
    for seed in range(FUZZ):
        rng = random.Random(seed)
        kind = rng.randrange(5)
        changed = mutant(rng, kind, content)
        path.write_bytes(changed)
        outcomes: list[Any] = []
        for action in actions:
            try:
                outcomes.append(action())
            except PartwiseError as error:
                assert str(path) in str(error) and len(str(error)) < 1500, seed
                outcomes.append(None)
            except BaseException as error:
                raise AssertionError(f"seed {seed} brought {type(error).__name__}") from error
        full, verified, mapped, described, _ = outcomes
        assert (full is None) == (verified is None) and (mapped is None) == (described is None), seed
        assert full is None or mapped is not None, seed
        assert kind or full is None or changed == content, f"seed {seed}: damage was not noticed"
        if mapped is not None:
            with contextlib.suppress(StorageError, KeyError):
                unpack_strings(mapped.arrays["strings"], mapped.arrays["offsets"])
        loaded += full is not None
    assert FUZZ // 100 < loaded < FUZZ - FUZZ // 4  # both sides were reached


def test_a_fault_inside_a_model_names_the_file(tmp_path: Path) -> None:
    """Also where the file itself is sound and only what it holds is not."""
    model = SequenceLabeler(max_passes=1).fit([[["a"], ["b"]], [["a"]]], [["x", "y"], ["x"]])
    header, arrays = model.to_state()
    arrays["layout/rank"] = np.zeros_like(arrays["layout/rank"])
    path = tmp_path / "m.pw"
    save(path, model.kind, header, arrays)
    with pytest.raises(StorageError, match=r"m\.pw: the layout of the weights is inconsistent"):
        load_model(path)
