"""Searches of the models with pairs of links, in processes.

The integer programs of a quadratic assignment are set up in Python and solved by HiGHS, and both hold Python's lock:
threads would take turns. Features are computed here, block by block, while other processes search the blocks before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from joblib import Parallel, delayed

from partwise.alignment.links import Floats
from partwise.batch import Batch
from partwise.structures.base import Structure

__all__ = ["best_links", "search_blocks"]

Links = list[tuple[int, int]]


def best_links(space: Structure, scores: Any) -> list[Links]:
    """The links of the output with the highest score of every instance."""
    return [list(map(tuple, links.tolist())) for links in Batch(space).outputs(scores)]


def search_blocks(blocks: Iterable[tuple[Structure, Floats]], n_jobs: int) -> list[Links]:
    """The same for blocks (space, packed scores), in ``n_jobs`` processes and in order; blocks are made as needed."""
    found = Parallel(n_jobs=n_jobs)(delayed(best_links)(space, scores) for space, scores in blocks)
    return [links for some in found for links in some]
