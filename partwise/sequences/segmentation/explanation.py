"""Why this segment: the weights for its label and against a rival label over the same tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.estimation.contribution import Contribution, contribution_lines
from partwise.exceptions import InputError
from partwise.features.layout import RowLayout
from partwise.sequences.segmentation._keys import KINDS
from partwise.sequences.segmentation.encoding import SegmentEncoder

__all__ = ["SegmentExplanation", "explain_segment"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SegmentExplanation:
    """The score of a segment with its label minus that with a rival label, weight by weight."""

    start: int
    stop: int
    label: str
    rival: str
    contributions: list[Contribution]  # largest |difference| first

    @property
    def margin(self) -> float:
        """Σ of the differences: how far the label leads, whatever the neighbours are."""
        return sum(c.difference for c in self.contributions)

    def __str__(self) -> str:
        title = (
            f"tokens {self.start}..{self.stop - 1}: {self.label} rather than {self.rival}, margin {self.margin:+.3f}"
        )
        return "\n".join([title, *contribution_lines(self.contributions)])


def explain_segment(
    encoder: SegmentEncoder, theta: Floats, X: Any, start: int, stop: int, label: str | None, against: str | None
) -> SegmentExplanation:
    """The explanation of tokens start … stop − 1 of the only sequence in X."""
    space, features = encoder.transform([X] if isinstance(X, list) else X)
    if len(space) != 1:
        raise InputError(f"explain takes one sequence; got {len(space)}")
    if not 0 <= start < stop <= space.lengths[0]:
        raise InputError(f"segment {start}..{stop - 1} is empty or not within {space.lengths[0]} tokens")
    theta = theta[: features.dim]  # without what a search says of the labels before
    scores, table = features.scores(0, theta), space.atoms(0)
    here = np.flatnonzero((table.start == start) & (table.stop == stop))
    able = {encoder.labels[table.label[r]]: float(scores[r]) for r in here}
    for name in (label, against):
        if name is not None and name not in able:
            raise InputError(f"no segment of {stop - start} tokens has label {name!r}; possible: {', '.join(able)}")
    ranked = sorted(able, key=lambda name: -able[name])
    label = ranked[0] if label is None else label
    if against is None:
        if len(ranked) < 2:
            raise InputError(f"no rival: {label!r} is the only label of segments of {stop - start} tokens")
        against = next(name for name in ranked if name != label)
    pair = encoder.labels.index(label), encoder.labels.index(against)
    found = [*_tokens(encoder, features.pack, theta, start, stop, pair), *_whole(encoder, theta, X, start, stop, pair)]
    base, within = features.pack.base + stop - start - 1, space.pack.within[-1]
    found.append(Contribution(f"length={stop - start}", 1.0, *(float(theta[base + within[b]]) for b in pair)))
    found.sort(key=lambda c: -abs(c.difference))
    return SegmentExplanation(start, stop, label, against, found)


def _tokens(
    encoder: SegmentEncoder, pack: Any, theta: Floats, start: int, stop: int, pair: tuple[int, int]
) -> list[Contribution]:
    names, n = encoder.tokens.names(), len(encoder.labels)
    roles = [
        ("first", pack.tokens, encoder.token_layout, start, 0),
        ("last", pack.lasts, encoder.last_layout, stop - 1, 0),
    ]
    roles += [("rest", pack.tokens, encoder.token_layout, j, n) for j in range(start + 1, stop)]
    found = []
    for role, rows, layout, token, shift in roles:
        for attribute, value in zip(*encoder.entries(rows, layout, token), strict=True):
            weights = [_weight(layout, theta, attribute, shift + b) for b in pair]
            found.append(Contribution(f"{role}: {names[attribute]} (token {token})", float(value), *weights))
    return found


def _weight(layout: RowLayout, theta: Floats, attribute: int, output: int) -> float:
    """The weight of one (attribute, output) pair, 0 where there is none."""
    rank = int(layout.rank[attribute])
    if rank < layout.n_dense:
        return float(theta[layout.base + rank * layout.n_outputs + output])
    first, last = layout.pair_start[rank - layout.n_dense : rank - layout.n_dense + 2]
    place = np.flatnonzero(layout.pair_output[first:last] == output)
    at = layout.base + layout.n_dense * layout.n_outputs + first
    return float(theta[at + place[0]]) if len(place) else 0.0


def _whole(
    encoder: SegmentEncoder, theta: Floats, X: Any, start: int, stop: int, pair: tuple[int, int]
) -> list[Contribution]:
    """Features of the whole segment: the base, the kind, and their weights."""
    found = []
    first_whole = len(theta) - len(encoder.keys)
    for number, key in enumerate(encoder.segment_keys(X, start, stop)):
        place = np.searchsorted(encoder.keys.keys, key)
        if key == 0 or place == len(encoder.keys.keys) or encoder.keys.keys[place] != key:
            continue
        span = range(int(encoder.keys.first[place]), int(encoder.keys.first[place + 1]))
        weights = {int(encoder.keys.labels[w]): float(theta[first_whole + w]) for w in span}
        base, kind = divmod(number, len(KINDS))
        name = f"{encoder.bases[base]} {KINDS[kind]}"
        found.append(Contribution(name, 1.0, *(weights.get(b, 0.0) for b in pair)))
    return found
