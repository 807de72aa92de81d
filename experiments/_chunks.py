"""CoNLL-2000 as inputs of search, encoded once per process for all cells of an experiment."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from partwise.data import read_columns
from partwise.data.columns import Columns
from partwise.experiment import Context, Needs
from partwise.sequences.sample import load_sample
from partwise.sequences.segmentation.encoding import SegmentEncoder, gold_segments

ORIGIN = "the CoNLL-2000 shared task on chunking (Tjong Kim Sang and Buchholz 2000)"
NEEDS = [Needs(f"conll2000/{part}.txt", ORIGIN) for part in ("train", "test")]


@cache
def read(context: Context, part: str) -> Columns:
    if context.quick:
        return load_sample("news", split=part)
    return read_columns(context.data / f"conll2000/{part}.txt", columns=("word", "pos", "chunk"))


@cache
def encoded(context: Context) -> tuple[Any, Any, Any, Any]:
    """(encoder, spaces, features, gold) of the training data."""
    train = read(context, "train")
    gold, labels = gold_segments(train.coded("chunk"), "IOB2")
    encoder = SegmentEncoder().fit(train, gold, labels, gold.limits(len(labels)))
    return (encoder, *encoder.transform(train), gold)


def minutes(seconds: float) -> str:
    """Minutes and seconds, as people write them."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def tokens(context: Context, part: str) -> int:
    return int(np.sum(read(context, part).offsets[-1]))
