"""The trained state of a WordAligner as a header and arrays, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from partwise.alignment.generative import GenerativeAligner
from partwise.alignment.gold_lexicon import GoldLexicon
from partwise.alignment.selection import Selection
from partwise.exceptions import StorageError
from partwise.storage import pack_strings, unpack_strings

if TYPE_CHECKING:
    from partwise.alignment.aligner import WordAligner

__all__ = ["aligner_state", "restore_aligner"]


def aligner_state(model: WordAligner) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What a model file holds beside settings and weights: the generative aligner, the choice of the model, names."""
    inner, arrays = model.generative_.to_state()
    header = {
        "generative": inner,
        "sources": len(model.sources),
        "lexicon": [list(side) for side in model.map_.lexicon],
        "pairs": model.n_pairs_,
        "chosen": model.model_,
        "C": model.C_,
        "selection": None if model.selection_ is None else list(model.selection_.errors.items()),
        "selected": None if model.selection_ is None else model.selection_.model,
        "generative_error": None if model.selection_ is None else model.selection_.generative,
        "dropped": [] if model.selection_ is None else list(model.selection_.dropped.items()),
        "selection_pairs": 0 if model.selection_ is None else model.selection_.n_pairs,
        "difference_error": 0.0 if model.selection_ is None else model.selection_.standard_error,
    }
    arrays = {f"generative/{name}": array for name, array in arrays.items()}
    counted = {} if model.map_.gold is None else model.map_.gold.to_state()
    arrays |= {f"gold/{name}": array for name, array in counted.items()}
    arrays["names_bytes"], arrays["names_offsets"] = pack_strings(model.feature_names_)
    return header, arrays


def restore_aligner(model: WordAligner, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Put back what :func:`aligner_state` wrote; the weights are there already."""
    if header["sources"] != len(model.sources):
        given = (
            f"{len(model.sources)} were given" if model.sources else "WordAligner.load(path, sources=(…)) takes them"
        )
        raise StorageError(f"it was trained with {header['sources']} sources, which a file cannot hold; {given}")
    own = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith("generative/")}
    model.generative = model.generative_ = GenerativeAligner.from_state(header["generative"], own)
    model.feature_names_ = unpack_strings(arrays["names_bytes"], arrays["names_offsets"])
    (first, second), model.n_pairs_ = header["lexicon"], int(header["pairs"])
    model.model_ = header["chosen"]
    model.C_, errors, below = header["C"], header["selection"], header["generative_error"]
    spread = header.get("difference_error", 0.0)
    errors = None if errors is None else {tuple(choice): error for choice, error in errors}
    early = {tuple(choice): error for choice, error in header.get("dropped", [])}
    also = (spread, early, header.get("selection_pairs", 0))
    model.selection_ = None if errors is None else Selection(header["selected"], model.C_, errors, below, *also)
    counted = {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith("gold/")}
    model.map_ = model._feature_map((first, second), GoldLexicon.from_state(counted) if model.gold_counts else None)
    if model.map_([(["a"], ["b"])]).names != model.feature_names_ or len(model.theta_) != len(model.feature_names_):
        raise StorageError("the weights do not match the features that the settings describe")
