"""Joint tagging and chunking of CoNLL-2000: one training and its test scores, for the experiments of §4.2 to §5."""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from _chunks import read

from partwise.experiment import Context
from partwise.learners.laso.learner import LaSO
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.segmentation.joint import JointLabeler
from partwise.sequences.tokens import token_accuracy

#: Words are all that is given: no lists, no tags of other corpora.
SETTINGS: dict[str, Any] = {}
#: LaSO-A as in JointLabeler; chosen on training sentences that were held out (docs/experiments.md).
LASO_A: dict[str, Any] = {"update": "alma", "rivals": "ahead", "margin_scale": 10.0, "passes": 15}
QUICK: dict[str, Any] = {"frequent": 2, "hash_bits": 12, "folds": 3}


@cache
def prepared(context: Context, sentences: int | None = None) -> tuple[JointLabeler, Any, float]:
    """(a labeller whose chains are trained and whose attributes are fixed, its training data, CPU seconds)."""
    begin = time.process_time()
    train = read(context, "train")
    if sentences is not None:
        train = train.subset(slice(0, sentences))
    model = JointLabeler(**(QUICK if context.quick else SETTINGS))
    data = model.training(train.coded("word"), (train.coded("pos"), train.coded("chunk")))
    return model, data, time.process_time() - begin


@cache
def encoded_test(context: Context) -> tuple[Any, float]:
    """(θ, beam → labels of the test data; CPU seconds of the guesses and attributes before it)."""
    begin = time.process_time()
    decode = prepared(context, context.sentences)[0]._decode(read(context, "test").coded("word"))
    return decode, time.process_time() - begin


def decoder(context: Context) -> Any:
    return encoded_test(context)[0]


def train(settings: dict[str, Any], context: Context, sentences: int | None = None) -> tuple[Any, float]:
    """(result, CPU seconds) of one training, with its dictionaries and chains, on these sentences or the context's."""
    _, data, before = prepared(context, sentences or context.sentences)
    wanted = ("update", "mode", "beam", "rivals", "alpha", "margin_scale", "average", "random_state")
    learner = LaSO(max_passes=settings["passes"], **{key: settings[key] for key in wanted if key in settings})
    begin = time.process_time()
    result = learner.fit(data)
    return result, before + time.process_time() - begin


def part(context: Context) -> str:
    """What a table begins with, where not all training sentences were used."""
    if context.quick:
        return "Quick variant: the embedded sample.\n\n"
    return "" if context.sentences is None else f"Trained on the first {context.sentences} sentences.\n\n"


def scores(theta: Any, beam: int, context: Context) -> dict[str, float]:
    """Tag accuracy, chunk-tag accuracy, both right, and chunk F1 on the test data; CPU seconds of tagging."""
    test, (decode, before) = read(context, "test"), encoded_test(context)
    begin = time.process_time()
    tags, chunks = decode(theta, beam)
    seconds = before + time.process_time() - begin
    gold_tags, gold_chunks = test.column("pos"), test.column("chunk")
    pairs = zip(gold_tags, tags.to_lists(), gold_chunks, chunks.to_lists(), strict=True)
    both = [a == b and c == d for row in pairs for a, b, c, d in zip(*row, strict=True)]
    return {
        "tag": token_accuracy(test.coded("pos"), tags),
        "chunk": token_accuracy(test.coded("chunk"), chunks),
        "joint": sum(both) / len(both),
        "f1": chunk_scores(test.coded("chunk"), chunks).f1,
        "testing": seconds,
    }
