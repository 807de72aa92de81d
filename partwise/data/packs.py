"""Packs: a data set as a folder of memory-mapped shards, ready to be learned from.

    train.pack/pack.pw          what the data is: header and arrays (vocabulary, layout of the weights, labels)
    train.pack/shard-00000.pw   packed arrays of some instances, one file of ``partwise.storage`` each

A pack is written to a temporary folder beside its path and then renamed, so that it is never incomplete. Every shard
knows the pack it belongs to; sizes and headers are checked when a shard is opened, all of its bytes by
:meth:`Pack.verify`.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import StorageError
from partwise.storage import load, save

__all__ = ["PACK_FORMAT", "Pack", "PackWriter", "is_pack"]

#: Of the arrays in the shards and of those of all shards together; a pack of another one must be made anew.
PACK_FORMAT = 2
MANIFEST = "pack.pw"

Arrays = dict[str, NDArray[Any]]


def is_pack(path: Any) -> bool:
    """Whether this is the path of a pack."""
    return isinstance(path, str | os.PathLike) and os.path.isfile(os.path.join(path, MANIFEST))


def shard_name(number: int) -> str:
    return f"shard-{number:05d}.pw"


class Pack:
    """A data set on disk, in shards.

    Parameters
    ----------
    path : folder that ``partwise pack`` or :func:`partwise.pack` has written

    Attributes
    ----------
    kind : str
        What the shards hold: "sequences".
    header, arrays : what is known of all shards together
    shards : list of dict
        The number of ``instances`` and of ``tokens`` of every shard.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not is_pack(self.path):
            what = "not a pack: it has no pack.pw" if os.path.isdir(self.path) else "there is no such folder"
            raise StorageError(f"{self.path}: {what}")
        stored = load(os.path.join(self.path, MANIFEST), "pack")
        header = stored.header
        if header.get("format") != PACK_FORMAT:
            raise StorageError(
                f"{self.path}: packed by partwise {stored.version} in format {header.get('format')}; this version "
                f"reads format {PACK_FORMAT}: pack the data again"
            )
        self.id, self.kind, self.shards = str(header["id"]), str(header["kind"]), list(header["shards"])
        self.header, self.arrays = header["header"], stored.arrays

    def __repr__(self) -> str:
        return f"Pack({len(self.shards)} shards, {self.instances} instances, {self.tokens} tokens: {self.path})"

    def __len__(self) -> int:
        return self.instances

    @property
    def instances(self) -> int:
        return sum(int(shard["instances"]) for shard in self.shards)

    @property
    def tokens(self) -> int:
        return sum(int(shard["tokens"]) for shard in self.shards)

    def shard(self, number: int, *, verify: bool = False) -> Arrays:
        """The arrays of a shard: pages of its file, read when they are touched."""
        return read_shard(self.path, self.id, number, verify=verify)

    def verify(self) -> None:
        """Read everything and compare it with its checksums."""
        for number in range(len(self.shards)):
            self.shard(number, verify=True)

    def __iter__(self) -> Iterator[Arrays]:
        return (self.shard(number) for number in range(len(self.shards)))


def read_shard(path: str, identity: str, number: int, *, verify: bool = False) -> Arrays:
    """The arrays of one shard of the pack with that identity."""
    name = os.path.join(path, shard_name(number))
    stored = load(name, "shard", mmap="private", verify=verify)
    if stored.header.get("pack") != identity or stored.header.get("number") != number:
        raise StorageError(
            f"{name}: not shard {number} of this pack; it was changed after the pack was opened or written"
        )
    return stored.arrays


class PackWriter:
    """Writes a pack; used as a context. An existing pack at the same path is replaced at the end.

    ``folder`` is where shards are written until then, ``scratch`` a folder for what is needed only on the way.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        if os.path.exists(self.path) and not is_pack(self.path) and not _empty(self.path):
            raise StorageError(f"{self.path}: cannot be written: something that is not a pack exists there")
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            raise StorageError(f"{self.path}: cannot be written: no folder {parent}")
        self.id = secrets.token_hex(16)
        self.folder = os.path.join(parent, f".{os.path.basename(self.path)}-{self.id[:8]}.tmp")
        self.scratch = os.path.join(self.folder, "scratch")

    def __enter__(self) -> Self:
        try:
            os.makedirs(self.scratch)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written: {error.strerror}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def finish(
        self, kind: str, shards: list[dict[str, Any]], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Pack:
        """Write the header and the common arrays, and move the folder to its place."""
        content = {"format": PACK_FORMAT, "id": self.id, "kind": kind, "shards": shards, "header": dict(header)}
        save(os.path.join(self.folder, MANIFEST), "pack", content, arrays)
        shutil.rmtree(self.scratch, ignore_errors=True)
        if os.path.exists(self.path):
            old = f"{self.folder}.old"
            os.rename(self.path, old)
            os.rename(self.folder, self.path)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(self.folder, self.path)
        return Pack(self.path)


def write_shard(folder: str, identity: str, number: int, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write one shard; may be called in any process that sees the folder."""
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save(os.path.join(folder, shard_name(number)), "shard", {"pack": identity, "number": number}, whole)


def _empty(path: str) -> bool:
    return os.path.isdir(path) and not os.listdir(path)
