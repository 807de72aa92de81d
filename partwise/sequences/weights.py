"""The weights of a fitted chain: looked at by name, and stored."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise._math import transition_blocks
from partwise.estimation.learned import LearnedEstimator
from partwise.exceptions import InputError, StorageError
from partwise.features.layout import DenseLayout, RowLayout, output_type
from partwise.sequences.encoders import restore_encoder

__all__ = [
    "ChainWeights",
    "Weight",
    "chain_state",
    "layout_arrays",
    "restore_chain",
    "restore_layout",
    "rows_from_state",
    "rows_to_state",
]


class Weight(NamedTuple):
    """One weight: an attribute and a label, or a transition."""

    attribute: str
    label: Any
    weight: float


class ChainWeights(LearnedEstimator):
    """What a fitted chain model knows, by name. Needs encoder_, layout_, classes_ and theta_."""

    encoder_: Any
    layout_: RowLayout | DenseLayout
    classes_: list[Any]
    order: int

    def attribute_names(self) -> list[str]:
        """Names of the attributes, by number; made once."""
        if not hasattr(self, "_names"):
            self._names = self.encoder_.names()
        result: list[str] = self._names
        return result

    def weight_rows(self, attributes: NDArray[np.int64]) -> NDArray[np.float64]:
        """(len(attributes), L): the weights of these attributes with every label; 0 where there is none."""
        n = len(self.classes_)
        out = np.zeros((len(attributes), n))
        if isinstance(self.layout_, DenseLayout):
            return self.theta_[: self.layout_.dim].reshape(-1, n)[attributes]
        for row, a in enumerate(self.layout_.rank[attributes]):
            if a < self.layout_.n_dense:
                out[row] = self.theta_[a * n : (a + 1) * n]
            else:
                first, last = self.layout_.pair_start[a - self.layout_.n_dense :][:2]
                base = self.layout_.n_dense * n
                out[row, self.layout_.pair_output[first:last]] = self.theta_[base + first : base + last]
        return out

    def transition_score(self, labels: list[int], t: int) -> float:
        """Σ_j W_j(labels[t − j], …, labels[t]) over the history lengths j that position t ≥ 1 has."""
        n, base = len(self.classes_), self.layout_.dim
        blocks = transition_blocks(n, self.order)
        total = 0.0
        for j in range(1, min(t, self.order) + 1):
            history = sum(labels[t - s] * n ** (s - 1) for s in range(1, j + 1))
            total += float(self.theta_[base + blocks[j] + history * n + labels[t]])
        return total

    def transition_weights(self) -> NDArray[np.float64]:
        """(L, L): the weight of label b (column) after label a (row)."""
        n, base = len(self.classes_), self.layout_.dim
        return self.theta_[base : base + n * n].reshape(n, n)

    def top_weights(self, label: Any = None, n: int = 20, *, lowest: bool = False) -> list[Weight]:
        """The n largest weights (or the n smallest) of attributes, for one label or all."""
        attributes, labels = self.layout_.pairs()
        weights = self.theta_[self.layout_.positions()]
        if label is not None:
            here = labels == self.classes_.index(label)
            attributes, labels, weights = attributes[here], labels[here], weights[here]
        order = np.argsort(weights if lowest else -weights, kind="stable")[:n]
        names = self.attribute_names()
        return [Weight(names[attributes[j]], self.classes_[labels[j]], float(weights[j])) for j in order]

    shows_weights = True

    def describe_weights(self, label: Any = None, top: int = 5) -> dict[str, Any]:
        """The strongest weights for and against each label, and all transitions."""
        labels = list(self.classes_)
        if label is not None and label not in labels:
            raise InputError(f"no label {label!r}; there are {', '.join(map(str, labels))}")
        found = {}
        for each in labels if label is None else [label]:
            speaking = [w for w in self.top_weights(each, top) if w.weight > 0]
            against = [w for w in self.top_weights(each, top, lowest=True) if w.weight < 0]
            sides = (("for", speaking), ("against", against))
            found[str(each)] = {side: [[w.attribute, w.weight] for w in ranked] for side, ranked in sides}
        return {
            "attributes": self.layout_.n_attributes,
            "weights": len(self.theta_),
            "nonzero": int(np.count_nonzero(self.theta_)),
            "norm": float(np.linalg.norm(self.theta_)),
            "top_weights": found,
            "transitions": {"labels": labels, "weights": self.transition_weights()},
        }

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return chain_state(self.encoder_, self.layout_, self.classes_)

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.encoder_, self.layout_, self.classes_ = restore_chain(header, arrays)
        expected = self.layout_.dim + int(transition_blocks(len(self.classes_), self.order)[-1])
        if len(self.theta_) != expected:
            raise StorageError(f"theta has {len(self.theta_)} weights; expected {expected}")


def chain_state(encoder: Any, layout: Any, classes: list[Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(header, arrays) of a chain model without its weights."""
    header, arrays = rows_to_state(encoder, layout)
    return {"classes": [c.item() if isinstance(c, np.generic) else c for c in classes], **header}, arrays


def restore_chain(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> tuple[Any, Any, list[Any]]:
    """(encoder, layout, classes) that ``chain_state`` has written."""
    classes = list(header["classes"])
    kinds = {type(label) for label in classes}
    if len(kinds) != 1 or not kinds <= {str, int, float, bool} or len(set(classes)) < len(classes):
        raise StorageError("the labels are not distinct strings or numbers")
    return *rows_from_state(header, arrays, len(classes)), classes


def rows_to_state(encoder: Any, layout: RowLayout | DenseLayout) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """(header, arrays) of what makes rows of inputs and places their weights."""
    encoder_header, stored = encoder.to_state()
    arrays = {f"encoder/{name}": array for name, array in stored.items()}
    layout_header: dict[str, Any] = {"n_attributes": layout.n_attributes}
    if isinstance(layout, RowLayout):
        layout_header["n_dense"] = layout.n_dense
        arrays |= {f"layout/{name}": array for name, array in layout_arrays(layout).items()}
    return {"encoder": {"kind": encoder.kind, **encoder_header}, "layout": layout_header}, arrays


def layout_arrays(layout: RowLayout) -> dict[str, NDArray[Any]]:
    """A layout as a file holds it: of ``pair_start`` the differences, which fit into a byte or two."""
    counts = np.diff(layout.pair_start)
    small = counts.astype(np.uint8 if counts.max(initial=0) < 256 else np.int32)
    return {"rank": layout.rank, "mask": layout.mask, "pair_count": small, "pair_output": layout.pair_output}


def _is_permutation(rank: NDArray[np.int32]) -> bool:
    """Whether every number below n is there once."""
    n = len(rank)
    if n and not 0 <= rank.min() <= rank.max() < n:
        return False
    seen = np.zeros(n, bool)
    seen[rank] = True
    return bool(seen.all())


def rows_from_state(header: dict[str, Any], arrays: dict[str, NDArray[Any]], n_labels: int) -> tuple[Any, Any]:
    """(encoder, layout) of a stored state."""
    own = {name[8:]: array for name, array in arrays.items() if name.startswith("encoder/")}
    encoder = restore_encoder(header["encoder"]["kind"], header["encoder"], own)
    return encoder, restore_layout(header["layout"], arrays, n_labels)


def restore_layout(header: dict[str, Any], arrays: dict[str, NDArray[Any]], n_labels: int) -> Any:
    """A layout from its arrays, checked so far that kernels can rely on it."""
    n = int(header["n_attributes"])
    if "n_dense" not in header:
        return DenseLayout(n, n_labels)
    layout = RowLayout.__new__(RowLayout)
    layout.n_attributes, layout.n_outputs, layout.base = n, n_labels, 0
    layout.n_dense = int(header["n_dense"])
    layout.rank = arrays["layout/rank"]
    layout.mask = arrays["layout/mask"]
    counts, output = arrays["layout/pair_count"], arrays["layout/pair_output"]
    sound = (
        0 <= layout.n_dense <= n
        and layout.rank.dtype == np.int32
        and layout.rank.shape == (n,)
        and _is_permutation(layout.rank)
        and layout.mask.dtype == np.uint8
        and layout.mask.shape in ((0,), (layout.n_dense * n_labels,))
        and counts.dtype in (np.uint8, np.int32)
        and counts.shape == (n - layout.n_dense,)
        and counts.min(initial=0) >= 0
        and int(counts.sum(dtype=np.int64)) == len(output)
        and output.dtype in (np.uint8, np.uint16, np.int32)
        and output.ndim == 1
        and (len(output) == 0 or (output.min() >= 0 and output.max() < n_labels))
    )
    if not sound:
        raise StorageError("the layout of the weights is inconsistent")
    layout.pair_start = np.append(0, np.cumsum(counts, dtype=np.int64))
    layout.pair_output = output.astype(output_type(n_labels), copy=False)
    return layout
