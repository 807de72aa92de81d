"""Prediction in several processes: each labels byte ranges of the file, and the texts come back in their order.

What cannot be cut at a byte (a pipe, a compressed file) is parsed here, and the processes label the pieces.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from partwise.data.spans import Reading, Span, plan_spans, span_blocks
from partwise.data.streams import COMPRESSED, open_bytes
from partwise.sequences.commands._files import FileLayout
from partwise.sequences.commands._models import open_model

if TYPE_CHECKING:
    from partwise.data.columns import Columns

__all__ = ["predicted_texts"]

#: Bytes of a piece: large beside what a piece costs by itself, small beside a file worth several processes.
SPAN_BYTES = 1 << 22


def predicted_texts(args: argparse.Namespace, layout: FileLayout, context: str) -> Iterator[str]:
    """The output, piece by piece, the same as one process writes."""
    settings = (args, layout, context)
    pieces = _pieces(args, layout, context)
    waiting: deque[Future[list[str]]] = deque()
    with ProcessPoolExecutor(args.workers, get_context("spawn"), _begin, settings) as pool:
        try:
            for piece in chain(pieces, [None] * (2 * args.workers)):  # a few pieces ahead, no more
                if piece is not None:
                    waiting.append(pool.submit(_label, *piece))
                if waiting and (piece is None or len(waiting) > 2 * args.workers):
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _pieces(args: argparse.Namespace, layout: FileLayout, context: str) -> Iterator[tuple[Any, ...]]:
    """(span, line before it), or (block, document that is announced before it)."""
    if args.file == "-" or args.file.endswith(COMPRESSED):
        announced = -1
        for block in layout.blocks(args.file, context):
            yield block, announced
            announced = int(block.documents[-1])
        return
    reading = _reading(layout, context)
    before = 0
    for [span] in plan_spans([args.file], reading, SPAN_BYTES):
        yield span, before
        if args.json or args.spans:  # only they tell lines
            before += _lines(span)


def _reading(layout: FileLayout, context: str) -> Reading:
    return Reading(None, layout.separator, layout.comment, encoding=layout.encoding or "utf-8", whole=context)


def _lines(span: Span) -> int:
    if span.stop is None:
        return 0
    with open_bytes(span.path) as file:
        file.seek(span.start)
        left, found = span.stop - span.start, 0
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            found += chunk.count(b"\n")
            left -= len(chunk)
    return found


_PROCESS: dict[str, Any] = {}


def _begin(args: argparse.Namespace, layout: FileLayout, context: str) -> None:
    """What a process does once: read the model."""
    from partwise.sequences.commands.predict import Renderer

    model = open_model(args.model, 1)
    for stage in model.stages if args.context == "sentence" else ():
        stage.encoder_.warns = False
    _PROCESS.update(make=partial(Renderer, model, args, layout.separator or " "), layout=layout, context=context)


def _label(piece: Span | Columns, before: int) -> list[str]:
    render, layout, context = _PROCESS["make"](), _PROCESS["layout"], _PROCESS["context"]
    if not isinstance(piece, Span):
        render.announced = before
        return [render.block(piece, layout.label, context)]
    found = []
    for block in span_blocks(piece, _reading(layout, context)):
        data = replace(layout.named(block), lines=block.lines + before)
        found.append(render.block(data, layout.label, context))
    return found
