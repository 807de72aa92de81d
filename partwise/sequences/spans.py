"""Spans with their probabilities: P(the output has exactly this chunk) under the chain's distribution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn
from partwise.exceptions import ParameterError
from partwise.features.layout import ChainFeatures
from partwise.sequences._decoding import in_blocks, span_probabilities
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
    best: CodedColumn,
    scheme: str,
    threads: int = 1,
) -> list[list[SpanPrediction]]:
    """log P(span) = log Z(outputs with it) − log Z: one forward pass of the pinned chain per span.

    The chain is that of legal sequences. In IOB2 a chunk ends where no I- of its type follows; the schemes with end
    tags say so themselves.
    """
    scheme = scheme_name(scheme)
    if scheme == "IOB1":
        raise ParameterError("scheme", "predict_spans", "IOB2, IOBES or BILOU (convert the tags first)", scheme)
    number = {label: j for j, label in enumerate(best.vocab)}
    sentences = best.to_lists()
    found = [spans(tags, scheme) for tags in sentences]
    rows = []
    for tags, chunks in zip(sentences, found, strict=True):
        for start, stop, type_ in chunks:  # the tags of a chunk are those it was read from: no others write it
            ends = scheme == "IOB2" and stop < len(tags)
            rows.append((start, stop, number.get(join_tag("I", type_), -1) if ends else -1))
    first = np.append(0, np.cumsum([len(chunks) for chunks in found])).astype(np.int64)
    table, probabilities = np.array(rows, np.int64).reshape(-1, 3), np.empty(len(rows))
    settings = (theta, beta, best.codes, first, table)
    in_blocks(threads, span_probabilities, space, features, settings, (probabilities,))
    shares = iter(probabilities.tolist())
    return [[SpanPrediction(*chunk, next(shares)) for chunk in chunks] for chunks in found]
