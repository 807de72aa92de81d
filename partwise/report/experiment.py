"""The page of an experiment: its table, and rows of pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from partwise.report.markup import Html, tag
from partwise.report.page import Page, figure, paragraph, side_by_side, table
from partwise.report.pictures import picture

__all__ = ["experiment_page", "table_blocks"]


def table_blocks(text: str) -> list[Html]:
    """Paragraphs and tables of the Markdown that experiments write: blocks between empty lines, cells between bars.

    Examples
    --------
    >>> [block[:6] for block in table_blocks("| a | b |\\n|---|--:|\\n| 1 | 2 |\\n\\nAll in.")]
    ['<div c', '<p>All']
    """
    blocks = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if not lines[0].startswith("|"):
            blocks.append(paragraph(" ".join(lines)))
            continue
        head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
        blocks.append(table(head, rows))
    return blocks


def experiment_page(
    name: str, words: str, text: str, pictures: Sequence[tuple[str, Sequence[tuple[str, NDArray[np.uint8]]]]]
) -> Page:
    """The page; every row of pictures has a title, and every picture a description."""
    page = Page(name, words)
    page.section("results", "Results").add(*table_blocks(text))
    section = page.section("pictures", "Pictures")
    for title, images in pictures:
        shown = (figure(picture(pixels, said), said) for said, pixels in images)
        section.add(tag("h3", title), side_by_side(*shown, class_="gallery"))
    page.images = True
    return page
