"""Models as commands see them: with one stage or two, and with the layout of the files they were trained on."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from partwise.exceptions import InputError, StorageError
from partwise.sequences.commands._files import FileLayout, tag_scheme

if TYPE_CHECKING:
    from partwise.data.columns import CodedColumn

__all__ = [
    "is_model",
    "model_layout",
    "model_scheme",
    "open_model",
    "predicted_labels",
]


def open_model(path: str, n_jobs: int = 1) -> Any:
    """A model that labels column files; any other model is an error that names its kind."""
    from partwise.estimation.base import load_model
    from partwise.sequences.labeler import SequenceLabeler

    if not os.path.exists(path):
        raise StorageError(f"{path}: cannot be read: there is no such file")
    model = load_model(path)
    for stage in model.stages:
        if not isinstance(stage, SequenceLabeler):
            raise InputError(f"{path}: holds a {model.kind!r}, not a sequence labeller")
        if stage.encoder_.kind != "templates":
            raise InputError(f"{path}: reads {stage.encoder_.kind}, not column files; use it from Python")
        stage.n_jobs = n_jobs
    return model


def is_model(path: str) -> bool:
    """Whether the file begins as a model file does."""
    from partwise.storage.layout import MAGIC

    if path == "-" or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _info(model: Any) -> dict[str, Any]:
    return getattr(model.stages[0], "info_", {})


def model_layout(model: Any, args: argparse.Namespace) -> FileLayout:
    """The layout that the model was trained on, overridden by the flags."""
    info = _info(model)
    columns = info.get("columns") or model.stages[0].columns
    return FileLayout(
        args.columns or (None if columns is None else tuple(columns)),
        args.label or info.get("label"),
        args.separator or info.get("separator"),
        args.comment or info.get("comment"),
        args.encoding or info.get("encoding"),
    )


def model_scheme(model: Any) -> str | None:
    """The tag scheme of the model's labels, or None if they are not chunk tags."""
    return model.stages[-1].scheme or tag_scheme(model.classes_)


def predicted_labels(model: Any, labels: CodedColumn, scheme: str | None = None) -> CodedColumn:
    """Labels of a model in the scheme of the file it was trained on, or in another."""
    from partwise.sequences import tags

    source = model_scheme(model)
    wanted: str | None = scheme or _info(model).get("tags") or source
    if source is None or wanted is None or tags.scheme_name(wanted) == tags.scheme_name(source):
        return labels
    return tags.convert_all(tags.repair_report(labels, source).repaired, source, wanted)
