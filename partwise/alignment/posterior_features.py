"""Features of links from raw text: posteriors of generative models, associations of words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from partwise.alignment.bitext import Bitext
from partwise.alignment.links import SentencePair
from partwise.exceptions import InputError, unknown_name

__all__ = ["PosteriorFeatures", "trained_on_raw_text"]


def trained_on_raw_text(generative: Any, pairs: Any, bitext: Any, **settings: Any) -> Any:
    """The generative aligner itself if it is fitted; otherwise a copy of it, or an HMM, trained on all these pairs."""
    from partwise.alignment.generative import GenerativeAligner

    if generative is not None and hasattr(generative, "models_"):
        if bitext is not None:
            raise InputError("bitext is for training a generative aligner, but a fitted one was given")
        return generative
    text = Bitext.from_pairs(pairs)
    if bitext is not None:
        text = text + Bitext.from_pairs(bitext)
    fresh = GenerativeAligner() if generative is None else generative.unfitted()
    return fresh.set_params(**settings).fit(text)


@dataclass(frozen=True)
class PosteriorFeatures:
    """A source of link features: Dice coefficients, and both directions' posteriors of some trained models.

    Parameters
    ----------
    generative : GenerativeAligner, fitted
    models : names of its ``models_``
    """

    generative: Any
    models: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.models:
            if name not in self.generative.models_:
                raise unknown_name("posteriors", name, self.generative.models_)

    def __call__(self, pairs: Sequence[SentencePair]) -> dict[str, Any]:
        return self.reader(pairs)((0, len(pairs)))

    def reader(self, pairs: Sequence[SentencePair]) -> Callable[[tuple[int, int]], dict[str, Any]]:
        """(start, stop) → the matrices of these of the pairs; the words are looked up here, once."""
        coded = self.generative.coded(pairs)

        def read(span: tuple[int, int]) -> dict[str, Any]:
            block = self.generative.prepared(coded[slice(*span)])
            found: dict[str, Any] = {"dice": self.generative.associations(block)}
            for name in self.models:
                posteriors = self.generative.posteriors(block, name)
                found[f"{name} forward"], found[f"{name} backward"] = posteriors.forward, posteriors.backward
            return found

        return read
