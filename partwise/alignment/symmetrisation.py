"""From two directions to one alignment: Och and Ney (2003), Koehn et al. (2003)."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable

from partwise.exceptions import unknown_name

__all__ = ["SYMMETRISATIONS", "symmetrise"]

Link = tuple[int, int]

_BESIDE = ((-1, 0), (0, -1), (1, 0), (0, 1))
_AROUND = (*_BESIDE, (-1, -1), (-1, 1), (1, -1), (1, 1))


def symmetrise(forward: Iterable[Link], backward: Iterable[Link], method: str = "grow-diag-final") -> list[Link]:
    """One set of links (i, j) from those of both directions, in ascending order.

    Parameters
    ----------
    forward, backward : links (source position, target position) of the two directions
    method : str
        "intersection" and "union"; "grow": start from the intersection and repeatedly add links of the union that are
        adjacent to a chosen link and cover a word without a link; "grow-diag": diagonal neighbours count as adjacent;
        "-final": then add the remaining links of either direction that cover a word without a link; "-final-and": only
        those that cover two such words. The order in which links are added is that of Moses' ``symal``.

    Examples
    --------
    >>> symmetrise([(0, 0), (1, 1), (3, 3)], [(0, 0), (1, 2), (3, 3)], "grow-diag")
    [(0, 0), (1, 1), (1, 2), (3, 3)]
    """
    if method not in SYMMETRISATIONS:
        raise unknown_name("method", method, SYMMETRISATIONS)
    return sorted(SYMMETRISATIONS[method](set(forward), set(backward)))


def _grow(
    forward: set[Link], backward: set[Link], around: tuple[Link, ...], final: bool = False, both: bool = False
) -> set[Link]:
    union, chosen = forward | backward, forward & backward
    sources, targets = {i for i, _ in chosen}, {j for _, j in chosen}

    def add(link: Link) -> None:
        chosen.add(link)
        sources.add(link[0])
        targets.add(link[1])

    # As symal of Moses does: scan after scan over the links in the order of the target, then of the source, until one
    # adds nothing. A link added ahead of the scan is grown from in this scan, one added behind it in the next.
    queue = sorted((j, i) for i, j in chosen)
    grown = True
    while grown:
        grown = False
        at = 0
        while at < len(queue):
            j, i = queue[at]
            for di, dj in around:
                near = (i + di, j + dj)
                if near in union and near not in chosen and (near[0] not in sources or near[1] not in targets):
                    add(near)
                    place = bisect(queue, near[::-1])
                    queue.insert(place, near[::-1])
                    at += place <= at
                    grown = True
            at += 1
    for direction in (forward, backward) if final else ():
        for i, j in sorted(direction - chosen, key=lambda link: (link[1], link[0])):
            free = (i not in sources, j not in targets)
            if all(free) if both else any(free):
                add((i, j))
    return chosen


SYMMETRISATIONS: dict[str, Callable[[set[Link], set[Link]], set[Link]]] = {
    "forward": lambda forward, backward: forward,
    "backward": lambda forward, backward: backward,
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow": lambda forward, backward: _grow(forward, backward, _BESIDE),
    "grow-diag": lambda forward, backward: _grow(forward, backward, _AROUND),
    "grow-diag-final": lambda forward, backward: _grow(forward, backward, _AROUND, True),
    "grow-diag-final-and": lambda forward, backward: _grow(forward, backward, _AROUND, True, True),
}
