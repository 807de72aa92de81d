"""20 Newsgroups, by date: the reader, and what becomes of the message headers."""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from partwise.exceptions import FormatError, InputError, unknown_name

from .text import CountText

__all__ = ["HEADERS", "Newsgroups", "count_newsgroups", "find_newsgroups", "read_newsgroups"]

HEADERS = ("strip", "subject", "keep")
# A full line of uuencoded bytes: its length code "M", then 60 characters of the alphabet; maybe quoted.
_ENCODED = re.compile(r"^[> ]{0,2}M[ -`]{59,61}$", re.MULTILINE)
_ARCHIVE = Path("newsgroups20") / "20news-bydate.tar.xz"


class Newsgroups(NamedTuple):
    """One part of the collection: texts and class names, in the order of classes, then message numbers."""

    texts: list[str]
    labels: np.ndarray


def find_newsgroups(folder: str | os.PathLike[str] | None = None) -> Path:
    """The archive in ``folder``, else in ``$PARTWISE_DATA``, else in ``../shared/data``."""
    base = Path(folder or os.environ.get("PARTWISE_DATA") or Path("..") / "shared" / "data")
    path = base if base.is_file() else base / _ARCHIVE
    if not path.is_file():
        raise InputError(
            f"no 20 Newsgroups archive at {path}: set PARTWISE_DATA to a folder that holds {_ARCHIVE}; "
            "the messages come from http://qwone.com/~jason/20Newsgroups/ (20news-bydate)"
        )
    return path


def _text(message: str, headers: str) -> str:
    """The message with its header block (the lines before the first blank one) handled as asked."""
    if headers == "keep":
        return message
    header, separator, body = message.partition("\n\n")
    if not separator:  # no blank line: all header, or all body if it does not look like one
        return "" if ":" in header.split("\n", 1)[0] else message
    if headers == "strip":
        return body
    subjects = [line[8:] for line in header.split("\n") if line.lower().startswith("subject:")]
    return "\n".join([*subjects, body])


def read_newsgroups(
    part: str = "train",
    headers: str = "strip",
    path: str | os.PathLike[str] | None = None,
    drop_encoded: bool = True,
) -> Newsgroups:
    """Read the ``"train"`` or ``"test"`` part of the by-date archive.

    ``headers="strip"`` drops the header block and keeps the body whole, quotations and signatures
    included, which is what the Matlab files of the thesis hold (§4.4.1); ``"subject"`` keeps the subject
    line beside the body; ``"keep"`` keeps everything, and makes the task easier: senders and organisations
    give the group away.

    ``drop_encoded`` leaves out uuencoded lines: a few postings of comp.os.ms-windows.misc hold files whose
    letters would be a tenth of all tokens. The thesis's counts (1.3M training tokens) are without them.
    """
    if part not in ("train", "test"):
        raise unknown_name("part", part, ("train", "test"))
    if headers not in HEADERS:
        raise unknown_name("headers", headers, HEADERS)
    archive = find_newsgroups(path)
    found: list[tuple[str, int, str]] = []
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            folder, _, number = member.name.rpartition("/")
            if not member.isfile() or not folder.startswith(f"20news-bydate-{part}/"):
                continue
            stream: Any = tar.extractfile(member)
            if not number.isdigit():
                raise FormatError(f"expected a message number, got {member.name!r}", path=archive)
            message = stream.read().decode("latin-1")
            text = _text(message, headers)
            if drop_encoded:
                text = _ENCODED.sub("", text)
            found.append((folder.rpartition("/")[2], int(number), text))
    if not found:
        raise FormatError(f"holds no messages under 20news-bydate-{part}/", path=archive)
    found.sort(key=lambda entry: entry[:2])
    return Newsgroups([text for _, _, text in found], np.array([group for group, _, _ in found]))


class CountedNewsgroups(NamedTuple):
    """Counts and labels of both parts over the training vocabulary; training documents left empty dropped."""

    train: sparse.csr_matrix
    train_labels: np.ndarray
    test: sparse.csr_matrix
    test_labels: np.ndarray
    vocabulary: np.ndarray


def count_newsgroups(
    headers: str = "strip",
    counter: CountText | None = None,
    path: str | os.PathLike[str] | None = None,
    classes: tuple[str, ...] | None = None,
) -> CountedNewsgroups:
    """Both parts as counts, optionally of a few classes only (the vocabulary is that of all classes)."""
    train, test = (read_newsgroups(part, headers, path) for part in ("train", "test"))
    counter = CountText() if counter is None else counter
    counts, test_counts = counter.fit_transform(train.texts), counter.transform(test.texts)
    filled = np.asarray(counts.sum(axis=1)).ravel() > 0
    wanted = np.ones(20, bool) if classes is None else classes
    chosen = filled & (np.isin(train.labels, wanted) if classes is not None else True)
    tested = np.isin(test.labels, wanted) if classes is not None else np.ones(len(test.labels), bool)
    return CountedNewsgroups(
        counts[chosen], train.labels[chosen], test_counts[tested], test.labels[tested], counter.vocabulary_
    )
