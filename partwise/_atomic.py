"""Atomic writing of files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["replacing", "temporary_name"]


def temporary_name(target: str, end: str) -> str:
    """A hidden neighbour of ``target``. Named by a hash: a long name must not become too long."""
    folder, name = os.path.split(target)
    mark = hashlib.blake2b(os.fsencode(name), digest_size=6).hexdigest()
    return os.path.join(folder, f".partwise-{mark}-{end}.tmp")


@contextlib.contextmanager
def replacing(target: str, *, commit: bool = True) -> Iterator[BinaryIO]:
    """A file to write that becomes the file ``target`` in one step, or leaves no trace.

    What it replaces lends it its permissions. With ``commit=False`` everything is done but the last step.
    """
    temporary = temporary_name(target, secrets.token_hex(8))
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if not commit:
            os.unlink(temporary)
            return
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException as error:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        except OSError as leftover:
            error.add_note(f"the temporary file {temporary} could not be removed: {leftover}")
        raise
    # The new file is in place and whole. That its name survives a power cut needs the folder on disk
    # too; where folders cannot be synced there is nothing to undo, so that is not an error.
    with contextlib.suppress(OSError):
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
