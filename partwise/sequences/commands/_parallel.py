"""Prediction in several processes: each labels byte ranges of the file, and the texts come back in their order.

What cannot be cut at a byte (a pipe, a compressed file) is parsed here, and the processes label the pieces. They are
processes of this machine or workers of a dask cluster, which see the model and the file under the same path.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from partwise.data.spans import Reading, Span, plan_spans, span_blocks
from partwise.data.streams import COMPRESSED, is_address, open_bytes
from partwise.exceptions import ClusterError
from partwise.sequences.commands._files import FileLayout
from partwise.sequences.commands._models import open_model

if TYPE_CHECKING:
    from partwise.data.columns import Columns

__all__ = ["predicted_texts"]

#: Bytes of a piece: large beside what a piece costs by itself, small beside a file worth several processes.
SPAN_BYTES = 1 << 22


def predicted_texts(args: argparse.Namespace, layout: FileLayout, context: str) -> Iterator[str]:
    """The output, piece by piece, the same as one process writes."""
    waiting: deque[Any] = deque()
    with (_cluster if args.scheduler is not None else _processes)(args, layout, context) as (submit, n):
        for piece in chain(_pieces(args, layout, context), [None] * (2 * n)):  # a few pieces ahead, no more
            if piece is not None:
                waiting.append(submit(*piece))
            if waiting and (piece is None or len(waiting) > 2 * n):
                yield from waiting.popleft().result()
        while waiting:
            yield from waiting.popleft().result()


#: A call that labels a piece elsewhere and returns a future, and how many of them are at work at the same time.
Labelling = tuple[Callable[..., Any], int]


@contextlib.contextmanager
def _processes(args: argparse.Namespace, layout: FileLayout, context: str) -> Iterator[Labelling]:
    with ProcessPoolExecutor(args.workers, get_context("spawn"), _begin, (args, layout, context)) as pool:
        try:
            yield lambda piece, before: pool.submit(_label, piece, before), args.workers
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def _cluster(args: argparse.Namespace, layout: FileLayout, context: str) -> Iterator[Labelling]:
    """A piece that is lost with its worker is labelled by another: nothing depends on who does it."""
    from partwise.cluster.engine import check_versions, connect, lost_errors, threads_of

    settings = argparse.Namespace(**{**vars(args), "model": os.path.abspath(args.model)}), layout, context
    with connect(args.scheduler) as client:
        check_versions(client)
        label = partial(client.submit, _label_there, uuid.uuid4().hex, settings, pure=False)
        try:
            yield label, sum(threads_of(client).values())
        except lost_errors() as error:
            message = f"the cluster was lost before everything was labelled ({error}); run the same command again"
            raise ClusterError(message) from None


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
    path = args.file if args.scheduler is None or is_address(args.file) else os.path.abspath(args.file)
    for [span] in plan_spans([path], reading, SPAN_BYTES):
        yield span, before
        if args.json or args.spans:  # only they tell lines
            before += _lines(span)


def _reading(layout: FileLayout, context: str) -> Reading:
    return Reading(
        layout.only_column, layout.separator, layout.comment, encoding=layout.encoding or "utf-8", whole=context
    )


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


_HERE = threading.local()  # a worker may have several threads


def _begin(args: argparse.Namespace, layout: FileLayout, context: str) -> None:
    """What a process does once: read the model."""
    from partwise.sequences.commands.predict import Renderer

    model = open_model(args.model, 1)
    for stage in model.stages if args.context == "sentence" else ():
        stage.encoder_.warns = False
    _HERE.make, _HERE.layout, _HERE.context = partial(Renderer, model, args, layout.separator or " "), layout, context


def _label_there(run: str, settings: tuple[argparse.Namespace, FileLayout, str], piece: Any, before: int) -> list[str]:
    """The same on a worker, which may have begun with another model."""
    if getattr(_HERE, "run", None) != run:
        _begin(*settings)
        _HERE.run = run
    return _label(piece, before)


def _label(piece: Span | Columns, before: int) -> list[str]:
    render, layout, context = _HERE.make(), _HERE.layout, _HERE.context
    if not isinstance(piece, Span):
        render.announced = before
        return [render.block(piece, layout.label, context)]
    found = []
    for block in span_blocks(piece, _reading(layout, context)):
        data = replace(layout.named(block), lines=block.lines + before)
        found.append(render.block(data, layout.label, context))
    return found
