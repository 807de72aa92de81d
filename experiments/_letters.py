"""What the experiments on OCR letters share: the data, the learners, and how one of them is trained and tested."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from partwise.estimators import SequenceLabeler
from partwise.experiment import Context
from partwise.learners import LEARNERS
from partwise.losses import Loss
from partwise.sequences.letters import Letters, read_letters
from partwise.structures import Chain

__all__ = ["error", "learners_of", "load", "trained"]

QUICK = {"svm": ("frank_wolfe", "batch_frank_wolfe"), "crf": ("lbfgs", "sdca")}


def learners_of(loss: str, context: Context) -> list[str]:
    """The registered learners that train a chain with this loss, except the QP solver: 60 words take it minutes."""
    able = [
        name for name, kind in LEARNERS.items() if kind().obstacle(Chain([1], 2, tied=False), Loss.named(loss)) is None
    ]
    able = [name for name in able if name != "joint_qp"]
    return [name for name in able if name in QUICK[loss]] if context.quick else able


@cache
def load(data: Any, quick: bool) -> Letters:
    """The data set, or for the quick variant a small one that is made up: five letters, noisy prototypes."""
    if not quick:
        return read_letters(data / "letters/letters.npz")
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 5, size=60)
    labels = rng.integers(5, size=lengths.sum())
    pixels = (rng.random((5, 128)) < 0.2)[labels] ^ (rng.random((len(labels), 128)) < 0.25)
    return Letters(pixels.astype(np.uint8), labels, np.append(0, np.cumsum(lengths)), np.arange(60) % 10)


def options_of(learner: str, limit: float) -> dict[str, Any]:
    """Settings of a learner for a run that ends with a relative gap of 1e-3, or after a time."""
    known = LEARNERS[learner].__dataclass_fields__
    if "trace_objective" in known:  # an online learner: it has no gap to stop at
        return {"trace_objective": True, "max_passes": 20}
    options: dict[str, Any] = {"max_passes": 100_000 if limit > 0 else 3}
    if LEARNERS[learner].certified and "tolerance" in known:
        options["tolerance"] = 1e-3
    return options


def trained(
    letters: Letters, words: Any, loss: str, learner: str, C: float, limit: float, **options: Any
) -> SequenceLabeler:
    """A model trained on these words for at most ``limit`` seconds."""
    options = {**options_of(learner, limit), **options}
    passes = options.pop("max_passes")
    model = SequenceLabeler(loss=loss, learner=learner, C=C, max_passes=passes, learner_options=options)
    return model.fit(letters.inputs(words), letters.words(words), callbacks=[lambda record, _: record.seconds > limit])


def error(model: SequenceLabeler, letters: Letters, words: Any) -> float:
    """Share of wrong letters."""
    predicted = model.predict(letters.inputs(words))
    wrong = [a != b for y, z in zip(letters.words(words), predicted, strict=True) for a, b in zip(y, z, strict=True)]
    return float(np.mean(wrong))
