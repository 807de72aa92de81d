"""Writing model files: places that cannot be written, and failures in the middle that leave no trace."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import example

from partwise.exceptions import StorageError
from partwise.storage import check_writable, load, save


def save_nothing(path: Any) -> None:
    save(path, "model", {}, {})


@pytest.mark.parametrize("action", [check_writable, save_nothing])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "folder: cannot be written: is a folder"),
        ("new/", "is a folder"),
        ("missing/m", "missing/m: cannot be written: no folder .*missing"),
        ("file/m", "no folder .*file"),
        ("pipe", "not a regular file"),
        ("x" * 300, "File name too long"),
    ],
)
def test_unwritable_places(tmp_path: Path, action: Callable[[Any], None], name: str, message: str) -> None:
    if name.startswith("x") and action is check_writable:
        return  # the probe has a short name; only the renaming meets the limit
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match=message):
        action(f"{tmp_path}/{name}")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "pipe"]
    assert (tmp_path / "file").read_text() == "x"


def test_permissions() -> None:
    name = tempfile.mkdtemp()  # not tmp_path: its parents are closed to other users
    path = os.path.join(name, "m")
    users = os.getresuid()

    def become(nobody: bool) -> None:
        if users[1] == 0:  # root may write everywhere: try it as somebody else
            os.setresuid(*((65534, 65534, 0) if nobody else users))

    try:
        save_nothing(path)
        os.chmod(path, 0o444)
        os.chmod(name, 0o555)
        become(nobody=True)
        for action in (check_writable, save_nothing):
            with pytest.raises(StorageError, match="write-protected"):
                action(path)
            with pytest.raises(StorageError, match="Permission denied") as caught:
                action(os.path.join(name, "new"))
            assert caught.value.errno == errno.EACCES
        become(nobody=False)
        os.chmod(path, 0)
        become(nobody=True)
        with pytest.raises(StorageError, match="cannot be read: Permission denied"):
            load(path)
    finally:
        become(nobody=False)
        os.chmod(name, 0o755)
        assert os.listdir(name) == ["m"]
        os.unlink(path)
        os.rmdir(name)


def test_check_writable_leaves_no_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "new")
    assert os.listdir(tmp_path) == []
    content = example(tmp_path / "old")
    changed = os.stat(tmp_path / "old").st_mtime_ns
    check_writable(tmp_path / "old")
    assert os.listdir(tmp_path) == ["old"]
    assert (tmp_path / "old").read_bytes() == content and os.stat(tmp_path / "old").st_mtime_ns == changed


def test_links_and_modes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    save_nothing(tmp_path / "real" / "m")
    os.chmod(tmp_path / "real" / "m", 0o640)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "m")
    save(tmp_path / "link", "model", {"new": True}, {})
    assert (tmp_path / "link").is_symlink() and load(tmp_path / "real" / "m").header == {"new": True}
    assert stat.S_IMODE(os.stat(tmp_path / "real" / "m").st_mode) == 0o640
    mask = os.umask(0o027)
    try:
        save_nothing(tmp_path / "fresh")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(os.stat(tmp_path / "fresh").st_mode) == 0o640


# The longest name allowed: the temporary one must not be longer.
@pytest.mark.parametrize("name", ["relative", b"bytes", "x" * 255])
def test_unusual_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: Any) -> None:
    monkeypatch.chdir(tmp_path)
    save_nothing(name)
    assert load(name).kind == "model"
    assert os.listdir(tmp_path) == [os.fsdecode(name)]


PLACES = [
    "os.fsync",
    "os.replace",
    "partwise.storage.writing._write_array",
    "partwise.storage.writing.digest_of",
]
CASES = [(place, existing) for place in PLACES for existing in (True, False)]
CASES.append(("shutil.copymode", True))  # without an existing file there is no mode to copy
FAILURES = [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), MemoryError()]


@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("place", "existing"), CASES)
def test_failure_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, existing: bool, error: BaseException
) -> None:
    before = example(tmp_path / "m") if existing else None
    owner, _, function = place.rpartition(".")
    module, calls = importlib.import_module(owner), []
    real = getattr(module, function)

    def failing(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == (2 if function == "_write_array" else 1):
            raise error
        return real(*args)

    monkeypatch.setattr(module, function, failing)
    expected = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as caught:
        save(tmp_path / "m", "model", {}, {"a": np.zeros(1000), "b": np.ones(1000)})
    monkeypatch.undo()
    if isinstance(error, OSError):
        assert str(caught.value) == f"{tmp_path}/m: cannot be written: No space left on device"
        assert isinstance(caught.value, OSError) and caught.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == (["m"] if existing else [])
    if existing:
        assert (tmp_path / "m").read_bytes() == before


def test_leftover_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "replace", failing)
    monkeypatch.setattr(os, "unlink", failing)
    with pytest.raises(StorageError) as caught:
        save_nothing(tmp_path / "m")
    monkeypatch.undo()
    assert caught.value.__cause__ is not None
    assert any("could not be removed" in note for note in caught.value.__cause__.__notes__)


LIMITED = """
import resource, sys, numpy as np
from partwise.storage import check_writable, save
from partwise.exceptions import StorageError
path = sys.argv[1]
for limit, action in ((100_000, lambda: save(path, "m", {}, {"w": np.ones(100_000)})),
                      (0, lambda: check_writable(path))):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, 100_000))
    try:
        action()
    except StorageError as error:
        sys.stderr.write(f"{error}\\n")
"""


def test_a_limit_that_the_system_sets(tmp_path: Path) -> None:
    before = example(tmp_path / "m")
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "m")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == f"{tmp_path}/m: cannot be written: File too large\n" * 2
    assert os.listdir(tmp_path) == ["m"] and (tmp_path / "m").read_bytes() == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 kB, where this user may mount one."""
    if shutil.which("mount") is None:
        pytest.skip("there is no mount command here")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"this user may not mount a small tmpfs: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], timeout=60, check=True)


def test_a_full_disk_leaves_the_old_model_intact(small_disk: Path) -> None:
    path = small_disk / "m"
    before = example(path)
    with pytest.raises(StorageError) as caught:
        save(path, "model", {}, {"w": np.ones(100_000)})  # 800 kB
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert os.listdir(small_disk) == ["m"] and path.read_bytes() == before
    save(path, "model", {"fits": True}, {})
    assert load(path).header == {"fits": True}
