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
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, Columns
from partwise.data.packs import Pack, PackWriter, write_shard
from partwise.data.spans import Reading, Span, expand_paths, plan_spans, read_shards
from partwise.exceptions import FormatError, InputError, ParameterError, StorageError
from partwise.features.inputs import RowMatrix, Vocabulary
from partwise.features.layout import ObservedPairs, RowLayout
from partwise.sequences.encoders import Encoder, StringEncoder, TemplateEncoder, make_encoder
from partwise.sequences.labels import encode_labels, find_classes
from partwise.sequences.weights import chain_state
from partwise.templates._counts import TemplateCounts

__all__ = ["SHARD_TOKENS", "file_columns", "is_stream", "pack", "pack_stream"]

#: Tokens of a shard: enough that vectors of weights cost little beside them, few enough for many to fit in memory.
SHARD_TOKENS = 500_000

USUAL = ("word", "pos", "chunk", "ner")

Each = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]


class _Plan(NamedTuple):
    """What every process needs to know of a packing."""

    encoder: Encoder
    label: str | None
    every: bool
    scratch: str


class _Counted(NamedTuple):
    """One shard after the first pass: its file in the scratch folder, its sizes, attributes and labels."""

    file: str
    instances: int
    tokens: int
    counts: Any  # TemplateCounts, or _NameCounts, or None where attributes are hashed
    classes: list[Any]


class _NameCounts(NamedTuple):
    """Attributes of rows of strings, and how many entries each has."""

    names: list[str]
    counts: NDArray[np.int64]

    @classmethod
    def merged(cls, parts: Sequence[_NameCounts]) -> _NameCounts:
        vocabularies = [Vocabulary(part.names) for part in parts]
        whole = Vocabulary.merged(vocabularies)
        counts = np.zeros(len(whole), np.int64)
        for part, vocabulary in zip(parts, vocabularies, strict=True):
            counts[vocabulary.numbers_in(whole)] += part.counts
        return cls(whole.names, counts)


def merge_in_order(items: Iterable[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """All items merged, neighbours first: equal to one merge from left to right, with less copying.

    Examples
    --------
    >>> merge_in_order("abcde", "".join)
    'abcde'
    """
    held: list[tuple[int, Any]] = []
    for item in items:
        rank = 0
        while held and held[-1][0] == rank:
            item, rank = merge([held.pop()[1], item]), rank + 1
        held.append((rank, item))
    while len(held) > 1:
        (_, right), (rank, left) = held.pop(), held.pop()
        held.append((rank, merge([left, right])))
    return held[0][1] if held else None


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
    templates, columns, min_count, hashing, features
        As of :class:`partwise.SequenceLabeler`.
    label, separator, comment, encoding
        Of the files: the column to learn (default: the last), what is between columns, what begins a comment, and the
        encoding.
    shard_tokens : int
        About how many tokens a shard holds.
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
    settings = (templates, columns, min_count, hashing, features == "all", shard_tokens)
    if not _is_files(source):
        return pack_stream(source, y, out, *settings)
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
        plan = _Plan(encoder, label, features == "all", writer.scratch)
        count = functools.partial(_count_files, plan, reading, shard_tokens)
        found = (shard for shards in each(count, enumerate(tasks)) for shard in shards)
        info = {"columns": list(names), "label": label, "separator": separator, "comment": comment, "files": paths}
        info["encoding"] = encoding
        return _finish(writer, plan, found, each, info)


def pack_stream(
    X: Any, y: Any, out: str | os.PathLike[str], templates: Any, columns: Sequence[str] | None, min_count: int,
    hashing: int | None, every: bool, shard_tokens: int = SHARD_TOKENS,
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
        plan = _Plan(encoder, None, every, writer.scratch)
        found = (
            _count(
                plan, encoder.as_columns(chunk) if isinstance(encoder, TemplateEncoder) else chunk, labels, f"{k:06d}"
            )
            for k, (chunk, labels) in enumerate(itertools.chain([first], chunks))
        )
        return _finish(writer, plan, found, map, {})


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
    names = USUAL[:width] if columns is None else tuple(columns)
    if len(names) != width:
        raise FormatError(f"{width} columns; expected {len(names)} ({', '.join(names)})", path, int(first.lines[0]))
    label = names[-1] if label is None else label
    if label not in names or len(names) < 2:
        raise FormatError(f"no column {label!r} beside others; the columns are {', '.join(names)}", path=path)
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
            raise InputError(f"item {i} of the stream is no pair (sequence, labels); give the labels as y, or pairs")
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
        raise InputError(f"X has {len(X)} sequences, which need as many sequences of labels")
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


# the first pass: attributes and labels


def _count_files(plan: _Plan, reading: Reading, shard_tokens: int, item: tuple[int, list[Span]]) -> list[_Counted]:
    number, task = item
    limit = None if task[0].stop is not None else shard_tokens
    shards = enumerate(read_shards(task, reading, limit))
    return [
        _count(plan, data.without(plan.label), data.coded(str(plan.label)), f"{number:06d}-{k:06d}")
        for k, data in shards
    ]


def _count(plan: _Plan, data: Any, labels: Any, name: str) -> _Counted:
    file = os.path.join(plan.scratch, name)
    counts: Any = None
    if isinstance(plan.encoder, StringEncoder):
        vocabulary = Vocabulary()
        data = vocabulary.read(data, grow=True)
        counts = _NameCounts(vocabulary.names, np.bincount(data.attributes, minlength=data.n_attributes))
        instances, tokens = len(data.offsets) - 1, data.n_rows
        data = (data, vocabulary.names)
    else:
        assert isinstance(plan.encoder, TemplateEncoder)
        if plan.encoder.hashing is None:
            counts = plan.encoder.templates.count(data)
        instances, tokens = len(data), data.tokens
    _keep(file, (data, labels))
    return _Counted(file, instances, tokens, counts, find_classes(labels))


# the second pass: rows of attribute numbers, and the pairs that occur


def _encode(plan: _Plan, classes: list[Any], shard: _Counted) -> ObservedPairs:
    data, labels = _kept(shard.file)
    encoder = _encoder_of(plan)
    if isinstance(encoder, StringEncoder):
        matrix = _renumbered(data[0], Vocabulary(data[1]).numbers_in(encoder.vocabulary), len(encoder.vocabulary))
    else:
        rows = encoder.transform(data)
        assert rows.matrix is not None
        matrix = rows.matrix
    gold = encode_labels(labels, classes, matrix.offsets)
    if gold.sets:
        raise InputError("a pack holds known labels and None for unknown ones, not sets of labels")
    _keep(shard.file, (matrix, gold.codes))
    return ObservedPairs.of(matrix, gold.codes, len(classes))


def _renumbered(matrix: RowMatrix, numbers: NDArray[np.int64], n_attributes: int) -> RowMatrix:
    """The rows with other numbers for the attributes, without those that have none."""
    new = numbers[matrix.attributes]
    there = new >= 0
    indptr = np.append(0, np.cumsum(there))[matrix.indptr]
    values = matrix.values[there] if len(matrix.values) else matrix.values
    if len(values) and (values == 1.0).all():
        values = np.zeros(0)
    return RowMatrix(matrix.offsets, indptr, new[there].astype(np.int32), values, n_attributes)


def _merged_pairs(parts: list[ObservedPairs]) -> ObservedPairs:
    same = np.arange(len(parts[0].frequency))
    return ObservedPairs.merged(parts, [same] * len(parts), len(same))


# the third pass: rows as the kernels want them


def _lay_out(plan: _Plan, layout_file: str, folder: str, identity: str, item: tuple[int, _Counted]) -> None:
    number, shard = item
    matrix, codes = _kept(shard.file)
    rows = _read_once(layout_file).pack(matrix)
    names = ("offsets", "indptr", "attributes", "values", "pair_indptr", "weights", "outputs", "pair_values")
    arrays = {name: getattr(rows, name) for name in names}
    write_shard(folder, identity, number, {**arrays, "labels": codes.astype(np.int32)})
    os.unlink(shard.file)


def _finish(writer: PackWriter, plan: _Plan, counted: Iterable[_Counted], each: Each, info: dict[str, Any]) -> Pack:
    """From counted shards to a pack."""
    encoder = plan.encoder
    found: list[_Counted] = []

    def counts_of() -> Iterator[Any]:  # merged as they come: those of all shards would be much more than their union
        for shard in counted:
            found.append(shard._replace(counts=None))
            yield shard.counts

    counts = merge_in_order(counts_of(), _merge_counts)
    if not found:
        raise InputError("no sequences were given")
    classes = find_classes([[label for shard in found for label in shard.classes]])
    if isinstance(encoder, StringEncoder):
        kept = counts.counts >= encoder.min_count
        encoder.vocabulary = Vocabulary(name for name, keep in zip(counts.names, kept, strict=True) if keep)
    elif isinstance(encoder, TemplateEncoder) and encoder.hashing is None:
        encoder.index = counts.index(encoder.min_count)
    elif isinstance(encoder, TemplateEncoder):
        encoder.index = encoder.templates.fit(_kept(found[0].file)[0], encoder.min_count, encoder.hashing)
    del counts
    _keep(_encoder_file(plan.scratch), encoder)
    plan = plan._replace(encoder=type(encoder)() if isinstance(encoder, StringEncoder) else encoder)
    light = plan._replace(encoder=None)  # type: ignore[arg-type]  # workers read it from its file, once
    pairs = merge_in_order(each(functools.partial(_encode, light, classes), found), _merged_pairs)
    layout = RowLayout.of_pairs(pairs)
    if plan.every:
        layout = RowLayout(len(pairs.frequency), len(classes), frequency=pairs.frequency)
    layout_file = os.path.join(writer.scratch, "layout")
    _keep(layout_file, layout)
    write = functools.partial(_lay_out, light, layout_file, writer.folder, writer.id)
    for _ in each(write, enumerate(found)):
        pass
    header, arrays = chain_state(_kept(_encoder_file(plan.scratch)), layout, classes)
    header |= {"features": "all" if plan.every else "observed", "info": info}
    shards = [{"instances": shard.instances, "tokens": shard.tokens} for shard in found]
    return writer.finish("sequences", shards, header, arrays)


def _merge_counts(parts: list[Any]) -> Any:
    if parts[0] is None:
        return None
    return (TemplateCounts if isinstance(parts[0], TemplateCounts) else _NameCounts).merged(parts)


# what is kept between passes: files of this process's own making, in a folder of its own


def _encoder_file(scratch: str) -> str:
    return os.path.join(scratch, "encoder")


def _encoder_of(plan: _Plan) -> Any:
    encoder = _read_once(_encoder_file(plan.scratch))
    if isinstance(encoder, TemplateEncoder):
        encoder.warns = False  # about documents: whoever trains from the pack is told
    return encoder


@functools.lru_cache(2)
def _read_once(file: str) -> Any:
    return _kept(file)


def _keep(file: str, value: Any) -> None:
    try:
        with open(file, "wb") as target:
            pickle.dump(value, target, protocol=5)
    except OSError as error:
        raise StorageError(f"{file}: cannot be written: {error.strerror}") from error


def _kept(file: str) -> Any:
    with open(file, "rb") as source:
        return pickle.load(source)
