"""The sentences that a model got wrong, with probabilities, and why each wrong label won."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.data.columns import Columns, encode
from partwise.estimation.contribution import Contribution
from partwise.exceptions import InputError, ParameterError
from partwise.sequences.evaluation import Evaluation, find_words, label_type
from partwise.sequences.explanation import Explanation, _attributes, _transitions

__all__ = ["choose", "explain_tokens", "mistakes"]

SHOWN = 12  # contributions of an explanation that are listed one by one


def choose(wrong: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """At most this many of the sentences, spread evenly over the data.

    Examples
    --------
    >>> choose(np.array([3, 5, 8, 13, 21]), 3).tolist()
    [3, 8, 21]
    """
    if most is None or len(wrong) <= most:
        return wrong
    if most < 1:
        return wrong[:0]
    return wrong[np.round(np.linspace(0, len(wrong) - 1, most)).astype(np.int64)]


def explain_tokens(
    model: Any, rows: Any, marginals: NDArray[np.float64], best: NDArray[np.integer], tokens: Any, rivals: Any
) -> list[Explanation]:
    """``model.explain`` for many tokens of one data set, whose features and labels are computed once.

    Parameters
    ----------
    rows : Rows
        The encoded data set: features of a document see all of it, as they did when it was labelled.
    marginals : (tokens, classes) array
    best : (tokens,) array of class numbers
        The predicted labels.
    tokens : sequence of int
        Rows to explain.
    rivals : sequence of int
        For each, the class that the predicted one is compared with; −1 for the likeliest other one.
    """
    made = []
    for token, rival in zip(tokens, rivals, strict=True):
        i = int(np.searchsorted(rows.offsets, token, side="right")) - 1
        start, stop = int(rows.offsets[i]), int(rows.offsets[i + 1])
        chosen = int(best[token])
        if rival < 0:
            others = marginals[token].copy()
            others[chosen] = -1.0
            rival = int(np.argmax(others))
        sentence = [model.classes_[b] for b in best[start:stop]]
        contributions = _attributes(model, rows, token, chosen, rival)
        contributions += _transitions(model, sentence, token - start, chosen, rival)
        contributions.sort(key=lambda c: -abs(c.difference))
        probabilities = float(marginals[token, chosen]), float(marginals[token, rival])
        labels = model.classes_[chosen], model.classes_[rival]
        made.append(Explanation(token - start, *labels, *probabilities, contributions))
    return made


def mistakes(model: Any, X: Any, found: Evaluation, max_errors: int | None, words: Any = None) -> dict[str, Any]:
    """What the page's list of errors shows, as its script reads it.

    A sentence has its number ``i``, its ``words``, its labels ``gold`` and ``predicted`` as numbers of
    ``labels``, the probability ``p`` of each predicted label, and the reasons ``why`` of the wrong ones by
    position.
    """
    if max_errors is not None and max_errors < 0:
        raise ParameterError("max_errors", "sequence_report", "None or a number from 0 on", max_errors)
    pair = found.pair
    shown = choose(found.wrong_sentences, max_errors)
    text = encode(find_words(model, X, words), "words")
    if not np.array_equal(text.offsets, pair.offsets):
        raise InputError("words: expected one per token of X")
    p_predicted, p_gold = found.probabilities(pair.predicted), found.probabilities(pair.gold)
    spans = [(int(pair.offsets[i]), int(pair.offsets[i + 1])) for i in shown]
    tokens = [t for start, stop in spans for t in range(start, stop) if found.wrong[t]]
    why = dict(zip(tokens, _reasons(model, X, found, tokens), strict=True))
    classes = set(found.classes)
    sentences = []
    for i, (start, stop) in zip(shown.tolist(), spans, strict=True):
        here = [t for t in range(start, stop) if t in why]
        sentences.append(
            {
                "i": i,
                "place": _place(X, i),
                "words": [text.vocab[code] for code in text.codes[start:stop].tolist()],
                "gold": pair.gold[start:stop].tolist(),
                "predicted": pair.predicted[start:stop].tolist(),
                "p": np.round(p_predicted[start:stop], 4).tolist(),
                "p_gold": {str(t - start): round(float(p_gold[t]), 4) for t in here},
                "why": {str(t - start): why[t] for t in here},
            }
        )
    return {
        "labels": pair.labels,
        "types": [label_type(label, found.tags) for label in pair.labels],
        "known": [label in classes for label in pair.labels],
        "wrong_tokens": len(tokens),
        "sentences": sentences,
    }


def _reasons(model: Any, X: Any, found: Evaluation, tokens: list[int]) -> list[dict[str, Any]]:
    if not tokens:
        return []
    number = {label: j for j, label in enumerate(found.classes)}
    rivals = [number.get(found.pair.labels[found.pair.gold[t]], -1) for t in tokens]
    rows = model.encoder_.transform(X)
    explained = explain_tokens(model, rows, found.marginals, found.predicted.codes, tokens, rivals)
    return [_brief(one) for one in explained]


def _brief(one: Explanation) -> dict[str, Any]:
    """The largest contributions one by one, the others as number and sum: together they are the margin."""
    real = [c for c in one.contributions if c.difference]
    rest = real[SHOWN:]
    return {
        "rival": str(one.rival),
        "p_rival": round(one.rival_probability, 4),
        "margin": one.margin,
        "parts": [[_name(c), c.difference] for c in real[:SHOWN]],
        "rest": [len(rest), sum(c.difference for c in rest)],
    }


def _name(contribution: Contribution) -> str:
    value = contribution.value
    return contribution.name if value == 1.0 else f"{contribution.name} × {value:.4g}"


def _place(X: Any, i: int) -> str:
    """Where a sentence is in its file, if it is from one."""
    if not isinstance(X, Columns) or X.lines[i] == 0:
        return ""
    name = os.path.basename(X.path) if X.path else ""
    return f"{name}:{X.lines[i]}" if name else f"line {X.lines[i]}"
