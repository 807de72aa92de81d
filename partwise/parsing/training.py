"""``fit`` of every parser: sentences contain their trees, so there is no y."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

from numpy.typing import ArrayLike

from partwise.estimation.learned import LearnedEstimator
from partwise.estimation.outputs import as_list
from partwise.exceptions import InputError
from partwise.learners.base import Callback
from partwise.parsing.conllu import DependencySentence

__all__ = ["TreebankEstimator", "checked_sentences"]


class TreebankEstimator(LearnedEstimator):
    """An estimator whose inputs hold their outputs: sentences with trees, or the trees themselves."""

    def fit(
        self,
        X: Sequence[Any],
        y: None = None,
        *,
        dev: Sequence[Any] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on sentences with their trees. Ctrl-C ends training and keeps the best weights so far.

        Parameters
        ----------
        X : sentences with trees, as the class describes them
        y : ignored
        dev : the same, optional
            Held out: the pass of the best score on them is kept.
        callbacks : functions of (record, θ), optional
            Called after every pass; True stops training.
        checkpoint : path, optional
            Save the state there after every pass; if it exists, continue from it.
        sample_weight : (n,), optional
            Weight of the loss of each sentence; 2 counts it twice. Learners that do not support this raise an error.
        """
        X = as_list(X, "X")
        if len(X) == 0:
            raise InputError("there are no sentences to train on")
        held_out = None if dev is None else (as_list(dev, "dev"), None)
        return self._fit(X, None, dev=held_out, callbacks=callbacks, checkpoint=checkpoint, sample_weight=sample_weight)


def checked_sentences(X: Sequence[DependencySentence]) -> list[DependencySentence]:
    """Sentences to parse, or an error that names the first that cannot be."""
    sentences = list(as_list(X, "X"))
    for i, sentence in enumerate(sentences):
        if not isinstance(sentence, DependencySentence):
            raise InputError(f"sentence {i} is a {type(sentence).__name__}; expected a DependencySentence")
        if not len(sentence):
            raise InputError(f"sentence {i} has no words")
    return sentences
