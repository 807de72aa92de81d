"""Pictures of dependency trees: arcs over words as SVG, with the probabilities of arcs as shading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.parsing.conllu import DependencySentence
from partwise.report.markup import Html, tag

__all__ = ["dependency_svg"]

LETTER, GAP, LEVEL, TEXT = 8.2, 26.0, 26.0, 44.0  # width of a letter, space between words, height of a level, of words


def _levels(heads: list[int]) -> list[int]:
    """How high each arc rises: above all arcs between its ends."""
    spans = [(min(h, m), max(h, m)) for m, h in enumerate(heads, 1)]
    order = sorted(range(len(heads)), key=lambda k: spans[k][1] - spans[k][0])
    level = [1] * len(heads)
    for place, k in enumerate(order):
        low, high = spans[k]
        under = [level[j] for j in order[:place] if low <= spans[j][0] and spans[j][1] <= high]
        level[k] = 1 + max(under, default=0)
    return level


def dependency_svg(
    sentence: DependencySentence,
    *,
    marginals: NDArray[np.float64] | None = None,
    gold: DependencySentence | None = None,
    shade: float = 0.05,
) -> Html:
    """The tree of a sentence as SVG: arcs from head to word with their relations.

    Parameters
    ----------
    sentence : DependencySentence with a tree
    marginals : (n + 1, n), optional
        Probabilities of arcs: more probable arcs are darker; others with at least ``shade`` are drawn thin.
    gold : DependencySentence, optional
        The right tree: arcs that it lacks are drawn in red, and those that are missing are dashed.

    Examples
    --------
    >>> sentence = DependencySentence.of_words("They parse trees".split(), [2, 0, 2], ["nsubj", "root", "obj"])
    >>> picture = dependency_svg(sentence)
    >>> picture.startswith("<svg"), picture.count("<path"), "nsubj" in picture
    (True, 3, True)
    """
    heads, relations, n = sentence.heads.tolist(), sentence.column("deprel"), len(sentence)
    if marginals is not None and np.shape(marginals) != (n + 1, n):
        raise InputError(f"marginals have shape {np.shape(marginals)}; expected {(n + 1, n)}")
    if gold is not None and len(gold) != n:
        raise InputError(f"the gold tree has {len(gold)} words, the sentence {n}")
    words, tags = ["⊤", *sentence.forms], ["", *sentence.column("upos")]
    widths = [LETTER * max(len(word), len(label), 2) for word, label in zip(words, tags, strict=True)]
    left = np.cumsum([GAP / 2, *(width + GAP for width in widths)])
    centre = [float(a + w / 2) for a, w in zip(left[:-1], widths, strict=True)]
    level = _levels(heads)
    ground = 0.75 * LEVEL * (max(level) + (0.4 if gold is not None else 0.0)) + 24  # a curve's peak: 3/4 of its height
    parts: list[Html] = []
    names: list[Html] = []  # of relations; drawn last, on a ground of their own, so that no arc crosses them

    def arc(h: int, m: int, height: float, colour: str, opacity: float, label: str, tip: str, dash: str | None) -> Html:
        shift = 5.0 if h < m else -5.0
        x1, x2, top = centre[h] + shift, centre[m] - shift / 2, ground - 4 - LEVEL * height
        path = tag(
            "path", d=f"M{x1:.1f} {ground - 2:.1f} C{x1:.1f} {top:.1f} {x2:.1f} {top:.1f} {x2:.1f} {ground - 5:.1f}",
            fill="none", stroke=colour, stroke_width="1.6" if label else "0.8", stroke_opacity=f"{opacity:.2f}",
            stroke_dasharray=dash,
        )  # fmt: skip
        marks = [tag("title", tip), path]
        if label:
            tip_of = f"{x2 - 3:.1f},{ground - 9:.1f} {x2 + 3:.1f},{ground - 9:.1f} {x2:.1f},{ground - 3:.1f}"
            marks.append(tag("polygon", points=tip_of, fill=colour, fill_opacity=f"{opacity:.2f}"))
            middle, peak = (x1 + x2) / 2, ground - 6 - 0.75 * LEVEL * height
            names.append(
                tag(
                    "text", label, x=f"{middle:.1f}", y=f"{peak:.1f}", text_anchor="middle", font_size="11",
                    fill=colour, style="paint-order: stroke; stroke: var(--panel, white); stroke-width: 4px",
                )
            )  # fmt: skip
        return tag("g", *marks)

    right = None if gold is None else gold.heads.tolist()
    if marginals is not None:
        for m in range(1, n + 1):
            for h in np.flatnonzero(marginals[:, m - 1] >= shade).tolist():
                if h != heads[m - 1]:
                    tip = f"{words[h]} → {words[m]}: {100 * marginals[h, m - 1]:.1f}%"
                    height = 1.0 + 0.4 * abs(h - m) ** 0.5
                    parts.append(arc(h, m, height, "currentColor", float(marginals[h, m - 1]), "", tip, None))
    for m, (h, relation) in enumerate(zip(heads, relations, strict=True), 1):
        probability = None if marginals is None else float(marginals[h, m - 1])
        wrong = right is not None and right[m - 1] != h
        tip = f"{words[h]} → {words[m]}: {relation}" + ("" if probability is None else f", {100 * probability:.1f}%")
        opacity = 1.0 if probability is None else 0.15 + 0.85 * min(probability, 1.0)
        parts.append(arc(h, m, level[m - 1], "#c0392b" if wrong else "currentColor", opacity, relation, tip, None))
        if wrong and right is not None:
            tip = f"gold: {words[right[m - 1]]} → {words[m]}"
            parts.append(arc(right[m - 1], m, level[m - 1] + 0.4, "#27864a", 0.9, "", tip, "4 3"))
    parts += names
    for word, label, x in zip(words, tags, centre, strict=True):
        style = {"text_anchor": "middle", "fill": "currentColor"}
        parts.append(tag("text", word, x=f"{x:.1f}", y=f"{ground + 14:.1f}", font_size="14", **style))
        parts.append(
            tag("text", label, x=f"{x:.1f}", y=f"{ground + 30:.1f}", font_size="10", fill_opacity="0.65", **style)
        )
    width, height = float(left[-1]), ground + TEXT
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}", height=f"{height:.0f}", role="img", aria_label=" ".join(sentence.forms),
        font_family="sans-serif",
    )  # fmt: skip
