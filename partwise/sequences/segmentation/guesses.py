"""First guesses for a search: tags, and from them chunk tags, by two chains that have seen whole sentences."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, Columns
from partwise.sequences.labeler import SequenceLabeler
from partwise.sequences.stacked import with_column

__all__ = ["FirstGuesses"]

#: Labels that are this probable are plausible.
PLAUSIBLE = 0.1
#: Names of the columns: the guess, and all plausible labels.
NAMES = (("pos", "pos_odds"), ("chunk", "chunk_odds"))
UNKNOWN = "?"


class FirstGuesses:
    """argmax_y P₁(y | x) and argmax_z P₂(z | x, y): two chains, whose labels are columns for what comes later.

    A search that goes from left to right knows the words to come but not their tags. Chains (CRFs) guess them first:
    column ``pos`` has the tag of every word, ``pos_odds`` all tags that are plausible, most probable first; ``chunk``
    and ``chunk_odds`` likewise the chunk tags, by a chain that reads ``pos``. Guesses of the training sentences come
    from chains that were trained on the other folds (stacking), so that they are as often wrong as those of new text.

    Parameters
    ----------
    templates : (str, str)
        Of the chain of tags and of the chain of chunk tags.
    max_passes : int
        Of their training by dual coordinate ascent.
    """

    def __init__(self, templates: tuple[str, str], max_passes: int = 5) -> None:
        self.templates, self.max_passes = templates, max_passes
        self.chains: list[SequenceLabeler] = []

    def fit(self, columns: Columns, gold: tuple[CodedColumn, CodedColumn], parts: NDArray[np.int64]) -> Columns:
        """Train the chains on (tags, chunk tags); the columns with guesses by chains of other parts."""
        self.chains = []
        for k, labels in enumerate(gold):
            found: list[Any] = [[UNKNOWN] * n for n in np.diff(columns.offsets).tolist()]
            odds = [list(row) for row in found]
            for part in np.unique(parts):
                inside, others = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
                if len(others):  # a single sentence has nothing to learn from
                    chain = self._chain(k, columns.subset(others), labels[others, ...])
                    for i, *own in zip(inside.tolist(), *_guess(chain, columns.subset(inside)), strict=True):
                        found[i], odds[i] = own
            self.chains.append(self._chain(k, columns, labels))
            columns = _extended(columns, k, found, odds)
        return columns

    def _chain(self, k: int, columns: Columns, labels: Any) -> SequenceLabeler:
        scheme = "IOB2" if k == 1 else None
        settings: dict[str, Any] = {"loss": "crf", "learner": "dca", "C": 1.0, "max_passes": self.max_passes}
        chain = SequenceLabeler(self.templates[k], scheme=scheme, **settings).fit(columns, labels)
        if chain.result_.status == "interrupted":  # without the chains there is nothing to keep
            raise KeyboardInterrupt
        return chain

    def add(self, columns: Columns) -> Columns:
        """New sentences with the columns of guesses."""
        for k, chain in enumerate(self.chains):
            columns = _extended(columns, k, *_guess(chain, columns))
        return columns

    # storage

    def to_state(self) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        headers: list[dict[str, Any]] = []
        arrays: dict[str, NDArray[Any]] = {}
        for k, chain in enumerate(self.chains):
            header, own = chain.to_state()
            headers.append(header)
            arrays |= {f"guess{k}/{name}": array for name, array in own.items()}
        return headers, arrays

    @classmethod
    def from_state(cls, headers: list[dict[str, Any]], arrays: dict[str, NDArray[Any]], templates: Any) -> Self:
        model = cls(templates)
        for k, header in enumerate(headers):
            begin = f"guess{k}/"
            own = {name[len(begin) :]: array for name, array in arrays.items() if name.startswith(begin)}
            model.chains.append(SequenceLabeler.from_state(header, own))
        return model


def _extended(columns: Columns, k: int, found: Any, odds: Any) -> Columns:
    for name, values in zip(NAMES[k], (found, odds), strict=True):
        columns = with_column(columns, name, values)
    return columns


def _guess(chain: SequenceLabeler, columns: Columns) -> tuple[list[list[str]], list[list[str]]]:
    """(the best labels, the plausible ones) of every word."""
    names: list[str] = list(map(str, chain.classes_))
    odds: list[list[str]] = []
    known: dict[bytes, str] = {}
    for p in chain.predict_marginals(columns):
        order = np.argsort(-p, axis=1, kind="stable")[:, :3]
        values = np.take_along_axis(p, order, axis=1)
        order[:, 1:][values[:, 1:] < PLAUSIBLE] = -1
        row = []
        for codes in order:
            key = codes.tobytes()
            if key not in known:
                known[key] = "|".join(names[code] for code in codes.tolist() if code >= 0)
            row.append(known[key])
        odds.append(row)
    return chain.predict(columns), odds
