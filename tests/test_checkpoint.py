"""Checkpoints: exact states, and kills at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise._atomic import temporary_name
from partwise.exceptions import ParameterError, StorageError
from partwise.storage import Checkpoint, save


@pytest.mark.parametrize("name", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_random_state(tmp_path: Path, name: str) -> None:
    rng = np.random.Generator(getattr(np.random, name)(7))
    rng.random(5)
    checkpoint = Checkpoint(tmp_path / "c", every=3)
    checkpoint.save({"rng": rng.bit_generator.state})
    expected = rng.random(10)
    other = np.random.Generator(getattr(np.random, name)(0))
    other.bit_generator.state = checkpoint.load()["rng"]
    assert (other.random(10) == expected).all()


def test_a_state_is_exact(tmp_path: Path) -> None:
    bits = np.array([0x7FF8000000000123, 0x8000000000000000, 1, 0x7FF0000000000000], np.uint64)
    state: dict[str, Any] = {
        "odd": bits.view(np.float64),
        "a/b": {"c": np.arange(3)},
        "a": {"b/c": np.arange(4), "~": np.zeros((2, 0))},
        "list": [np.float32(0.1), 0.1 + 0.2, np.int8(-3), np.bool_(True), np.array(5), None, {"x": "y"}],
        "big": 2**127 + 1,
    }
    checkpoint = Checkpoint(tmp_path / "c")
    assert not checkpoint.exists()
    checkpoint.save(state)
    assert checkpoint.exists()
    back = checkpoint.load()
    assert back["odd"].tobytes() == bits.tobytes() and back["odd"].flags.writeable
    shapes = back["a/b"]["c"].shape, back["a"]["b/c"].shape, back["a"]["~"].shape
    assert shapes == ((3,), (4,), (2, 0))
    assert [type(item) for item in back["list"]] == [type(item) for item in state["list"]]
    assert back["list"] == state["list"] and back["big"] == state["big"]


def test_when_it_is_due(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", every=10)
    assert [step for step in range(31) if checkpoint.due(step)] == [10, 20, 30]
    for every in (0, -1, 1.5, True, None):
        with pytest.raises(ParameterError, match="'every' parameter of Checkpoint"):
            Checkpoint(tmp_path / "c", every=every)  # type: ignore[arg-type]


CYCLIC: list[Any] = []
CYCLIC.append(CYCLIC)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"$array": 1}, "without keys"),
        (CYCLIC, "a tree"),
        ({1: 2}, "strings as keys"),
        (np.array([None]), "dtypes"),
        (np.longdouble(1), "dtypes"),
        (object(), "None, bool"),
    ],
)
def test_states_that_cannot_be_saved(tmp_path: Path, value: Any, message: str) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    with pytest.raises(ParameterError, match=message):
        checkpoint.save({"a": value})
    with pytest.raises(StorageError, match="No such file"):
        checkpoint.load()
    assert os.listdir(tmp_path) == []


def test_files_that_are_no_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "c")
    checkpoint.save({"a": 1}, kind="training")
    assert checkpoint.load("training") == {"a": 1}
    with pytest.raises(StorageError, match="expected kind 'checkpoint', got kind 'training'"):
        checkpoint.load()
    for header in ({}, {"state": 3}, {"state": {"a": {"$array": "b"}}}, {"state": {"a": {"$scalar": [1]}}}):
        save(tmp_path / "c", "checkpoint", header, {})
        with pytest.raises(StorageError, match=r"not the state of a checkpoint|no array"):
            checkpoint.load()


SAVING = """
import sys, numpy as np
from partwise.storage import Checkpoint
checkpoint = Checkpoint(sys.argv[1])
for step in range(int(sys.argv[2]), 1_000_000):
    checkpoint.save({"step": step, "a": np.full(50_000, float(step)), "b": [np.full(9, step)]})
    print(step, flush=True)
"""


def test_kill_while_saving(tmp_path: Path) -> None:
    folder = tmp_path / "[x]*"  # characters that have a meaning in patterns
    folder.mkdir()
    path, rng, step = folder / "c[1]*", random.Random(0), 0
    checkpoint = Checkpoint(path)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    for _ in range(8):
        command = [sys.executable, "-c", SAVING, str(path), str(step)]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert int(process.stdout.readline()) == step  # it has begun
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
        printed = max([step, *(int(line) for line in out.split("\n")[:-1])])
        state = checkpoint.load()
        assert state["step"] in (printed, printed + 1)  # the last one reported, or the one after
        assert (state["a"] == state["step"]).all() and (state["b"][0] == state["step"]).all()
        step = state["step"] + 1
    Path(temporary_name(str(path), "dead")).write_bytes(b"x")  # for the case that no kill left one
    checkpoint.save({"step": step})
    assert os.listdir(folder) == [path.name]  # what the killed ones left is gone
