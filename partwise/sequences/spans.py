"""Spans with their probabilities: P(the output has exactly this chunk) under the chain's distribution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import ParameterError
from partwise.features.layout import ChainFeatures
from partwise.sequences.tag_schemes import join_tag, scheme_name
from partwise.sequences.tags import spans
from partwise.structures.chain import Chain

__all__ = ["SpanPrediction", "predict_spans"]


class SpanPrediction(NamedTuple):
    """Positions start ≤ t < stop, the type, and the probability that exactly this chunk is there."""

    start: int
    stop: int
    type: str
    probability: float


def predict_spans(
    space: Chain,
    features: ChainFeatures,
    theta: NDArray[np.float64],
    beta: float,
    best: list[list[str]],
    classes: list[str],
    scheme: str,
) -> list[list[SpanPrediction]]:
    """log P(span) = log Z(outputs with it) − log Z: one forward pass of the pinned chain a span.

    The chain is that of legal sequences. In IOB2 a chunk ends where no I- of its type follows; the schemes with end
    tags say so themselves.
    """
    scheme = scheme_name(scheme)
    if scheme == "IOB1":
        raise ParameterError("scheme", "predict_spans", "IOB2, IOBES or BILOU (convert the tags first)", scheme)
    number = {label: j for j, label in enumerate(classes)}
    found: list[list[SpanPrediction]] = []
    for i, tags in enumerate(best):
        scores = beta * features.scores(i, theta)
        total, _ = space.marginals(i, scores)
        here = []
        for start, stop, type_ in spans(tags, scheme):
            pinned = scores.copy()
            atoms = pinned[: space.n_atoms(i)].reshape(-1, space.n_labels)
            for t in range(start, stop):  # the tags of a chunk are those it was read from: no others write it
                keep = atoms[t, number[tags[t]]]
                atoms[t] = -np.inf
                atoms[t, number[tags[t]]] = keep
            inside = join_tag("I", type_)
            if scheme == "IOB2" and stop < len(tags) and inside in number:
                atoms[stop, number[inside]] = -np.inf
            with_span, _ = space.marginals(i, pinned)
            here.append(SpanPrediction(start, stop, type_, float(min(np.exp(with_span - total), 1.0))))
        found.append(here)
    return found
