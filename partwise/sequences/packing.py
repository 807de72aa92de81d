"""Packs of sequences: text or a stream of sentences, once through, to memory-mapped shards of features and labels.

Three passes over shards, each of which any number of processes may share. The first reads the text and counts
attributes and labels; the counts of all shards, merged in their order, are those of one pass over everything. The
second encodes every shard with the vocabulary that follows and notes which (attribute, label) pairs occur; the third
lays out the weights and writes the rows as the kernels want them. So a model trained from a pack has the same
attributes, numbers and weights as one trained in memory, and no shard is ever copied: its pages are read as they are
used.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from partwise.data.columns import CodedColumn, Columns
from partwise.data.packs import Pack, PackWriter
from partwise.data.spans import Reading, Span, expand_paths, plan_spans, read_shards
from partwise.exceptions import FormatError, InputError, ParameterError
from partwise.sequences._pack_passes import Counted, Each, Plan, count_shard, finish_pack
from partwise.sequences.encoders import StringEncoder, TemplateEncoder, make_encoder
from partwise.sequences.tag_schemes import scheme_name
from partwise.sequences.usual import USUAL, usual_names

__all__ = ["SHARD_TOKENS", "file_columns", "is_stream", "pack", "pack_stream"]

#: Tokens of a shard: enough that vectors of weights cost little beside them, few enough for many to fit in memory.
SHARD_TOKENS = 500_000


def pack(
    source: Any,
    out: str | os.PathLike[str],
    y: Any = None,
    *,
    templates: Any = None,
    columns: Sequence[str] | None = None,
    label: str | None = None,
    separator: str | None = None,
    comment: str | None = None,
    encoding: str = "utf-8",
    min_count: int = 1,
    hashing: int | None = None,
    features: str = "observed",
    scheme: str | None = None,
    repair: bool = True,
    shard_tokens: int = SHARD_TOKENS,
    workers: int = 1,
) -> Pack:
    """Write a pack that ``SequenceLabeler.fit`` trains from without holding it in memory.

    Parameters
    ----------
    source : path, pattern, address or a list of them; or sequences, or a generator of them
        Column files may be compressed (gz, bz2, xz) and may be anywhere that fsspec reaches (``s3://…``). A generator
        yields sequences as ``SequenceLabeler.fit`` takes them, or pairs (sequence, labels) where ``y`` is absent.
    out : folder to write
    y : labels of ``source`` where that is no file
    templates, columns, min_count, hashing, features, scheme, repair
        As of :class:`partwise.SequenceLabeler`. Tags are repaired here: a pack holds what is learned from.
    label, separator, comment, encoding
        Of the files: the column to learn (default: the last), what is between columns, what begins a comment, and the
        encoding.
    shard_tokens : int
        Approximate number of tokens per shard.
    workers : int
        Processes that read and encode.

    Examples
    --------
    >>> import os, tempfile, partwise
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = partwise.pack([[["a"], ["b"]]], os.path.join(folder, "t.pack"), [["X", "Y"]])
    ...     model = partwise.SequenceLabeler(max_passes=5).fit(made)
    >>> made.instances, made.tokens, model.predict([[["b"]]])
    (1, 2, [['Y']])
    """
    if features not in ("observed", "all"):
        raise ParameterError("features", "pack", "'observed' or 'all'", features)
    for name, value in (("shard_tokens", shard_tokens), ("workers", workers)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(name, "pack", "a positive integer", value)
    if scheme is not None:
        scheme = scheme_name(scheme)
    if not _is_files(source):
        how = (templates, columns, min_count, hashing, features == "all", scheme, repair, shard_tokens)
        return pack_stream(source, y, out, *how)
    if templates is None:
        raise ParameterError("templates", "pack", "a preset or template lines for column files", None)
    reading = Reading(None, separator, comment, encoding=encoding)
    paths = expand_paths(source)
    names, label = file_columns(paths[0], reading, columns, label)
    encoder = make_encoder(None, templates, None, min_count, hashing)
    assert isinstance(encoder, TemplateEncoder)
    encoder.columns = tuple(name for name in names if name != label)
    encoder.templates.check(encoder.columns)
    reading = reading._replace(columns=names, whole=encoder.templates.context)
    tasks = plan_spans(paths, reading, _span_bytes(paths[0], reading, shard_tokens))
    with PackWriter(out) as writer, _Processes(workers) as each:
        plan = Plan(encoder, label, features == "all", writer.scratch, scheme, repair)
        count = functools.partial(_count_files, plan, reading, shard_tokens)
        found = (shard for shards in each(count, enumerate(tasks)) for shard in shards)
        info = {"columns": list(names), "label": label, "separator": separator, "comment": comment, "files": paths}
        info["encoding"] = encoding
        return finish_pack(writer, plan, found, each, info)


def pack_stream(
    X: Any, y: Any, out: str | os.PathLike[str], templates: Any, columns: Sequence[str] | None, min_count: int,
    hashing: int | None, every: bool, scheme: str | None = None, repair: bool = True, shard_tokens: int = SHARD_TOKENS,
) -> Pack:  # fmt: skip
    """A pack of sequences that are given one after another; see :func:`pack`."""
    chunks = _chunks(X, y, shard_tokens)
    first = next(chunks, None)
    if first is None:
        raise InputError("no sequences were given")
    encoder = make_encoder(first[0], templates, columns, min_count, hashing)
    if not isinstance(encoder, TemplateEncoder | StringEncoder):
        raise InputError(f"packs hold attributes of strings or of templates, not {encoder.kind} rows")
    with PackWriter(out) as writer:
        plan = Plan(encoder, None, every, writer.scratch, scheme, repair)
        found = (
            count_shard(
                plan, encoder.as_columns(chunk) if isinstance(encoder, TemplateEncoder) else chunk, labels, f"{k:06d}"
            )
            for k, (chunk, labels) in enumerate(itertools.chain([first], chunks))
        )
        return finish_pack(writer, plan, found, map, {})


def is_stream(X: Any) -> bool:
    """Whether sequences come one after another, once."""
    return hasattr(X, "__next__")


def _is_files(source: Any) -> bool:
    if isinstance(source, str | os.PathLike):
        return True
    return isinstance(source, list | tuple) and len(source) > 0 and isinstance(source[0], str | os.PathLike)


class _Processes:
    """``map`` over processes, in order; the plain one where there is only one."""

    def __init__(self, workers: int) -> None:
        # spawned: threads of compiled code do not survive a fork
        self.pool = ProcessPoolExecutor(workers, get_context("spawn")) if workers > 1 else None

    def __enter__(self) -> Each:
        return map if self.pool is None else self.pool.map

    def __exit__(self, *error: Any) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)


def file_columns(path: str, reading: Reading, columns: Any, label: str | None) -> tuple[tuple[str, ...], str]:
    """Names of the columns of the files, and that of the labels among them."""
    first = next(reading.blocks(path), None)
    if first is None:
        raise FormatError("no sentences: the file has no token lines", path=path)
    width = len(first.names)
    if columns is None and not 2 <= width <= len(USUAL):
        raise FormatError(f"{width} columns; name them with columns=(…)", path=path, line=int(first.lines[0]))
    usual = columns is None and label is None
    names = usual_names(width, first.vocab[-1]) if usual else tuple(columns or USUAL[:width])
    if len(names) != width:
        raise FormatError(f"{width} columns; expected {len(names)} ({', '.join(names)})", path, int(first.lines[0]))
    label = names[-1] if label is None else label
    if label not in names or len(names) < 2:
        raise FormatError(f"no column {label!r} besides others; the columns are {', '.join(names)}", path=path)
    return names, label


def _span_bytes(path: str, reading: Reading, shard_tokens: int) -> int:
    """How many bytes hold about that many tokens, judging by the first ones."""
    first = next(reading.blocks(path))
    lengths = sum(
        int(np.array([len(word.encode()) + 1 for word in vocab])[codes].sum())
        for codes, vocab in zip(first.codes, first.vocab, strict=True)
    )
    return max(1, int((lengths + len(first)) / first.tokens * shard_tokens))


def _chunks(X: Any, y: Any, shard_tokens: int) -> Iterator[tuple[Any, Any]]:
    if isinstance(X, Columns):
        yield from _column_chunks(X, y, shard_tokens)
        return
    pairs = X if y is None else zip(X, y, strict=True)
    held: list[Any] = []
    tokens = 0
    for i, pair in enumerate(pairs):
        if not (isinstance(pair, tuple) and len(pair) == 2):
            raise InputError(f"item {i} of the stream is not a pair (sequence, labels); pass the labels as y, or pairs")
        if len(pair[0]) != len(pair[1]):
            raise InputError(f"sequence {i} has {len(pair[0])} positions in X but {len(pair[1])} in y")
        held.append(pair)
        tokens += len(pair[0])
        if tokens >= shard_tokens:
            yield [x for x, _ in held], [labels for _, labels in held]
            held, tokens = [], 0
    if held:
        yield [x for x, _ in held], [labels for _, labels in held]


def _column_chunks(X: Columns, y: Any, shard_tokens: int) -> Iterator[tuple[Any, Any]]:
    begin = 0
    if y is None or len(y.offsets if isinstance(y, CodedColumn) else y) - isinstance(y, CodedColumn) != len(X):
        raise InputError(f"X has {len(X)} sequences; expected as many sequences of labels")
    while begin < len(X):
        end = int(np.searchsorted(X.offsets, X.offsets[begin] + shard_tokens))
        end = min(max(end, begin + 1), len(X))
        while end < len(X) and X.documents[end] == X.documents[end - 1] and X.has_documents:
            end += 1
        labels = y[begin:end] if not isinstance(y, CodedColumn) else CodedColumn(
            y.codes[y.offsets[begin] : y.offsets[end]], y.vocab, y.offsets[begin : end + 1] - y.offsets[begin]
        )  # fmt: skip
        yield X.subset(slice(begin, end)), labels
        begin = end


def _count_files(plan: Plan, reading: Reading, shard_tokens: int, item: tuple[int, list[Span]]) -> list[Counted]:
    number, task = item
    limit = None if task[0].stop is not None else shard_tokens
    shards = enumerate(read_shards(task, reading, limit))
    return [
        count_shard(plan, data.without(plan.label), data.coded(str(plan.label)), f"{number:06d}-{k:06d}")
        for k, data in shards
    ]
