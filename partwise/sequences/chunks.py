"""Precision, recall and F1 over chunks, by the rules of the script conlleval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import unknown_name
from partwise.sequences.tokens import Tags, align

__all__ = ["ChunkCounts", "ChunkScores", "chunk_scores"]


class ChunkCounts(NamedTuple):
    """How many chunks are right, how many there are, how many were predicted.

    Examples
    --------
    >>> counts = ChunkCounts(correct=3, gold=4, predicted=6)
    >>> counts.precision, counts.recall, counts.f1
    (0.5, 0.75, 0.6)
    """

    correct: int
    gold: int
    predicted: int

    @property
    def precision(self) -> float:
        """correct / predicted; 0 where nothing was predicted."""
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """correct / gold; 0 where there is nothing to find."""
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """2 correct / (gold + predicted), the harmonic mean of precision and recall; 0 where both are 0."""
        return 2 * self.correct / (self.gold + self.predicted) if self.gold + self.predicted else 0.0


@dataclass(frozen=True)
class ChunkScores:
    """Chunk counts overall and by type, and the counts of right tags.

    Attributes
    ----------
    overall : ChunkCounts
    types : dict of str to ChunkCounts
        By chunk type, in alphabetical order.
    tokens, correct_tokens : int
    per_sentence : int64 array [sentences, 5]
        Chunks correct, gold, predicted; tokens correct, all. What ``bootstrap`` draws from.
    """

    overall: ChunkCounts
    types: dict[str, ChunkCounts]
    tokens: int
    correct_tokens: int
    per_sentence: NDArray[np.int64] = field(repr=False, compare=False)

    @property
    def precision(self) -> float:
        """Precision over chunks of all types."""
        return self.overall.precision

    @property
    def recall(self) -> float:
        """Recall over chunks of all types."""
        return self.overall.recall

    @property
    def f1(self) -> float:
        """F1 over chunks of all types (the micro average)."""
        return self.overall.f1

    @property
    def accuracy(self) -> float:
        """Fraction of tokens whose tag is right."""
        return self.correct_tokens / self.tokens

    def report(self) -> str:
        """The table that the conlleval script prints."""
        accuracy = 100 * self.correct_tokens / self.tokens
        rows = [
            f"processed {self.tokens} tokens with {self.overall.gold} phrases; "
            f"found: {self.overall.predicted} phrases; correct: {self.overall.correct}.",
            f"accuracy: {accuracy:6.2f}%; {_percentages(self.overall)}",
        ]
        for name, counts in self.types.items():
            rows.append(f"{name:>17}: {_percentages(counts)}  {counts.predicted}")
        return "\n".join(rows)

    __str__ = report


# What conlleval distinguishes in a tag's part before the first hyphen; "?" stands for anything else.
_PREFIXES = "OBIES[].?"
_TYPED = np.array([prefix not in "O." for prefix in _PREFIXES])


def _rule(pairs: str) -> NDArray[np.bool_]:
    """[previous, current] table from words of two letters; "*" stands for every prefix."""
    table = np.zeros((len(_PREFIXES), len(_PREFIXES)), bool)
    for pair in pairs.split():
        previous, current = (slice(None) if prefix == "*" else _PREFIXES.index(prefix) for prefix in pair)
        table[previous, current] = True
    return table


# A chunk starts, and ends, between these two tags whatever their types are. A change of type does the
# same in every scheme (``_boundaries``).
_STARTS = {
    "conlleval": _rule("*B *S OI OE EI EE SI SE *[ *]"),
    "conlleval-2004": _rule("BB IB OB OI EE EI OE *[ *]"),
}
_ENDS = {
    "conlleval": _rule("E* S* BB BS BO IB IS IO [* ]*"),
    "conlleval-2004": _rule("BB BO IB IO EE EI EO [* ]*"),
}


def chunk_scores(gold: Tags, predicted: Tags, scheme: str = "conlleval") -> ChunkScores:
    r"""Precision, recall and F1 over chunks, where a chunk is right iff its start, end and type all are.

    Chunks are read from ill-formed tags as from well-formed ones, by the rules of the script conlleval
    of the CoNLL shared tasks. A tag is a prefix and, after the first hyphen, a type. Between two tags, a
    chunk starts and ends as these pairs of prefixes say (``*`` is any), a change of type starts a chunk
    at every prefix but ``O`` and ``.``, and ends one after every prefix but these. The end of a sentence
    is an ``O``.

    =================  =================================  ================================
    scheme             starts                             ends
    =================  =================================  ================================
    "conlleval"        \*B \*S OI OE EI EE SI SE \*[ \*]  E\* S\* BB BS BO IB IS IO [\* ]\*
    "conlleval-2004"   BB IB OB OI OE EI EE \*[ \*]       BB BO IB IO EE EI EO [\* ]\*
    =================  =================================  ================================

    "conlleval-2004" is the published script to the letter, which does not know ``S`` and reads ``E-X B-X``
    as one chunk; "conlleval" is its usual extension to IOBES. They agree on IOB1, IOB2, IOE and bracket
    tags, ill-formed ones included.

    Examples
    --------
    >>> gold = [["B-NP", "I-NP", "O", "B-VP"]]
    >>> predicted = [["B-NP", "I-NP", "O", "B-NP"]]
    >>> print(chunk_scores(gold, predicted))
    processed 4 tokens with 2 phrases; found: 2 phrases; correct: 1.
    accuracy:  75.00%; precision:  50.00%; recall:  50.00%; FB1:  50.00
                   NP: precision:  50.00%; recall: 100.00%; FB1:  66.67  2
                   VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0
    """
    if scheme not in _STARTS:
        raise unknown_name("chunk scheme", scheme, _STARTS)
    pair = align(gold, predicted)
    sentences, tokens = len(pair.offsets) - 1, len(pair.gold)

    # Lay the sentences out with one boundary after each; a boundary is an "O".
    sentence_of = np.repeat(np.arange(sentences), np.diff(pair.offsets))
    places = np.arange(tokens) + sentence_of
    prefix_of, type_of, types = _parse(pair.labels, scheme)
    right = np.bincount(sentence_of[pair.gold == pair.predicted], minlength=sentences)
    sides = []
    for codes in (pair.gold, pair.predicted):
        prefix = np.zeros(tokens + sentences, np.int64)
        kind = np.zeros(tokens + sentences, np.int64)
        prefix[places], kind[places] = prefix_of[codes], type_of[codes]
        sides.append((kind, *_boundaries(prefix, kind, scheme)))
    (gold_type, gold_starts, gold_ends), (predicted_type, predicted_starts, predicted_ends) = sides

    correct = _correct_ends(
        gold_starts & predicted_starts & (gold_type == predicted_type),
        gold_ends & predicted_ends,
        (gold_ends != predicted_ends) | (gold_type != predicted_type),
    )
    sentence_at = np.repeat(np.arange(sentences), np.diff(pair.offsets) + 1)
    # A chunk that ends between t - 1 and t has the type at t - 1.
    events = (
        (correct - 1, gold_type),
        (np.flatnonzero(gold_starts), gold_type),
        (np.flatnonzero(predicted_starts), predicted_type),
    )
    by_type = [np.bincount(kind[at], minlength=len(types)).tolist() for at, kind in events]
    by_sentence = [np.bincount(sentence_at[at], minlength=sentences) for at, _ in events]
    found = {name: ChunkCounts(*(counts[k] for counts in by_type)) for k, name in enumerate(types)}
    return ChunkScores(
        overall=ChunkCounts(*map(sum, by_type)),
        types={name: found[name] for name in sorted(found) if found[name].gold or found[name].predicted},
        tokens=tokens,
        correct_tokens=int(right.sum()),
        per_sentence=np.stack([*by_sentence, right, np.diff(pair.offsets)], axis=1),
    )


def _parse(labels: list[str], scheme: str) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Prefix and type of each label, as codes; type 0 is that of "O". BILOU's L and U are E and S, but not in 2004."""
    others = {} if scheme == "conlleval-2004" else {"L": "E", "U": "S"}
    types = {"": 0}
    prefixes, kinds = [], []
    for label in labels:
        prefix, _, kind = label.partition("-")
        prefix = others.get(prefix, prefix)
        prefixes.append(_PREFIXES.index(prefix if len(prefix) == 1 and prefix in _PREFIXES else "?"))
        kinds.append(types.setdefault(kind, len(types)))
    return np.array(prefixes, np.int64), np.array(kinds, np.int64), list(types)


def _boundaries(
    prefix: NDArray[np.int64], kind: NDArray[np.int64], scheme: str
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Where a chunk starts at t, and where one ends between t - 1 and t; an "O" precedes the first tag."""
    previous = np.concatenate([[0], prefix[:-1]])
    changed = np.diff(kind, prepend=0) != 0
    starts = _STARTS[scheme][previous, prefix] | (changed & _TYPED[prefix])
    ends = _ENDS[scheme][previous, prefix] | (changed & _TYPED[previous])
    return starts, ends


def _correct_ends(starts: NDArray[np.bool_], ends: NDArray[np.bool_], mismatch: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Times t at which a chunk that started on both sides at once also ends on both at once.

    A chunk is a candidate from its joint start until, later, it ends (correct) or the sides differ
    (wrong), whichever is first. So it is correct iff, just before a joint end, the last joint start is
    no earlier than the last of those events; at one time, an end comes before a start.
    """
    time = np.arange(len(starts))
    last_start = np.maximum.accumulate(np.where(starts, time, -1))
    last_event = np.maximum.accumulate(np.where(ends | mismatch, time, -1))
    candidate = (last_start >= 0) & (last_start >= last_event)
    # One still open after the last sentence counts as correct.
    return np.flatnonzero(np.append(ends[1:], True) & candidate) + 1


def _percentages(counts: ChunkCounts) -> str:
    # In the script's order of operations, so that halves are rounded as there.
    precision = 100 * counts.correct / counts.predicted if counts.predicted else 0.0
    recall = 100 * counts.correct / counts.gold if counts.gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if counts.correct else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"
