"""Ill-formed chunk tags: finding the scheme that fits, replacing what does not; use it through ``tags``."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, encode
from partwise.exceptions import InputError, ParameterError
from partwise.sequences.tag_schemes import ROLES, Repair, Sentences, read_tags, repair_at, scheme_name, write_tags

__all__ = ["RepairReport", "detect_scheme", "repair", "repair_report", "repaired", "well_formed"]

#: So many of the tags inside chunks may be slips; beyond that the data are taken to be in another scheme.
SLIPS = 0.01


@dataclass(frozen=True, eq=False)
class RepairReport:
    """What ``repair_report`` changed.

    Attributes
    ----------
    scheme : str
    repaired : CodedColumn
        The well-formed tags.
    counts : dict of str to int
        Number of tags replaced, by kind, most frequent first.
    examples : dict of str to list of (sentence, Repair)
    sentences : int array
        Indices of the sentences that changed.
    """

    scheme: str
    repaired: CodedColumn
    counts: dict[str, int]
    examples: dict[str, list[tuple[int, Repair]]]
    sentences: NDArray[np.int64]

    @property
    def total(self) -> int:
        """Number of tags replaced."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        tokens, sentences = len(self.repaired.codes), len(self.repaired.offsets) - 1
        share = f"{self.total} of {tokens} tags replaced, in {len(self.sentences)} of {sentences} sentences"
        rows = [f"{self.scheme}: {share}"]
        for kind, count in self.counts.items():
            rows.append(f"{count:8d}  {kind}")
            for sentence, fix in self.examples[kind]:
                rows.append(f"{'':10}sentence {sentence}, token {fix.token}: {fix.old} -> {fix.new}")
        return "\n".join(rows)


def repair(tags: Sequence[str], scheme: str) -> tuple[list[str], list[Repair]]:
    """Well-formed tags for one sentence, with what was replaced.

    Chunks are read as the evaluation script conlleval does, so that a repair does not change a score.

    Examples
    --------
    >>> tags, repairs = repair(["O", "I-PER", "I-LOC"], "IOB2")
    >>> tags
    ['O', 'B-PER', 'B-LOC']
    >>> repairs[0]
    Repair(token=1, old='I-PER', new='B-PER', kind='I where B belongs (only token of a chunk)')
    """
    reading = read_tags([tags], scheme_name(scheme))
    replaced = [repair_at(reading, int(t)) for t in np.flatnonzero(reading.wrong)]
    return write_tags(reading, scheme).to_lists()[0], replaced


def repair_report(sentences: Sentences, scheme: str, examples: int = 3) -> RepairReport:
    """Repair all sentences and count what was replaced, by kind, with a few examples of each.

    Examples
    --------
    >>> print(repair_report([["O", "I-PER"], ["B-LOC", "I-LOC"]], "IOB2"))
    IOB2: 1 of 4 tags replaced, in 1 of 2 sentences
           1  I where B belongs (only token of a chunk)
              sentence 0, token 1: I-PER -> B-PER
    """
    name = scheme_name(scheme)
    reading = read_tags(sentences, name)
    wrong = np.flatnonzero(reading.wrong)
    sentence_of = np.searchsorted(reading.column.offsets, wrong, side="right") - 1
    counts: Counter[str] = Counter()
    shown: dict[str, list[tuple[int, Repair]]] = {}
    # Few kinds exist (a letter in a role), so the loop is over kinds, not over tokens.
    kinds = reading.letter_of[wrong] * len(ROLES) + reading.roles[wrong]
    for kind in np.unique(kinds):
        members = np.flatnonzero(kinds == kind)
        found = [(int(sentence_of[m]), repair_at(reading, int(wrong[m]))) for m in members[: max(examples, 1)]]
        label = found[0][1].kind
        counts[label] = len(members)
        shown[label] = found[:examples]
    return RepairReport(name, write_tags(reading, name), dict(counts.most_common()), shown, np.unique(sentence_of))


def well_formed(sentences: Sentences, scheme: str, *, repair: bool = True, path: str = "") -> RepairReport:
    """``repair_report`` of labels to learn from, which are meant to be tags of this scheme.

    InputError if they are rather tags of another scheme, and without ``repair`` where a single one is ill-formed.

    Examples
    --------
    >>> well_formed([["B-LOC", "I-PER"]], "IOB2", repair=False)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    partwise.exceptions.InputError: label I-PER at position 1 of sequence 0: it should be B-PER (only token of a
    chunk in IOB2); repair=True replaces such labels
    """
    name, column = scheme_name(scheme), encode(sentences, "labels")
    where = f"{path}: " if path else ""
    try:
        report = repair_report(column, name, examples=1)
    except InputError as error:
        raise InputError(f"{where}{error}{_rather(column, name)}") from None
    if not report.total:
        return report
    inside = sum(column.vocab[code] != "O" for code in column.codes.tolist())
    if report.total > SLIPS * inside and (other := _rather(column, name)):
        raise InputError(f"{where}{report.total} of {inside} tags inside chunks are ill-formed in {name}{other}")
    if not repair:
        sentence, fix = min((found[0] for found in report.examples.values()), key=lambda pair: (pair[0], pair[1].token))
        reason = fix.kind.partition("(")[2].rstrip(")")
        raise InputError(
            f"{where}label {fix.old} at position {fix.token} of sequence {sentence}: it should be {fix.new} "
            f"({reason} in {name}); repair=True replaces such labels"
        )
    return report


def repaired(labels: Sentences, scheme: str, repair: bool) -> CodedColumn:
    """The labels that ``fit`` learns from: those given, ill-formed ones replaced, with a warning that counts them."""
    report = well_formed(labels, scheme, repair=repair)
    if report.total:
        sentence, fix = next(iter(report.examples.values()))[0]
        warnings.warn(
            f"{report.total} of {len(report.repaired.codes)} labels are ill-formed in {report.scheme} and were "
            f"repaired, such as {fix.old} → {fix.new} at position {fix.token} of sequence {sentence} ({fix.kind}); "
            "repair=False makes them an error",
            UserWarning,
            stacklevel=6,
        )
    return report.repaired


def _rather(column: CodedColumn, scheme: str) -> str:
    """The end of a message: which other scheme the tags are of, and what to do; empty where they are of none."""
    try:
        found = detect_scheme(column)
    except InputError:
        return ""
    if found == scheme:
        return ""
    how = f"tags.convert_all(y, {found!r}, {scheme!r})"
    return f"; they look like {found}: use scheme={found!r}, or convert them with {how}"


def detect_scheme(sentences: Sentences, tolerance: float = SLIPS) -> str:
    """The scheme in which the fewest tags are ill-formed, at most ``tolerance`` of those inside chunks.

    Real data has slips (two needless B tags in the CoNLL-2003 training set), hence a tolerance; they
    still have to be repaired before ``convert``. InputError if no scheme fits, or where there is no
    chunk at all.

    Examples
    --------
    >>> detect_scheme([["O", "I-PER", "B-PER"]]), detect_scheme([["O", "B-PER", "E-PER"]])
    ('IOB1', 'IOBES')
    """
    if not 0 <= tolerance < 1:
        raise ParameterError("tolerance", "detect_scheme", "in [0, 1)", tolerance)
    column = encode(sentences, "tags")
    used = np.bincount(column.codes, minlength=len(column.vocab))
    uses = {tag: int(count) for tag, count in zip(column.vocab, used, strict=True) if count and tag != "O"}
    if not uses:
        raise InputError("no chunk in any sentence: every tag scheme fits")
    bilou = any(tag.startswith(("L", "U")) for tag in uses)
    candidates = ["BILOU"] if bilou else ["IOB1", "IOB2", "IOBES"]
    wrong = {name: int(read_tags(column, name).wrong.sum()) for name in candidates}
    best = min(candidates, key=wrong.__getitem__)
    inside = sum(uses.values())
    if wrong[best] > tolerance * inside:
        found = ", ".join(f"{count} in {name}" for name, count in wrong.items())
        raise InputError(f"no tag scheme fits: of {inside} tags inside chunks, these many are ill-formed: {found}")
    return best
