"""Parallel text: ``source ||| target`` lines, two files of parallel lines, and NAACL ``<s snum=…>`` files.

``read_bitext`` packs whole files, ``iter_bitext`` streams pairs in constant memory, ``write_bitext`` writes them
back. White space is ASCII white space, so a no-break space is part of its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.bitext import Bitext, Pair
from partwise.data.columns import CodedColumn, new_lookup
from partwise.data.streams import Source, name_of, open_target, read_lines
from partwise.exceptions import FormatError, InputError

__all__ = ["SEPARATOR", "iter_bitext", "read_bitext", "read_naacl_sentences", "write_bitext"]

SEPARATOR = "|||"
_NAACL = re.compile(rb"\s*<s\s+snum=[\"']?(\d+)[\"']?\s*>(.*)</s>\s*")


def read_bitext(source: Source, target: Source | None = None, *, encoding: str = "utf-8") -> Bitext:
    r"""Read a whole parallel corpus.

    Parameters
    ----------
    source : path, open file or "-"
        Names that end in ``.gz`` or ``.xz`` are decompressed. One tokenised sentence per line; without ``target``, both
        sentences on a line with ``|||`` between them.
    target : the same, optional
        Line n is the translation of the source's line n.

    Raises
    ------
    FormatError
        With file and line: an empty sentence, different numbers of lines, a line without ``|||`` or with two,
        bytes outside the encoding (with the byte's place in its line, from 1), no pairs at all.

    Examples
    --------
    >>> import io
    >>> bitext = read_bitext(io.StringIO("the dog ||| le chien\nyes ||| oui\n"))
    >>> bitext, bitext[0]
    (Bitext(2 pairs, 3 and 3 tokens), (['the', 'dog'], ['le', 'chien']))
    >>> read_bitext(io.StringIO("the dog ||| le chien\nyes |||\n"))
    Traceback (most recent call last):
        ...
    partwise.exceptions.FormatError: <text>:2: the target sentence is empty
    """
    if target is None:
        return _read_joined(source, encoding)
    sides = []
    for name, file in (("source", source), ("target", target)):
        codes, vocab, widths = _read_side(file, encoding)
        if (widths == 0).any():
            raise FormatError(f"the {name} sentence is empty", path=name_of(file), line=int(np.argmin(widths)) + 1)
        sides.append(CodedColumn(codes, vocab, _offsets(widths)))
    counts = [len(side.offsets) - 1 for side in sides]
    if counts[0] != counts[1]:
        names = name_of(source), name_of(target)
        shorter = int(np.argmin(counts))
        raise FormatError(
            f"no sentence for line {counts[shorter] + 1} of {names[1 - shorter]}; "
            f"the files have {counts[0]} and {counts[1]} lines",
            path=names[shorter],
            line=counts[shorter] + 1,
        )
    if not counts[0]:
        raise FormatError("no sentence pairs: the file is empty", path=name_of(source))
    return Bitext(*sides)


def _offsets(widths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)


def _read_side(source: Source, encoding: str) -> tuple[NDArray[np.int32], list[str], NDArray[np.int64]]:
    """Codes of all words of a file, their vocabulary, and the number of words on each line."""
    lookup = new_lookup()
    codes: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]
    widths: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for block in read_lines(source, encoding, bulk=True):
        if not block.endswith(b"\n"):
            block += b"\n"
        characters = np.frombuffer(block, np.uint8)
        white = (characters == 32) | ((characters >= 9) & (characters <= 13))
        word_ends = np.flatnonzero(white[1:] & ~white[:-1])
        widths.append(np.diff(np.searchsorted(word_ends, np.flatnonzero(characters == 10)), prepend=0))
        words = block.split()
        codes.append(np.fromiter(map(lookup.__getitem__, words), np.int32, len(words)))
    return np.concatenate(codes), [word.decode() for word in lookup], np.concatenate(widths)


def _read_joined(source: Source, encoding: str) -> Bitext:
    """Both sides from one file: read as one text, then cut at the separators."""
    path = name_of(source)
    codes, vocab, widths = _read_side(source, encoding)
    if not len(widths):
        raise FormatError("no sentence pairs: the file is empty", path=path)
    offsets = _offsets(widths)
    cuts = np.flatnonzero(codes == vocab.index(SEPARATOR)) if SEPARATOR in vocab else np.zeros(0, np.int64)
    line_of = np.searchsorted(offsets, cuts, side="right") - 1
    counts = np.bincount(line_of, minlength=len(widths))
    if (counts != 1).any():
        first = int(np.argmax(counts != 1))
        raise FormatError(f"expected one {SEPARATOR!r} on the line, got {counts[first]}", path=path, line=first + 1)
    before, after = cuts - offsets[:-1], offsets[1:] - cuts - 1
    for name, lengths in (("source", before), ("target", after)):
        if (lengths == 0).any():
            raise FormatError(f"the {name} sentence is empty", path=path, line=int(np.argmin(lengths)) + 1)
    place = np.arange(len(codes)) - np.repeat(offsets[:-1], widths)
    cut = np.repeat(before, widths)
    sides = []
    for mask, lengths in ((place < cut, before), (place > cut, after)):
        used, recoded = np.unique(codes[mask], return_inverse=True)
        sides.append(CodedColumn(recoded.astype(np.int32), [vocab[k] for k in used.tolist()], _offsets(lengths)))
    return Bitext(*sides)


def iter_bitext(source: Source, target: Source | None = None, *, encoding: str = "utf-8") -> Iterator[Pair]:
    """Stream the pairs of ``read_bitext`` one by one; an empty source yields nothing."""
    if target is None:
        path = name_of(source)
        for number, line in enumerate(_lines(source, encoding), start=1):
            words = line.split()
            if words.count(SEPARATOR.encode()) != 1:
                message = f"expected one {SEPARATOR!r} on the line, got {words.count(SEPARATOR.encode())}"
                raise FormatError(message, path=path, line=number)
            cut = words.index(SEPARATOR.encode())
            yield _pair(words[:cut], words[cut + 1 :], path, path, number)
        return
    names = name_of(source), name_of(target)
    both = zip_longest(_lines(source, encoding), _lines(target, encoding))
    for number, (first, second) in enumerate(both, start=1):
        for mine, other, line in ((names[0], names[1], first), (names[1], names[0], second)):
            if line is None:
                raise FormatError(f"no sentence for line {number} of {other}", path=mine, line=number)
        yield _pair(first.split(), second.split(), *names, number)


def _lines(source: Source, encoding: str) -> Iterator[bytes]:
    for block in read_lines(source, encoding, bulk=False):
        yield from block.removesuffix(b"\n").split(b"\n")


def _pair(first: list[bytes], second: list[bytes], path: str, target_path: str, number: int) -> Pair:
    for name, words, file in (("source", first, path), ("target", second, target_path)):
        if not words:
            raise FormatError(f"the {name} sentence is empty", path=file, line=number)
    return [word.decode() for word in first], [word.decode() for word in second]


def write_bitext(
    target: Source, pairs: Iterable[tuple[Sequence[str], Sequence[str]]], *, encoding: str = "utf-8"
) -> None:
    r"""Write ``source ||| target`` lines; a word that would not be read back as one word is an error.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> write_bitext(out, [(["yes", "."], ["oui", "."])])
    >>> out.getvalue()
    'yes . ||| oui .\n'
    """
    with open_target(target, encoding) as write:
        for number, pair in enumerate(pairs):
            for words in pair:
                text = " ".join(words)
                if not words or text.encode().split() != [word.encode() for word in words] or SEPARATOR in words:
                    raise InputError(f"pair {number}: its words would be read back differently: {list(words)!r:.80}")
            write(f"{' '.join(pair[0])} {SEPARATOR} {' '.join(pair[1])}\n")


def read_naacl_sentences(source: Source, *, encoding: str = "utf-8") -> dict[int, list[str]]:
    r"""Sentences of a file of ``<s snum=0001> words </s>`` lines by their numbers (Mihalcea and Pedersen 2003).

    Examples
    --------
    >>> import io
    >>> read_naacl_sentences(io.StringIO("<s snum=0001> oh , oh ! </s>\n"))
    {1: ['oh', ',', 'oh', '!']}
    """
    path = name_of(source)
    sentences: dict[int, list[str]] = {}
    for number, line in enumerate(_lines(source, encoding), start=1):
        if not line.strip():
            continue
        match = _NAACL.fullmatch(line)
        if match is None:
            expected = "<s snum=NUMBER> words </s>"
            raise FormatError(f"expected {expected}, got {line.decode()!r:.80}", path=path, line=number)
        snum, words = int(match[1]), [word.decode() for word in match[2].split()]
        if not words:
            raise FormatError(f"sentence {snum} is empty", path=path, line=number)
        if snum in sentences:
            raise FormatError(f"sentence {snum} appears twice", path=path, line=number)
        sentences[snum] = words
    return sentences
