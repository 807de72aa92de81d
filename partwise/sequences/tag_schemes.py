"""What the tag schemes are, and how tags are read and written in them; ``tags`` explains both.

A token has a role in its chunk (first, inner, last, ...), and a scheme gives each role a letter. Reading
finds the roles whatever the letters; a tag whose letter is not that of its role is ill-formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, encode
from partwise.exceptions import InputError, unknown_name

__all__ = [
    "ROLES",
    "RULES",
    "SCHEMES",
    "Reading",
    "Repair",
    "Sentences",
    "join_tag",
    "read_tags",
    "read_well_formed",
    "repair_at",
    "scheme_name",
    "split_tag",
    "write_tags",
]

Sentences = Sequence[Sequence[str]] | CodedColumn


class Scheme(NamedTuple):
    """A scheme is which letter each role gets, and which letters depend on a neighbour."""

    # One letter per role, in the order of ROLES.
    letters: str
    # Letters that need, right before them, a B or I of the same type.
    need_before: str
    # Letters that need, right after them, one of ``need_before`` of the same type.
    need_after: str


ROLES = (
    "outside",
    "first token of a chunk",
    "inner token of a chunk",
    "last token of a chunk",
    "only token of a chunk",
    "first token of a chunk right after one of the same type",
    "only token of a chunk right after one of the same type",
)
_IS_FIRST = np.array([False, True, False, False, True, True, True])
_IS_LAST = np.array([False, False, False, True, True, False, True])
# Index: 1 where the token is the first of its chunk, plus 2 where the last, plus 4 where it touches.
_ROLE_OF = np.array([2, 1, 3, 4, -1, 5, -1, 6])

RULES = {
    "IOB1": Scheme("OIIIIBB", need_before="B", need_after=""),
    "IOB2": Scheme("OBIIBBB", need_before="I", need_after=""),
    "IOBES": Scheme("OBIESBS", need_before="IE", need_after="BI"),
    "BILOU": Scheme("OBILUBU", need_before="IL", need_after="BI"),
}
SCHEMES = tuple(RULES)
_ALIASES = {"BIO": "IOB2", "BIO2": "IOB2", "BIOES": "IOBES", "BIOLU": "BILOU"}
_LETTERS = "OBIESLU"
_LETTER_OF_ROLE = {name: np.array([_LETTERS.index(x) for x in rules.letters]) for name, rules in RULES.items()}
_OPENS = np.array([letter in "BSU" for letter in _LETTERS])
_CLOSES = np.array([letter in "ESLU" for letter in _LETTERS])


class Repair(NamedTuple):
    """Tag ``old`` at ``token`` was replaced by ``new``; ``kind`` says why."""

    token: int
    old: str
    new: str
    kind: str


def scheme_name(scheme: str) -> str:
    """The canonical name of a scheme.

    Examples
    --------
    >>> scheme_name("bio"), scheme_name("BIOES"), scheme_name("bilou")
    ('IOB2', 'IOBES', 'BILOU')
    """
    upper = scheme.upper() if isinstance(scheme, str) else scheme
    name = _ALIASES.get(upper, upper)
    if name not in RULES:
        raise unknown_name("scheme", scheme, [*RULES, *_ALIASES])
    return name


class Reading(NamedTuple):
    """Tags split into letter, type and role in a chunk, token by token."""

    column: CodedColumn
    scheme: str
    types: list[str]
    letter_of: NDArray[np.int64]
    type_of: NDArray[np.int64]
    roles: NDArray[np.int64]
    # Tokens whose letter is not the one the scheme gives their role.
    wrong: NDArray[np.bool_]

    @property
    def first(self) -> NDArray[np.bool_]:
        """Tokens that are the first of their chunk."""
        return _IS_FIRST[self.roles]

    @property
    def last(self) -> NDArray[np.bool_]:
        """Tokens that are the last of their chunk."""
        return _IS_LAST[self.roles]


def read_tags(sentences: Sentences, scheme: str) -> Reading:
    """The role of every token, ill-formed or not; InputError if a tag is none of any scheme."""
    column = encode(sentences, "tags")
    codes, vocab, offsets = column
    types: dict[str, int] = {"": 0}
    letters_of_tag, types_of_tag = np.zeros(len(vocab), np.int64), np.zeros(len(vocab), np.int64)
    for code in np.flatnonzero(np.bincount(codes, minlength=len(vocab))):
        parts = split_tag(vocab[code], scheme)
        if parts is None:
            place = column.place(int(np.argmax(codes == code)))
            raise InputError(f"{place}: {vocab[code]!r} is not a chunk tag")
        letters_of_tag[code] = _LETTERS.index(parts[0])
        types_of_tag[code] = types.setdefault(parts[1], len(types))
    letter, kind = letters_of_tag[codes], types_of_tag[codes]

    inside = letter > 0
    opens, closes = _OPENS[letter], _CLOSES[letter]
    nonempty = np.flatnonzero(np.diff(offsets))
    # goes_on[t]: tokens t - 1 and t are of one sentence, both inside and of one type.
    goes_on = np.zeros(len(codes), bool)
    goes_on[1:] = inside[1:] & inside[:-1] & (kind[1:] == kind[:-1])
    goes_on[offsets[nonempty]] = False
    first = inside & ~goes_on
    first |= inside & opens
    first[1:] |= inside[1:] & closes[:-1]
    last = inside.copy()
    last[:-1] &= first[1:] | ~goes_on[1:]
    touching = first & goes_on
    roles = np.where(inside, _ROLE_OF[first + 2 * last + 4 * touching], 0)
    wrong = letter != _LETTER_OF_ROLE[scheme][roles]
    return Reading(column, scheme, list(types), letter, kind, roles, wrong)


def read_well_formed(sentences: Sentences, scheme: str) -> Reading:
    """``read_tags``, but InputError if a tag is ill-formed."""
    reading = read_tags(sentences, scheme_name(scheme))
    if reading.wrong.any():
        token = int(np.argmax(reading.wrong))
        fix, reason = repair_at(reading, token), ROLES[reading.roles[token]]
        raise InputError(
            f"{reading.column.place(token)}: {fix.old} should be {fix.new} "
            f"({reason} in {reading.scheme}); repair_report counts and replaces such tags"
        )
    return reading


def repair_at(reading: Reading, token: int) -> Repair:
    """What the ill-formed tag at an index into all tokens should be."""
    codes, vocab, offsets = reading.column
    role = int(reading.roles[token])
    old, new = _LETTERS[reading.letter_of[token]], RULES[reading.scheme].letters[role]
    kind = f"{old} where {new} belongs ({ROLES[role]})"
    begin = int(offsets[np.searchsorted(offsets, token, side="right") - 1])
    new_tag = join_tag(new, reading.types[reading.type_of[token]])
    return Repair(token - begin, vocab[codes[token]], new_tag, kind)


def write_tags(reading: Reading, scheme: str) -> CodedColumn:
    """The chunks that were read, as tags of a scheme."""
    letters = RULES[scheme_name(scheme)].letters
    ids = reading.roles * len(reading.types) + reading.type_of
    # Roles share letters, so distinct (role, type) pairs may share a tag: number the tags, not the pairs.
    vocab: dict[str, int] = {}
    code_of_id = np.zeros(len(ROLES) * len(reading.types), np.int32)
    for used in np.flatnonzero(np.bincount(ids, minlength=len(code_of_id))).tolist():
        role, kind = divmod(used, len(reading.types))
        code_of_id[used] = vocab.setdefault(join_tag(letters[role], reading.types[kind]), len(vocab))
    return CodedColumn(code_of_id[ids], list(vocab), reading.column.offsets)


def split_tag(tag: str, scheme: str) -> tuple[str, str] | None:
    """Letter and type of a tag, or None if it is no chunk tag."""
    letter, hyphen, kind = tag.partition("-")
    letters = tuple("BILU" if scheme == "BILOU" else "BIES")
    known = tag == "O" or (letter in letters and bool(hyphen) == bool(kind))
    return (letter, kind) if known else None


def join_tag(letter: str, kind: str) -> str:
    """The tag of a letter and a type."""
    return f"{letter}-{kind}" if kind else letter
