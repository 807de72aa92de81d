"""The folder of compiled kernels on disk: private, checked, and swept.

The files are pickles, and a pickle can run code: the folder must be private to the user, or it is not used.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import shutil
import stat
import time
import uuid
from contextlib import suppress

__all__ = ["cache_dir", "clean", "read", "remove", "touch", "write"]

logger = logging.getLogger("partwise")

_DAY = 86400.0
UNUSED = 30 * _DAY
_DIGEST = 32  # bytes of a checksum in front of every file


def read(path: str) -> bytes | None:
    """What was written; None if there is nothing, or it is damaged or belongs to another user."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
            return None
        data = file.read()
    if hashlib.sha256(data[_DIGEST:]).digest() != data[:_DIGEST]:
        return None
    touch(path, status)
    return data[_DIGEST:]


def touch(path: str, status: os.stat_result) -> None:
    """What is in use is not to be removed; once a day says so."""
    if status.st_mtime < time.time() - _DAY:
        with suppress(OSError):
            os.utime(path)


def write(path: str, data: bytes) -> None:
    """Whole or not at all: others may read or write the same file at this moment."""
    draft = f"{path}.{uuid.uuid4().hex[:16]}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(draft, flags, 0o600), "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
        os.replace(draft, path)
    except BaseException:
        remove(draft)
        raise


def remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def clean(folder: str) -> None:
    """Remove what has not been used for thirty days; at most once a day, since checking every file takes time."""
    mark = os.path.join(folder, "cleaned")
    now = time.time()
    with suppress(OSError):
        if os.stat(mark).st_mtime > now - _DAY:
            return
    with open(mark, "w"):
        os.utime(mark)
    for entry in os.scandir(folder):
        with suppress(OSError):  # somebody else was quicker
            if entry.stat(follow_symlinks=False).st_mtime < now - UNUSED:
                remove(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
    _clean_old_folders(os.path.dirname(folder), now)


def _clean_old_folders(base: str, now: float) -> None:
    """Folders of versions before 0.2, one per state of the sources."""
    for entry in os.scandir(base):
        if re.fullmatch("[0-9a-f]{16}", entry.name) and entry.is_dir(follow_symlinks=False):
            files = (os.path.join(place, name) for place, _, names in os.walk(entry.path) for name in names)
            with suppress(OSError):
                if max((os.stat(file).st_mtime for file in files), default=0.0) < now - UNUSED:
                    shutil.rmtree(entry.path, ignore_errors=True)


# -------------------------------------------------------------------------------------------------- the folder


@functools.cache
def cache_dir() -> str | None:
    """Folder of compiled kernels: in ``$PARTWISE_CACHE_DIR``, else in the user's cache; None if it is not private."""
    folder = os.path.join(_base(), "kernels")
    try:
        if not os.path.isabs(folder):
            raise OSError("the user has no home folder")
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        _check_private(folder)
    except OSError as error:
        logger.warning(
            "Compiled code is not kept on disk, so every process compiles again: %s. "
            "Set PARTWISE_CACHE_DIR to a folder that only you can write to.",
            error,
        )
        return None
    return folder


def _base() -> str:
    if base := os.environ.get("PARTWISE_CACHE_DIR"):
        return os.path.abspath(base)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "partwise")


def _check_private(folder: str) -> None:
    """Nobody else may put a file there, or put another folder in its place."""
    if not hasattr(os, "geteuid"):  # Windows: a user's profile is private
        return
    me = os.geteuid()
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise OSError(f"{folder} is not a folder")
    if status.st_uid != me:
        raise OSError(f"{folder} belongs to user {status.st_uid}")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise OSError(f"{folder} is open to others (mode {stat.S_IMODE(status.st_mode):04o} instead of 0700)")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OSError(f"{folder} cannot be written to")
    above = os.path.dirname(os.path.realpath(folder))
    while above != os.path.dirname(above):
        status = os.stat(above)
        if status.st_uid not in (0, me):
            raise OSError(f"{above} belongs to user {status.st_uid}")
        others = 0o002 if status.st_gid == os.getegid() else 0o022  # a group of one's own is common
        if status.st_mode & others and not status.st_mode & stat.S_ISVTX:
            raise OSError(f"{above} can be written to by others (mode {stat.S_IMODE(status.st_mode):04o})")
        above = os.path.dirname(above)
