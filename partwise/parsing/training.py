"""``fit`` of every parser: sentences contain their trees, so there is no y."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from partwise.estimation.learned import LearnedEstimator
from partwise.estimation.outputs import as_list
from partwise.exceptions import InputError
from partwise.learners.base import Callback
from partwise.parsing.columns import has_tags
from partwise.parsing.conllu import DependencySentence

__all__ = ["Sentences", "TreebankEstimator", "checked_sentences"]


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


#: What can be parsed: sentences with tags and the like, or lists of words.
Sentences = Sequence[DependencySentence | Sequence[str]]


def checked_sentences(X: Sentences, tagged: bool) -> list[DependencySentence]:
    """Sentences to parse, lists of words among them, or an error that names the first that cannot be.

    If the training sentences were ``tagged`` and these are not, a warning says so.
    """
    if isinstance(X, str):
        raise InputError("X is a string; expected a sequence of sentences, each a list of words")
    sentences = [_sentence(i, sentence) for i, sentence in enumerate(as_list(X, "X"))]
    if tagged and sentences and not any(map(has_tags, sentences)):
        warnings.warn(
            "the parser was trained on tagged sentences, and these have no tags: expect worse trees. TagPredictor adds "
            "predicted tags",
            stacklevel=4,
        )
    return sentences


def _sentence(i: int, given: Any) -> DependencySentence:
    sentence = given
    if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str):
        for m, word in enumerate(given, 1):
            if not isinstance(word, str) or not word or "\t" in word or "\n" in word:
                raise InputError(f"sentence {i}, word {m} is {word!r}; expected a string without tabs and line breaks")
        sentence = DependencySentence.of_words([str(word) for word in given])
    if not isinstance(sentence, DependencySentence):
        raise InputError(
            f"sentence {i} is a {type(sentence).__name__}; expected a DependencySentence or a list of words"
        )
    if not len(sentence):
        raise InputError(f"sentence {i} has no words")
    return sentence
