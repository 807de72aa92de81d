"""Shards of sequences: of a pack, opened wherever its folder is seen, or of data that is in memory."""

from __future__ import annotations

import functools
import os
import pickle
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.cluster.local import LocalRunner
from partwise.cluster.mapped import shared, to_disk
from partwise.cluster.shards import ShardedObjective, ShardRunner
from partwise.costs import PartCost
from partwise.data.packs import Pack, read_shard
from partwise.estimation.base import thread_count
from partwise.exceptions import InputError, ParameterError
from partwise.features.inputs import RowMatrix
from partwise.features.rows import SparseRows
from partwise.learners import Learner
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.sequences.encoders import Rows
from partwise.sequences.labels import GoldLabels
from partwise.sequences.packing import is_stream, pack_stream
from partwise.sequences.tag_schemes import scheme_name
from partwise.sequences.weights import restore_chain

__all__ = ["HeldShard", "PackShard", "check_fits", "cut_rows"]

#: Into how many shards data in memory is cut for a cluster, whatever the number of its workers.
SHARDS = 16


class _Dimensions(NamedTuple):
    """Of a layout, what a problem asks."""

    dim: int


class PackedRows:
    """Rows of a shard as they are in its file; :class:`~partwise.sequences.encoders.Rows` to a problem."""

    def __init__(self, arrays: dict[str, NDArray[Any]], mask: NDArray[np.uint8], n_labels: int) -> None:
        self.arrays, self.mask, self.n_labels = arrays, mask, n_labels
        self.offsets: NDArray[np.int64] = arrays["offsets"]

    def pack(self, layout: Any) -> SparseRows:
        a = self.arrays
        return SparseRows(
            a["offsets"], self.n_labels, 0, a["indptr"], a["attributes"], a["values"], self.mask, a["pair_indptr"],
            a["weights"], a["outputs"], a["pair_values"],
        )  # fmt: skip


@functools.lru_cache(4)
def _mask_of(path: str, identity: str) -> NDArray[np.uint8]:
    pack = Pack(path)
    if pack.id != identity:
        raise InputError(f"{path}: the pack was rewritten after training began")
    return np.array(pack.arrays["layout/mask"])


@dataclass(frozen=True)
class PackShard:
    """One shard of a pack, as a model with these settings trains on it."""

    model: Any  # an unfitted SequenceLabeler that knows its classes
    path: str
    identity: str
    number: int
    tokens: int
    dim: int
    learner: Learner
    loss: LossFunction
    scheme: str | None = None  # in which the labels are known to be well-formed

    def open(self, n_threads: int) -> Problem:
        arrays = read_shard(self.path, self.identity, self.number)
        labels = np.asarray(arrays["labels"], np.int64)
        model = self.model
        model.n_jobs, model.layout_ = n_threads, _Dimensions(self.dim)
        rows = PackedRows(arrays, _mask_of(self.path, self.identity), len(model.classes_))
        try:
            problem: Problem = model._problem(
                rows, GoldLabels(labels, rows.offsets, {}), self.loss, self.learner, model.cost
            )
        except InputError as error:
            unrepaired = model.scheme is not None and self.scheme != scheme_name(model.scheme)
            hint = f"; pack the data with scheme={model.scheme!r} to have its tags repaired" if unrepaired else ""
            raise InputError(f"{self.path}, shard {self.number}: {error}{hint}") from None
        problem.replace_arrays(to_disk, shared)
        return problem

    @property
    def size(self) -> str:
        return f"{self.tokens} tokens"

    @property
    def smaller(self) -> str:
        return f"pack the data again with shard_tokens={max(1, self.tokens // 2)} (--shard-tokens)"

    def digest(self) -> bytes:
        return f"{self.identity} {self.number}".encode()


@dataclass(frozen=True)
class HeldShard:
    """A shard in memory."""

    problem: Problem
    tokens: int

    def open(self, n_threads: int) -> Problem:
        return self.problem.on_threads(n_threads)

    @property
    def size(self) -> str:
        return f"{self.tokens} tokens"

    @property
    def smaller(self) -> str:
        return f"train from a pack with shard_tokens={max(1, self.tokens // 2)}, see partwise.pack"

    def digest(self) -> bytes:
        return self.problem.digest()


def of_pack(model: Any, X: Any, y: Any, learner: Learner, loss: LossFunction, engine: Any) -> ShardedObjective:
    """The problem of a model on a pack, its path, or a stream of sequences, which is packed first."""
    folder = None
    if is_stream(X):
        layout = (model.templates, model.columns, model.min_count, model.hashing, model.features == "all")
        settings = (*layout, model.scheme, model.repair)
        folder = tempfile.TemporaryDirectory(prefix="partwise-")
        X = pack_stream(X, y, os.path.join(folder.name, "data.pack"), *settings)
    elif y is not None:
        raise InputError("a pack contains its labels: omit y")
    found = X if isinstance(X, Pack) else Pack(X)
    shards = pack_shards(model, found, learner, loss)
    return _objective(model, shards, loss, engine, folder)


def of_rows(
    model: Any, rows: Rows, gold: GoldLabels, learner: Learner, loss: LossFunction, engine: Any
) -> ShardedObjective:
    """The problem of a model on encoded data, cut into shards for a cluster."""
    if callable(model.cost) or isinstance(model.cost, PartCost):
        raise ParameterError(
            "cost",
            type(model).__name__,
            "a cost that applies to any instance, because the data are split into shards",
            model.cost,
        )
    shards = [
        HeldShard(model._problem(part, labels, loss, learner, model.cost), int(part.offsets[-1]))
        for part, labels in cut_rows(rows, gold, SHARDS)
    ]
    return _objective(model, shards, loss, engine, None)


def _objective(model: Any, shards: list[Any], loss: LossFunction, engine: Any, folder: Any) -> ShardedObjective:
    runner: ShardRunner
    if engine is None:
        runner = LocalRunner(shards, thread_count(model.n_jobs))
    else:
        from partwise.cluster.engine import ClusterRunner

        picklable(shards[0], model)
        runner = ClusterRunner(engine, shards)
    return ShardedObjective(runner, loss, folder)


def pack_shards(model: Any, pack: Pack, learner: Learner, loss: LossFunction) -> list[PackShard]:
    """The shards of a pack for a model, which takes its vocabulary, labels and layout from it."""
    if pack.kind != "sequences":
        raise InputError(f"{pack.path}: a pack of {pack.kind}; expected sequences")
    check_fits(model, pack)
    model.encoder_, model.layout_, model.classes_ = restore_chain(pack.header, pack.arrays)
    plain = type(model)(**{**model.get_params(deep=False), "templates": None, "learner": "lbfgs", "loss": None})
    plain.classes_ = model.classes_
    return [
        PackShard(
            plain, pack.path, pack.id, number, int(shard["tokens"]), model.layout_.dim, learner, loss,
            pack.header.get("scheme"),
        )
        for number, shard in enumerate(pack.shards)
    ]  # fmt: skip


def check_fits(model: Any, pack: Pack) -> None:
    """Raise if a setting of the model contradicts the pack."""
    stored = pack.header["encoder"]
    name = type(model).__name__
    if model.templates is not None:
        from partwise.sequences.encoders import TemplateEncoder, make_encoder

        encoder = make_encoder(None, model.templates, None, 1, None)
        if not isinstance(encoder, TemplateEncoder) or encoder.templates.text != stored.get("templates"):
            raise ParameterError("templates", name, "those of the pack, or left out", model.templates)
    for setting, usual in (("min_count", 1), ("hashing", None)):
        given = getattr(model, setting)
        if given not in (usual, stored.get(setting, usual)):
            raise ParameterError(setting, name, f"{stored.get(setting, usual)!r}, as in the pack, or left out", given)
    if model.features not in ("observed", pack.header["features"]):
        raise ParameterError("features", name, f"{pack.header['features']!r}, as in the pack", model.features)
    if callable(model.cost):
        raise ParameterError(
            "cost", name, "a Cost, because a pack does not contain the sequences to pass to a function", model.cost
        )


def cut_rows(rows: Rows, gold: GoldLabels, n: int) -> list[tuple[Rows, GoldLabels]]:
    """About n runs of sequences with about equally many positions, each with rows of its own."""
    total = rows.offsets[-1]
    ends = np.searchsorted(rows.offsets, total * np.arange(1, n) / n)
    borders = np.unique(np.concatenate([[0], ends, [len(rows)]]))
    return [(_part(rows, int(a), int(b)), _gold_part(gold, int(a), int(b))) for a, b in pairwise(borders)]


def _part(rows: Rows, a: int, b: int) -> Rows:
    first, last = rows.offsets[a], rows.offsets[b]
    offsets = rows.offsets[a : b + 1] - first
    if rows.matrix is None:
        assert rows.dense is not None
        return Rows(dense=(offsets, rows.dense[1][first:last]))
    matrix = rows.matrix
    begin, end = matrix.indptr[first], matrix.indptr[last]
    return Rows(
        RowMatrix(
            offsets,
            matrix.indptr[first : last + 1] - begin,
            matrix.attributes[begin:end],
            matrix.values[begin:end] if len(matrix.values) else matrix.values,
            matrix.n_attributes,
        )
    )


def _gold_part(gold: GoldLabels, a: int, b: int) -> GoldLabels:
    first, last = int(gold.offsets[a]), int(gold.offsets[b])
    sets = {row - first: labels for row, labels in gold.sets.items() if first <= row < last}
    return GoldLabels(gold.codes[first:last], gold.offsets[a : b + 1] - first, sets)


def picklable(shard: Any, model: Any) -> None:
    """Raise an error that names the setting which cannot be sent to another process."""
    try:
        pickle.dumps(shard)
    except Exception as error:
        for name, value in model.get_params(deep=False).items():
            try:
                pickle.dumps(value)
            except Exception:
                raise ParameterError(
                    name,
                    type(model).__name__,
                    "picklable, to be sent to workers: define it at the top of a module",
                    value,
                ) from None
        raise InputError(
            f"the data cannot be sent to workers: {error}; define it at the top of a module that they can import"
        ) from None
