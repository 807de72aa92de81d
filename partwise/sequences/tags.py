"""Chunk tags: the spans of a sentence written as one tag per token, and back.

A chunk of type X over several tokens, over one token, and right after another chunk of type X:

========  =================  =======  ========================================================
scheme    several tokens     one      directly after a chunk of the same type
========  =================  =======  ========================================================
IOB1      I-X I-X I-X        I-X      first tag becomes B-X (the only use of B)
IOB2      B-X I-X I-X        B-X      no difference; also called BIO
IOBES     B-X I-X E-X        S-X      no difference; also called BIOES
BILOU     B-X I-X L-X        U-X      no difference; IOBES with L (last) for E and U (unit) for S
========  =================  =======  ========================================================

Every other token is ``O``. A tag without a type (``B``, ``I``) belongs to a chunk of type "". Scheme names
are accepted in any case.

All functions read tags in one way: a chunk runs on while its type does, and breaks before B or S and
after E or S. Where the tags that this reading gives back are not the ones that were read, they are
ill-formed: ``check``, ``spans`` and ``convert`` refuse them, ``repair`` replaces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, is_coded
from partwise.exceptions import InputError
from partwise.sequences.tag_repair import RepairReport, detect_scheme, repair, repair_report, well_formed
from partwise.sequences.tag_schemes import (
    RULES,
    SCHEMES,
    Repair,
    Sentences,
    join_tag,
    read_well_formed,
    scheme_name,
    split_tag,
    write_tags,
)

__all__ = [
    "SCHEMES",
    "Repair",
    "RepairReport",
    "Span",
    "SpanTable",
    "Transitions",
    "check",
    "convert",
    "convert_all",
    "detect_scheme",
    "legal_transitions",
    "repair",
    "repair_report",
    "scheme_name",
    "span_table",
    "spans",
    "tags_from_spans",
    "well_formed",
]


class Span(NamedTuple):
    """Tokens ``start <= t < end`` form a chunk of this type."""

    start: int
    end: int
    type: str


class SpanTable(NamedTuple):
    """Chunk k is tokens ``start[k] <= t < end[k]`` of ``sentence[k]``, of type ``types[type[k]]``."""

    sentence: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    type: NDArray[np.int64]
    types: list[str]


class Transitions(NamedTuple):
    """``allowed[i, j]``: label j may follow label i; ``start[j]``: may be first; ``stop[i]``: may be last."""

    allowed: NDArray[np.bool_]
    start: NDArray[np.bool_]
    stop: NDArray[np.bool_]


def spans(tags: Sequence[str], scheme: str) -> list[Span]:
    """The chunks of one sentence, in order; InputError if a tag is ill-formed.

    For a corpus, ``span_table`` is many times faster.

    Examples
    --------
    >>> spans(["B-PER", "I-PER", "O", "B-LOC"], "IOB2")
    [Span(start=0, end=2, type='PER'), Span(start=3, end=4, type='LOC')]
    """
    table = span_table([tags], scheme)
    columns = zip(table.start.tolist(), table.end.tolist(), table.type.tolist(), strict=True)
    return [Span(start, end, table.types[kind]) for start, end, kind in columns]


def span_table(sentences: Sentences, scheme: str) -> SpanTable:
    """The chunks of all sentences, as arrays.

    Examples
    --------
    >>> table = span_table([["B-PER", "I-PER"], ["O", "B-LOC"]], "IOB2")
    >>> table.sentence.tolist(), table.start.tolist(), table.end.tolist(), table.type.tolist(), table.types
    ([0, 1], [0, 1], [2, 2], [1, 2], ['', 'PER', 'LOC'])
    """
    reading = read_well_formed(sentences, scheme)
    first, last = np.flatnonzero(reading.first), np.flatnonzero(reading.last)
    offsets = reading.column.offsets
    sentence = np.searchsorted(offsets, first, side="right") - 1
    begin = offsets[sentence]
    return SpanTable(sentence, first - begin, last + 1 - begin, reading.type_of[first], reading.types)


def tags_from_spans(spans: Iterable[tuple[int, int, str]], length: int, scheme: str) -> list[str]:
    """The tags of a sentence of ``length`` tokens with these chunks (start, end, type), end exclusive.

    Examples
    --------
    >>> tags_from_spans([(0, 2, "PER"), (2, 3, "PER")], 4, "IOB1")
    ['I-PER', 'I-PER', 'B-PER', 'O']
    """
    letters = RULES[scheme_name(scheme)].letters
    tags = ["O"] * length
    before: tuple[int, int, str] = (0, 0, "")
    for start, end, kind in sorted(spans):
        if not 0 <= start < end <= length:
            raise InputError(f"span {(start, end, kind)} is empty or not within {length} tokens")
        if start < before[1]:
            raise InputError(f"spans {before} and {(start, end, kind)} overlap")
        touching = start > 0 and before[1:] == (start, kind)
        roles = [1 + 4 * touching, *[2] * (end - start - 2), 3] if end - start > 1 else [4 + 2 * touching]
        tags[start:end] = [join_tag(letters[role], kind) for role in roles]
        before = (start, end, kind)
    return tags


def check(tags: Sequence[str], scheme: str) -> None:
    """Raise an InputError that names the first ill-formed tag of a sentence, if there is one.

    Examples
    --------
    >>> check(["O", "I-PER"], "IOB2")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    partwise.exceptions.InputError: sentence 0, token 1: I-PER should be B-PER (only token of a chunk in
    IOB2); repair_report counts and replaces such tags
    """
    read_well_formed([tags], scheme)


def convert(tags: Sequence[str], source: str, target: str) -> list[str]:
    """The same chunks in another scheme; InputError if a tag is ill-formed in ``source``.

    Examples
    --------
    >>> convert(["I-PER", "I-PER", "B-PER", "O"], "IOB1", "IOBES")
    ['B-PER', 'E-PER', 'S-PER', 'O']
    """
    return convert_all([tags], source, target)[0]


@overload
def convert_all(sentences: CodedColumn, source: str, target: str) -> CodedColumn: ...  # type: ignore[overload-overlap]
@overload
def convert_all(sentences: Sequence[Sequence[str]], source: str, target: str) -> list[list[str]]: ...
def convert_all(sentences: Sentences, source: str, target: str) -> list[list[str]] | CodedColumn:
    """``convert`` for all sentences at once; coded tags come back coded.

    Examples
    --------
    >>> convert_all([["B-PER", "I-PER"], ["O", "B-LOC"]], "IOB2", "IOBES")
    [['B-PER', 'E-PER'], ['O', 'S-LOC']]
    """
    scheme_name(target)
    converted = write_tags(read_well_formed(sentences, source), target)
    return converted if is_coded(sentences) else converted.to_lists()


def legal_transitions(labels: Sequence[str], scheme: str) -> Transitions:
    """``allowed[i, j]`` iff a well-formed sequence may hold ``labels[i], labels[j]`` side by side.

    Examples
    --------
    >>> allowed, start, stop = legal_transitions(["O", "B-X", "I-X"], "IOB2")
    >>> allowed.astype(int).tolist(), start.tolist(), stop.tolist()
    ([[1, 1, 0], [1, 1, 1], [1, 1, 1]], [True, True, False], [True, True, True])
    """
    name = scheme_name(scheme)
    rules = RULES[name]
    letters, kinds = [], []
    for label in labels:
        parts = split_tag(label, name) if isinstance(label, str) else None
        if parts is None or parts[0] not in rules.letters:
            raise InputError(f"label {label!r} is not a tag of {name}")
        letters.append(parts[0])
        kinds.append(parts[1])
    kind = np.array(kinds, dtype=object)
    same = kind[:, None] == kind[None, :]
    inside = np.isin(letters, ("B", "I"))
    needs_before = np.isin(letters, list(rules.need_before))
    needs_after = np.isin(letters, list(rules.need_after))
    goes_on = same & inside[:, None] & needs_before[None, :]
    allowed = goes_on | (~needs_before[None, :] & ~needs_after[:, None])
    return Transitions(allowed, ~needs_before, ~needs_after)
