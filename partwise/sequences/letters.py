"""OCR letters: 6,877 handwritten words of 16 × 8 pixels per letter (Kassel 1995; Taskar, Guestrin and Koller 2003).

The first letter of every word was a capital and has been left out. The words come in ten folds, and there are two
protocols, which give quite different errors: train on **one** fold and test on the other nine, as Taskar et al.
did, or train on **nine** and test on the tenth.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError, ParameterError

__all__ = ["Letters", "read_letters"]

ORIGIN = "the OCR letters of Kassel and Taskar, ai.stanford.edu/~btaskar/ocr/letter.data.gz, or the same as letters.npz"
ALPHABET = np.array(list("abcdefghijklmnopqrstuvwxyz"))
PROTOCOLS = ("one", "nine")


@dataclass(frozen=True)
class Letters:
    """Words of letters; word i has the letters offsets[i]:offsets[i + 1].

    Examples
    --------
    >>> pixels, labels = np.eye(5, 128, dtype=np.uint8), np.array([0, 1, 2, 0, 2])
    >>> letters = Letters(pixels, labels, np.array([0, 2, 3, 5]), np.array([0, 1, 2]))
    >>> train, test = letters.split("one", fold=1)
    >>> train.tolist(), test.tolist(), letters.words(test)
    ([1], [0, 2], [['a', 'b'], ['a', 'c']])
    >>> [x.shape for x in letters.inputs(test)]
    [(2, 131), (2, 131)]
    """

    pixels: NDArray[np.uint8]  # (letters, 128), 0 or 1
    labels: NDArray[np.int64]  # (letters,) 0..25
    offsets: NDArray[np.int64]  # (words + 1,)
    folds: NDArray[np.int64]  # (words,) 0..9

    def __len__(self) -> int:
        return len(self.folds)

    def split(self, protocol: str, fold: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(training words, test words): ``fold`` against the others ("one"), or the others against it ("nine")."""
        if protocol not in PROTOCOLS:
            raise ParameterError("protocol", "Letters.split", "'one' or 'nine'", protocol)
        inside = self.folds == fold
        if not inside.any():
            raise ParameterError("fold", "Letters.split", f"one of {sorted(set(self.folds.tolist()))}", fold)
        own, others = np.flatnonzero(inside), np.flatnonzero(~inside)
        return (own, others) if protocol == "one" else (others, own)

    def inputs(self, words: Iterable[int]) -> list[NDArray[np.float64]]:
        """(T, 131) for every word: pixels, a constant, and whether the letter is the first or the last of its word."""
        found = []
        for i in words:
            a, b = self.offsets[i], self.offsets[i + 1]
            x = np.zeros((b - a, self.pixels.shape[1] + 3))
            x[:, :-3] = self.pixels[a:b]
            x[:, -3] = x[0, -2] = x[-1, -1] = 1.0
            found.append(x)
        return found

    def words(self, words: Iterable[int]) -> list[list[str]]:
        """The letters of every word."""
        return [ALPHABET[self.labels[self.offsets[i] : self.offsets[i + 1]]].tolist() for i in words]


def read_letters(path: str | os.PathLike[str]) -> Letters:
    """The data set from ``letter.data`` (also gzipped), one letter per line, or from an .npz of the arrays of
    Letters.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(f"{file} is missing; it is {ORIGIN}")
    arrays = _from_npz(file) if file.suffix == ".npz" else _from_text(file)
    letters = Letters(
        np.ascontiguousarray(arrays["pixels"], np.uint8),
        *(np.asarray(arrays[name]).astype(np.int64) for name in ("labels", "offsets", "folds")),
    )
    _check(file, letters)
    return letters


def _from_npz(file: Path) -> dict[str, Any]:
    names = ("pixels", "labels", "offsets", "folds")
    with np.load(file, allow_pickle=False) as stored:
        missing = [name for name in names if name not in stored]
        if missing:
            raise InputError(f"{file} has no array {missing[0]!r}; expected {', '.join(names)}")
        return {name: stored[name] for name in names}


def _from_text(file: Path) -> dict[str, Any]:
    """Fields of a line: id, letter, next id (−1 at the end of a word), word, position, fold, 128 pixels."""
    pixels, labels, offsets, folds = [], [], [0], []
    with gzip.open(file, "rt") if file.suffix == ".gz" else open(file, encoding="ascii") as lines:
        for number, line in enumerate(lines, start=1):
            fields = line.split()
            if len(fields) != 134 or not "a" <= fields[1] <= "z":
                raise InputError(f"{file}, line {number}: expected a letter and 134 fields, got {len(fields)} fields")
            pixels.append(np.array(fields[6:], np.uint8))
            labels.append(ord(fields[1]) - ord("a"))
            if fields[2] == "-1":
                offsets.append(number)
                folds.append(int(fields[5]))
    if not labels or offsets[-1] != len(labels):
        raise InputError(f"{file} ends within a word")
    return {"pixels": np.array(pixels), "labels": labels, "offsets": offsets, "folds": folds}


def _check(file: Path, letters: Letters) -> None:
    n = len(letters.labels)
    sound = (
        letters.pixels.shape == (n, 128)
        and len(letters.offsets) == len(letters.folds) + 1
        and letters.offsets[0] == 0
        and letters.offsets[-1] == n
        and (np.diff(letters.offsets) > 0).all()
        and 0 <= letters.labels.min(initial=0) <= letters.labels.max(initial=0) < len(ALPHABET)
    )
    if not sound:
        raise InputError(f"{file}: the arrays do not fit together; expected 128 pixels and a label 0..25 per letter")
