"""Predicted tags for parsing, by any sequence labeller, jackknifed for training.

A parser trained on gold tags relies on them too much when tags are predicted. So the training sentences get tags from
labellers that have not seen them: fold k from a labeller trained on the other folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from partwise.exceptions import InputError, ParameterError
from partwise.parsing.conllu import COLUMNS, DependencySentence

__all__ = ["TagPredictor"]


class TagPredictor:
    """Replaces columns of sentences by the predictions of taggers.

    Lemmas become lower-case words, and columns that are not predicted become ``_``: no gold annotation is left.

    Parameters
    ----------
    tagger : estimator
        Not fitted: ``fit(X, y)`` and ``predict(X)`` on sentences that are lists of one-column tokens, such as
        ``SequenceLabeler("pos", columns=("word",))``. One copy of it is trained for every column.
    columns : tuple of str
        Which columns to predict: ``upos``, ``xpos``, ``feats``.
    folds : int
        Number of jackknife folds.

    Examples
    --------
    >>> from partwise.parsing import load_sample_treebank
    >>> class Lookup:
    ...     def get_params(self, deep=True): return {}
    ...     def fit(self, X, y):
    ...         self.tags = {w: t for s, tags in zip(X, y) for (w,), t in zip(s, tags)}
    ...         return self
    ...     def predict(self, X): return [[self.tags.get(w, "NOUN") for (w,) in s] for s in X]
    >>> tags = TagPredictor(Lookup(), columns=("upos",))
    >>> train = tags.fit_transform(load_sample_treebank("train"))
    >>> tags.transform(load_sample_treebank("test"))[0].column("xpos")[0]
    '_'
    """

    def __init__(self, tagger: Any, columns: tuple[str, ...] = ("upos", "xpos"), folds: int = 5) -> None:
        self.tagger, self.columns, self.folds = tagger, columns, folds

    def _check(self) -> None:
        odd = [name for name in self.columns if name not in ("upos", "xpos", "feats")]
        if odd or not self.columns:
            raise ParameterError("columns", "TagPredictor", "some of 'upos', 'xpos', 'feats'", self.columns)
        if self.folds < 2:
            raise ParameterError("folds", "TagPredictor", "at least 2", self.folds)

    def _train(self, sentences: Sequence[DependencySentence]) -> dict[str, Any]:
        words = _words(sentences)
        fresh = {name: type(self.tagger)(**self.tagger.get_params(deep=False)) for name in self.columns}
        return {name: one.fit(words, [s.column(name) for s in sentences]) for name, one in fresh.items()}

    def fit(self, X: Sequence[DependencySentence]) -> TagPredictor:
        """Train the labellers on all sentences."""
        self._check()
        if not len(X):
            raise InputError("there are no sentences to train on")
        self.taggers_ = self._train(X)
        return self

    def fit_transform(self, X: Sequence[DependencySentence]) -> list[DependencySentence]:
        """Train on all sentences; return them with tags from labellers that were trained on the other folds."""
        self.fit(X)
        if len(X) < self.folds:
            raise InputError(f"{len(X)} sentences are too few for {self.folds} folds")
        found: list[DependencySentence] = list(X)
        for k in range(self.folds):
            inside = range(k, len(X), self.folds)
            others = self._train([sentence for i, sentence in enumerate(X) if i % self.folds != k])
            for i, sentence in zip(inside, _tagged([X[i] for i in inside], others), strict=True):
                found[i] = sentence
        return found

    def transform(self, X: Sequence[DependencySentence]) -> list[DependencySentence]:
        """The sentences with the predicted tags."""
        if not hasattr(self, "taggers_"):
            raise InputError("this TagPredictor is not fitted yet; call fit first")
        return _tagged(X, self.taggers_)


def _words(sentences: Sequence[DependencySentence]) -> list[list[tuple[str]]]:
    return [[(form,) for form in sentence.forms] for sentence in sentences]


def _tagged(sentences: Sequence[DependencySentence], taggers: dict[str, Any]) -> list[DependencySentence]:
    words = _words(sentences)
    tags = {name: tagger.predict(words) for name, tagger in taggers.items()}
    found = []
    for i, sentence in enumerate(sentences):
        place, rows = 0, []
        for row in sentence.rows:
            if row[0].isdecimal():
                predicted = [str(tags[name][i][place]) if name in tags else "_" for name in COLUMNS[3:6]]
                row = (row[0], row[1], row[1].lower(), *predicted, *row[6:])
                place += 1
            rows.append(row)
        found.append(DependencySentence(rows, list(sentence.comments), sentence.source))
    return found
