"""What the columns of a file are called if nobody says so: by place, and the last one by what it holds."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["USUAL", "usual_names"]

USUAL = ("word", "pos", "chunk", "ner")
#: Types of chunks that only phrases have.
PHRASES = {"NP", "VP", "PP"}
_TAG = re.compile("[BIESLU]-(.+)")


def usual_names(width: int, labels: Iterable[str]) -> tuple[str, ...]:
    """word, pos, chunk, ner, as many as there are columns; tags of chunks in the last one make it chunk or ner.

    Examples
    --------
    >>> usual_names(2, ["NN", "VB"]), usual_names(2, ["O", "B-gene", "I-gene"]), usual_names(3, ["O", "B-PER"])
    (('word', 'pos'), ('word', 'ner'), ('word', 'pos', 'ner'))
    """
    found = [_TAG.fullmatch(label) for label in labels if label != "O"]
    last = USUAL[width - 1]
    if found and all(found):
        last = "chunk" if PHRASES & {match[1] for match in found if match} else "ner"
    before = USUAL[: width - 1]
    return USUAL[:width] if last in before else (*before, last)
