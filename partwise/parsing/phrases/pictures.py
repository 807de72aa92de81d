"""Pictures of phrase trees as SVG, with the probabilities of constituents as shading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from partwise.exceptions import InputError
from partwise.parsing.phrases.trees import PhraseTree
from partwise.report.markup import Html, tag

__all__ = ["phrase_svg"]

LETTER, GAP, LEVEL = 8.0, 16.0, 44.0  # width of a letter, space between words, height of a level


def phrase_svg(tree: PhraseTree, *, marginals: Iterable[Any] | None = None, gold: PhraseTree | None = None) -> Html:
    """The tree as SVG, with the root at the top and the words at the bottom.

    Parameters
    ----------
    tree : PhraseTree
    marginals : constituents with probabilities, optional
        As ``PhraseParser.predict_marginals`` returns them; more probable labels are darker.
    gold : PhraseTree, optional
        The right tree: phrases that it lacks are drawn in red, and those that are missing are listed below.

    Examples
    --------
    >>> from partwise.parsing import load_sample_phrases
    >>> picture = phrase_svg(load_sample_phrases("test")[0])
    >>> picture.startswith("<svg"), picture.count("<line")
    (True, 10)
    """
    if gold is not None and gold.words != tree.words:
        raise InputError("the gold tree has different words")
    known = None if marginals is None else {(c.start, c.stop, c.label): c.probability for c in marginals}
    right = None if gold is None else set(gold.constituents())
    words, tags = tree.words, tree.tags
    widths = [LETTER * max(len(word), len(label), 2) + GAP for word, label in zip(words, tags, strict=True)]
    centre, total = [], 0.0
    for width in widths:
        centre.append(total + width / 2)
        total += width
    depth = _depth(tree)
    lines: list[Html] = []
    texts: list[Html] = []

    def text(x: float, y: float, said: str, colour: str, opacity: float, tip: str, size: str = "13") -> Html:
        style = {"text_anchor": "middle", "font_size": size, "fill": colour, "fill_opacity": f"{opacity:.2f}"}
        return tag("g", tag("title", tip), tag("text", said, x=f"{x:.1f}", y=f"{y:.1f}", **style))

    def draw(node: PhraseTree, level: int, start: int) -> tuple[float, int]:
        """(horizontal place, stop) of a node."""
        y = 18 + LEVEL * level
        if node.word is not None:
            ground = 18 + LEVEL * depth
            lines.append(_line(centre[start], ground + 5, centre[start], ground + 22))
            texts.append(text(centre[start], ground, node.label, "currentColor", 0.7, node.label, "11"))
            texts.append(text(centre[start], ground + 36, node.word, "currentColor", 1.0, node.word))
            return centre[start], start + 1
        places, stop = [], start
        for child in node.children:
            x, stop = draw(child, level + 1, stop)
            places.append((x, 18 + LEVEL * (depth if child.word is not None else level + 1)))
        x = (places[0][0] + places[-1][0]) / 2
        lines.extend(_line(x, y + 5, end, bottom - 13) for end, bottom in places)
        probability = None if known is None else known.get((start, stop, node.label), 0.0)
        wrong = right is not None and (start, stop, node.label) not in right
        tip = f"{node.label}: {' '.join(words[start:stop])}"
        tip += "" if probability is None else f", {100 * probability:.1f}%"
        opacity = 1.0 if probability is None else 0.25 + 0.75 * min(probability, 1.0)
        texts.append(text(x, y, node.label, "#c0392b" if wrong else "currentColor", opacity, tip))
        return x, stop

    draw(tree, 0, 0)
    height = 18 + LEVEL * depth + 48
    if right is not None:
        missing = [c for c in (gold.constituents() if gold else []) if c not in set(tree.constituents())]
        for start, stop, label in missing:
            said = f"missing: {label} over {' '.join(words[start:stop])}"
            style = {"font_size": "11", "fill": "#27864a"}
            texts.append(tag("text", said, x="4", y=f"{height:.1f}", **style))
            total = max(total, 6.2 * len(said))
            height += 16
    return tag(
        "svg", *lines, *texts, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {total:.0f} {height:.0f}",
        width=f"{total:.0f}", height=f"{height:.0f}", role="img", aria_label=" ".join(words), font_family="sans-serif",
    )  # fmt: skip


def _line(x1: float, y1: float, x2: float, y2: float) -> Html:
    places = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    return tag("line", stroke="currentColor", stroke_opacity="0.5", **places)


def _depth(tree: PhraseTree) -> int:
    """Levels of phrases above the parts of speech."""
    return int(tree.fold(lambda node, below: 0 if node.word is not None else 1 + max(below)))
