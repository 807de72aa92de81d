"""From scores to links. Searches of the models with pairs of links run in processes:

The integer programs of a quadratic assignment are set up in Python and solved by HiGHS, and both hold Python's lock:
threads would take turns. Features are computed here, block by block, while other processes search the blocks before.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from partwise.alignment.feature_map import PartScores
from partwise.alignment.links import Edges, Floats
from partwise.batch import Batch
from partwise.structures.base import Structure

__all__ = ["best_links", "best_matchings", "chosen_links", "search_blocks"]

Links = list[tuple[int, int]]


def chosen_links(edges: Edges, chosen: NDArray[np.bool_]) -> list[Links]:
    """The links of every pair, from one truth value per edge.

    Examples
    --------
    >>> chosen_links(Edges.of([(["a", "b"], ["c"]), (["a"], ["c", "d"])]), np.array([False, True, True, True]))
    [[(1, 0)], [(0, 0), (0, 1)]]
    """
    found = np.flatnonzero(chosen)
    links = list(zip(edges.j[found].tolist(), edges.k[found].tolist(), strict=True))
    borders = np.searchsorted(found, edges.offsets).tolist()
    return [links[a:b] for a, b in itertools.pairwise(borders)]


def best_matchings(found: PartScores) -> list[Links]:
    """The matching with the highest score of every pair, with fertilities where the structure has them."""
    batch, edges = Batch(found.space), found.edges
    places = np.arange(len(edges)) + np.repeat(batch.offsets[:-1] - edges.offsets[:-1], np.diff(edges.offsets))
    return chosen_links(edges, batch.argmax(found.scores).parts[places] > 0.5)


def best_links(space: Structure, scores: Any) -> list[Links]:
    """The links of the output with the highest score of every instance."""
    return [list(map(tuple, links.tolist())) for links in Batch(space).outputs(scores)]


def search_blocks(blocks: Iterable[tuple[Structure, Floats]], n_jobs: int) -> list[Links]:
    """The same for blocks (space, packed scores), in ``n_jobs`` processes and in order; blocks are made as needed."""
    found = Parallel(n_jobs=n_jobs)(delayed(best_links)(space, scores) for space, scores in blocks)
    return [links for some in found for links in some]
