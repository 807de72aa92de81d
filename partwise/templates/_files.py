"""The files that templates name: lists, word clusters and embeddings, read once and kept in the model."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.data.streams import read_lines
from partwise.exceptions import FormatError, StorageError
from partwise.storage import pack_strings, unpack_strings

__all__ = ["FILE_KINDS", "Clusters", "Embedding", "TemplateFile", "WordList"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class TemplateFile:
    """The contents of a file; the text columns are stored as strings, the rest as arrays."""

    strings: list[str]

    def to_arrays(self) -> dict[str, Array]:
        data, offsets = pack_strings(self.strings)
        return {"bytes": data, "offsets": offsets}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> TemplateFile:
        return cls(unpack_strings(_get(arrays, "bytes"), _get(arrays, "offsets")))


@dataclass(frozen=True, eq=False)
class WordList(TemplateFile):
    """Entries of one or more tokens, one entry per line, with one space between tokens."""

    @classmethod
    def read(cls, path: str) -> WordList:
        entries = dict.fromkeys(" ".join(line.split()) for _, line in _lines(path))
        entries.pop("", None)
        return cls(list(entries))


@dataclass(frozen=True, eq=False)
class Clusters(TemplateFile):
    """Words and the bit strings of their clusters, interleaved in ``strings``."""

    @cached_property
    def bits(self) -> dict[str, str]:
        return dict(zip(self.strings[1::2], self.strings[::2], strict=False))

    @classmethod
    def read(cls, path: str) -> Clusters:
        pairs: dict[str, str] = {}
        for number, line in _lines(path):
            if not line.strip():
                continue
            fields = line.split("\t")
            if len(fields) < 2 or not fields[0] or not fields[1]:
                raise FormatError("expected a cluster, a tab and a word", path=path, line=number)
            pairs.setdefault(fields[1], fields[0])
        return cls([text for word, bits in pairs.items() for text in (bits, word)])


@dataclass(frozen=True, eq=False)
class Embedding(TemplateFile):
    """Words and their vectors, (words, dimensions) float32."""

    vectors: NDArray[np.float32]

    @cached_property
    def rows(self) -> dict[str, int]:
        return dict(zip(self.strings, range(len(self.strings)), strict=True))

    def to_arrays(self) -> dict[str, Array]:
        return super().to_arrays() | {"vectors": self.vectors}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Embedding:
        words, vectors = TemplateFile.from_arrays(arrays).strings, _get(arrays, "vectors")
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(words):
            raise StorageError(f"embedding: {len(words)} words, but vectors {vectors.dtype}{vectors.shape}")
        if not vectors.shape[1] or not np.isfinite(vectors).all():
            raise StorageError("embedding: vectors that are empty or not finite")
        return cls(words, vectors)

    @classmethod
    def read(cls, path: str) -> Embedding:
        words: dict[str, int] = {}
        numbers = array("f")
        dimensions = 0
        for number, line in _lines(path):
            # Not any white space: there are files with no-break spaces inside their words.
            word, *fields = line.replace("\t", " ").rstrip(" ").split(" ")
            if number == 1 and len(fields) == 1 and word.isdigit() and fields[0].isdigit():
                continue  # the head of a word2vec file: how many words and dimensions
            if not word and not fields:
                continue
            dimensions = dimensions or len(fields)
            if len(fields) != dimensions or not dimensions:
                message = f"expected a word and {dimensions or 'its'} numbers, got {len(fields)} numbers"
                raise FormatError(message, path=path, line=number)
            if word in words:
                continue
            try:
                numbers.extend(map(float, fields))
            except (ValueError, OverflowError):
                raise FormatError("expected a word and its numbers", path=path, line=number) from None
            words[word] = number
        if not words:
            raise FormatError("no vectors in the file", path=path)
        vectors = np.array(numbers, np.float32).reshape(len(words), dimensions)
        finite = np.isfinite(vectors).all(axis=1)
        if not finite.all():
            word = list(words)[int(np.argmin(finite))]
            raise FormatError(f"the vector of {word!r} is not finite", path=path, line=words[word])
        return cls(list(words), vectors)


# By the function that reads them.
FILE_KINDS: dict[str, type[WordList] | type[Clusters] | type[Embedding]] = {
    "list": WordList,
    "cluster": Clusters,
    "embed": Embedding,
}


def _get(arrays: Mapping[str, Array], name: str) -> Array:
    if name not in arrays:
        raise StorageError(f"a file of the templates: no array {name!r}")
    return arrays[name]


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of a UTF-8 file, which may be compressed."""
    number = 0
    for block in read_lines(path, "utf-8", bulk=True):
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            yield number, line.decode()
