"""The passes over the shards of a pack: count, encode, lay out. See :mod:`partwise.sequences.packing`."""

from __future__ import annotations

import functools
import os
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import is_coded
from partwise.data.packs import Pack, PackWriter, write_shard
from partwise.exceptions import InputError, StorageError
from partwise.features.inputs import RowMatrix, Vocabulary
from partwise.features.layout import ObservedPairs, RowLayout
from partwise.sequences.encoders import Encoder, StringEncoder, TemplateEncoder
from partwise.sequences.labels import encode_labels, find_classes
from partwise.sequences.tag_repair import well_formed
from partwise.sequences.weights import chain_state
from partwise.templates._counts import TemplateCounts

__all__ = ["Counted", "Each", "Plan", "count_shard", "finish_pack", "merge_in_order"]

Each = Callable[[Callable[..., Any], Iterable[Any]], Iterable[Any]]


class Plan(NamedTuple):
    """What every process needs to know of a packing."""

    encoder: Encoder
    label: str | None
    every: bool
    scratch: str
    scheme: str | None = None
    repair: bool = True


class Counted(NamedTuple):
    """One shard after the first pass: its file in the scratch folder, its sizes, attributes and labels."""

    file: str
    instances: int
    tokens: int
    counts: Any  # TemplateCounts, or _NameCounts, or None where attributes are hashed
    classes: list[Any]
    repairs: tuple[int, str] = (0, "")  # how many labels were replaced, and one of them in words


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


# the first pass: attributes and labels


def count_shard(plan: Plan, data: Any, labels: Any, name: str) -> Counted:
    file = os.path.join(plan.scratch, name)
    labels, repairs = _repaired(plan, data, labels, name)
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
    return Counted(file, instances, tokens, counts, find_classes(labels), repairs)


def _repaired(plan: Plan, data: Any, labels: Any, name: str) -> tuple[Any, tuple[int, str]]:
    """Labels that are well-formed in the scheme, where there is one; those known only in part are taken as they are."""
    if plan.scheme is None or not (is_coded(labels) or all(isinstance(label, str) for row in labels for label in row)):
        return labels, (0, "")
    where = f"{getattr(data, 'path', None) or 'the stream'}, shard {name}"
    report = well_formed(labels, plan.scheme, repair=plan.repair, path=where)
    if not report.total:
        return report.repaired, (0, "")
    sentence, fix = next(iter(report.examples.values()))[0]
    example = f"{fix.old} → {fix.new} at position {fix.token} of sequence {sentence} of {where} ({fix.kind})"
    return report.repaired, (report.total, example)


def _tell_repairs(plan: Plan, found: Sequence[Counted]) -> None:
    """One warning for all shards."""
    total = sum(shard.repairs[0] for shard in found)
    if total:
        example = next(shard.repairs[1] for shard in found if shard.repairs[0])
        warnings.warn(
            f"{total} of {sum(shard.tokens for shard in found)} labels are ill-formed in {plan.scheme} and were "
            f"repaired, such as {example}; repair=False makes them an error",
            UserWarning,
            stacklevel=4,
        )


# the second pass: rows of attribute numbers, and the pairs that occur


def _encode(plan: Plan, classes: list[Any], shard: Counted) -> ObservedPairs:
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


def _lay_out(plan: Plan, layout_file: str, folder: str, identity: str, item: tuple[int, Counted]) -> None:
    number, shard = item
    matrix, codes = _kept(shard.file)
    rows = _read_once(layout_file).pack(matrix)
    names = ("offsets", "indptr", "attributes", "values", "pair_indptr", "weights", "outputs", "pair_values")
    arrays = {name: getattr(rows, name) for name in names}
    write_shard(folder, identity, number, {**arrays, "labels": codes.astype(np.int32)})
    os.unlink(shard.file)


def finish_pack(writer: PackWriter, plan: Plan, counted: Iterable[Counted], each: Each, info: dict[str, Any]) -> Pack:
    """From counted shards to a pack."""
    encoder = plan.encoder
    found: list[Counted] = []

    def counts_of() -> Iterator[Any]:  # merged as they come: those of all shards would be much more than their union
        for shard in counted:
            found.append(shard._replace(counts=None))
            yield shard.counts

    counts = merge_in_order(counts_of(), _merge_counts)
    if not found:
        raise InputError("no sequences were given")
    _tell_repairs(plan, found)
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
    header |= {"features": "all" if plan.every else "observed", "scheme": plan.scheme, "info": info}
    shards = [{"instances": shard.instances, "tokens": shard.tokens} for shard in found]
    return writer.finish("sequences", shards, header, arrays)


def _merge_counts(parts: list[Any]) -> Any:
    if parts[0] is None:
        return None
    return (TemplateCounts if isinstance(parts[0], TemplateCounts) else _NameCounts).merged(parts)


# what is kept between passes: files of this process's own making, in a folder of its own


def _encoder_file(scratch: str) -> str:
    return os.path.join(scratch, "encoder")


def _encoder_of(plan: Plan) -> Any:
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
