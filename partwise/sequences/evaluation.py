"""The numbers of a sequence report: everything that its page shows, and its embedded JSON holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import CodedColumn, Columns, encode, is_coded
from partwise.exceptions import InputError
from partwise.metrics.probabilities import calibration
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.encoders import TemplateEncoder
from partwise.sequences.resampling import bootstrap
from partwise.sequences.tokens import Pair, align, confusion

__all__ = ["Evaluation", "find_words", "label_type", "top_features"]

LEVEL = 0.95


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Gold and predicted labels of the same tokens, and the model's probabilities.

    Attributes
    ----------
    tags : bool
        Whether labels are tags of chunks (O, B-…, I-…), so that chunks are what counts.
    gold, predicted : CodedColumn
    pair : Pair
        Both in one coding.
    marginals : (tokens, classes) array
    classes : list of str
        Names of the columns of ``marginals``.
    """

    tags: bool
    gold: CodedColumn
    predicted: CodedColumn
    pair: Pair
    marginals: NDArray[np.float64]
    classes: list[str]

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> Evaluation:
        """Run the model once for its best labels and once for its probabilities."""
        coded = model.predict_coded(X)
        classes = [str(label) for label in model.classes_]
        predicted = CodedColumn(coded.codes, classes, coded.offsets)
        gold = _gold(y)
        pair = align(gold, predicted)
        marginals = np.clip(np.concatenate(model.predict_marginals(X)), 0.0, 1.0)
        return cls(bool(model._tags), gold, predicted, pair, marginals, classes)

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """(tokens,): where the predicted label is not the gold one."""
        result: NDArray[np.bool_] = self.pair.gold != self.pair.predicted
        return result

    @property
    def wrong_sentences(self) -> NDArray[np.int64]:
        """Sentences with a wrong label, in order."""
        starts = np.concatenate([[0], np.cumsum(self.wrong)])[self.pair.offsets]
        return np.flatnonzero(np.diff(starts) > 0)

    def counts(self) -> dict[str, int]:
        """How much there is, and how much of it is wrong."""
        unknown = set(self.gold_labels()) - set(self.classes)
        return {
            "sentences": len(self.pair.offsets) - 1,
            "tokens": len(self.pair.gold),
            "labels": len(self.classes),
            "wrong_sentences": len(self.wrong_sentences),
            "wrong_tokens": int(self.wrong.sum()),
            "unknown_labels": len(unknown),
        }

    def gold_labels(self) -> list[str]:
        """Gold labels, the most frequent first."""
        found, copies = np.unique(self.pair.gold, return_counts=True)
        return [self.pair.labels[found[k]] for k in np.argsort(-copies, kind="stable")]

    def scores(self) -> dict[str, dict[str, float]]:
        """Overall scores with bootstrap intervals: of chunks too where there are any."""
        metrics = ["f1", "precision", "recall", "accuracy"] if self.tags else ["accuracy"]
        made = {}
        for metric in metrics:
            result = bootstrap(self.gold, self.predicted, metric, level=LEVEL)
            made[metric] = {"estimate": result.estimate, "low": result.low, "high": result.high}
        return made

    def types(self) -> list[dict[str, Any]]:
        """Counts and scores of each type of chunk, or of each label where labels are not tags."""
        if self.tags:
            found = chunk_scores(self.gold, self.predicted)
            return [_scored(name, *counts) for name, counts in found.types.items()]
        labels, matrix = confusion(self.gold, self.predicted)
        return [
            _scored(label, int(matrix[k, k]), int(matrix[k].sum()), int(matrix[:, k].sum()))
            for k, label in enumerate(labels)
        ]

    def overall(self) -> dict[str, Any]:
        """The same of all chunks together; of all tokens where labels are not tags."""
        if self.tags:
            return _scored("all", *chunk_scores(self.gold, self.predicted).overall)
        right = int((~self.wrong).sum())
        return _scored("all", right, len(self.wrong), len(self.wrong))

    def confusion(self) -> dict[str, Any]:
        """Tokens by gold label (row) and predicted label (column)."""
        labels, matrix = confusion(self.gold, self.predicted)
        return {"labels": labels, "matrix": matrix}

    def reliability(self, bins: int = 15) -> dict[str, Any]:
        """Is the likeliest label right as often as its probability says? Tokens in bins of the latter."""
        number = {label: j for j, label in enumerate(self.classes)}
        table = np.array([number.get(label, -1) for label in self.pair.labels], np.int64)
        right = self.marginals.argmax(axis=1) == table[self.pair.gold]
        result = calibration(self.marginals.max(axis=1), right, bins)
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in vars(result).items()}

    def probabilities(self, codes: NDArray[np.int64]) -> NDArray[np.float64]:
        """(tokens,): the probability of the labels with these codes of ``pair``; 0 of an unknown label."""
        number = {label: j for j, label in enumerate(self.classes)}
        columns = np.array([number.get(label, -1) for label in self.pair.labels], np.int64)[codes]
        found = self.marginals[np.arange(len(codes)), columns]
        return np.where(columns >= 0, found, 0.0)


def _gold(y: Any) -> CodedColumn:
    if is_coded(y):
        return encode(y, "gold")
    made = []
    for i, sequence in enumerate(y):
        for t, label in enumerate(sequence):
            if label is None or isinstance(label, set | frozenset | list | tuple):
                raise InputError(f"position {t} of sequence {i} has no single gold label; reports need one")
        made.append([str(label) for label in sequence])
    return encode(made, "gold")


def _scored(name: str, correct: int, gold: int, predicted: int) -> dict[str, Any]:
    return {
        "name": name,
        "correct": correct,
        "gold": gold,
        "predicted": predicted,
        "precision": correct / predicted if predicted else 0.0,
        "recall": correct / gold if gold else 0.0,
        "f1": 2 * correct / (gold + predicted) if gold + predicted else 0.0,
    }


def label_type(label: str, tags: bool) -> str:
    """What a reader filters by: the type of a chunk tag, and a label that is none as it is.

    Examples
    --------
    >>> [label_type(label, tags=True) for label in ("B-PER", "O")], label_type("X-Y", tags=False)
    (['PER', 'O'], 'X-Y')
    """
    return (label.partition("-")[2] or label) if tags else label


def top_features(model: Any, labels: Sequence[str], n: int = 10) -> list[dict[str, Any]]:
    """The n largest and the n smallest weights of each label: ``top_weights`` of many labels at once."""
    attributes, outputs = model.layout_.pairs()
    weights = model.theta_[model.layout_.positions()]
    order = np.argsort(outputs, kind="stable")
    starts = np.searchsorted(outputs[order], np.arange(len(model.classes_) + 1))
    number = {str(label): j for j, label in enumerate(model.classes_)}
    names = model.attribute_names()
    made = []
    for label in labels:
        here = order[starts[number[label]] : starts[number[label] + 1]]
        ranked = here[np.argsort(-weights[here], kind="stable")]
        high = [k for k in ranked[:n] if weights[k] > 0]
        low = [k for k in ranked[::-1][:n] if weights[k] < 0]
        lists = ([(names[attributes[k]], float(weights[k])) for k in chosen] for chosen in (high, low))
        made.append({"label": label, "weights": len(here), **dict(zip(("for", "against"), lists, strict=True))})
    return made


def find_words(model: Any, X: Any, words: Any = None) -> CodedColumn | list[list[str]]:
    """What to show as the tokens of X: the words given or found in it, else a feature, else numbers."""
    if words is not None:
        return words if is_coded(words) else [[str(word) for word in sentence] for sentence in words]
    if isinstance(model.encoder_, TemplateEncoder):
        columns: Columns = model.encoder_.as_columns(X)
        return columns.coded("word" if "word" in columns.names else 0)
    if model.encoder_.kind == "strings":
        return [[_word(token) for token in sentence] for sentence in X]
    return [[str(t + 1) for t in range(x.shape[0])] for x in X]


def _word(token: Any) -> str:
    if isinstance(token, Mapping):
        usual = ("word", "w", "token", "form", "text", "w[0]", "word[0]", "lower", "word.lower()")
        for name in usual:
            if isinstance(token.get(name), str):
                return str(token[name])
        return next((f"{name}={value}" for name, value in token.items() if isinstance(value, str)), "·")
    features = [str(feature) for feature in token]
    for feature in features:
        name, _, value = feature.partition("=")
        if value and name in ("word", "w", "token", "form", "text", "w[0]", "word[0]"):
            return value
    return features[0] if features else "·"
