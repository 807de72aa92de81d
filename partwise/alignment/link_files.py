"""Gold and predicted links: Pharaoh ``i-j`` lines and NAACL ``.wa`` files.

Positions are counted from 0 everywhere in partwise; ``.wa`` files count from 1, and 0 there is the empty word, whose
links are left out: a word without a partner has no link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from partwise.alignment.bitext import Bitext
from partwise.alignment.parallel import read_naacl_sentences
from partwise.data.streams import Source, name_of, open_target, read_lines
from partwise.exceptions import FormatError, InputError

__all__ = [
    "AlignedPairs",
    "GoldLinks",
    "Link",
    "read_naacl",
    "read_naacl_links",
    "read_pharaoh",
    "write_naacl_links",
    "write_pharaoh",
]

Link = tuple[int, int]
_PHARAOH = re.compile(r"(\d+)([-?p])(\d+)")


class GoldLinks(NamedTuple):
    """Links (source position, target position) of one pair; the sure ones are among the possible ones."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def of(cls, sure: Iterable[Link], possible: Iterable[Link] = ()) -> GoldLinks:
        """The links S and S ∪ P."""
        chosen = frozenset(sure)
        return cls(chosen, chosen | frozenset(possible))


class AlignedPairs(NamedTuple):
    """Sentence pairs with gold links; ``numbers`` are those of the file, or 1, 2, …"""

    bitext: Bitext
    gold: list[GoldLinks]
    numbers: list[int]


def read_pharaoh(
    source: Source,
    pairs: Bitext | Sequence[tuple[Sequence[str], Sequence[str]]] | None = None,
    *,
    encoding: str = "utf-8",
) -> list[GoldLinks]:
    r"""Read one line of links per pair, from 0: ``i-j`` (sure), ``i?j`` or ``ipj`` (possible). The line may be empty.

    Parameters
    ----------
    pairs : Bitext or pairs of word lists, optional
        If given, the number of lines and the range of every link are checked.

    Examples
    --------
    >>> import io
    >>> gold = read_pharaoh(io.StringIO("0-0 1?1\n\n"))
    >>> sorted(gold[0].sure), sorted(gold[0].possible), gold[1].possible
    ([(0, 0)], [(0, 0), (1, 1)], frozenset())
    """
    path = name_of(source)
    gold: list[GoldLinks] = []
    for block in read_lines(source, encoding, bulk=False):
        for line in block.removesuffix(b"\n").split(b"\n"):
            number = len(gold) + 1
            links: tuple[set[Link], set[Link]] = (set(), set())
            if pairs is not None and number > len(pairs):
                raise FormatError(
                    f"more lines of links than pairs: there are {len(pairs)} pairs", path=path, line=number
                )
            for word in line.decode().split():
                match = _PHARAOH.fullmatch(word)
                if match is None:
                    raise FormatError(f"expected links such as 0-1 or 0?1, got {word!r:.80}", path=path, line=number)
                link = (int(match[1]), int(match[3]))
                if pairs is not None:
                    _check_range(link, pairs[number - 1], word, path, number)
                links[match[2] != "-"].add(link)
            gold.append(GoldLinks.of(*links))
    if pairs is not None and len(gold) != len(pairs):
        raise FormatError(f"expected {len(pairs)} lines, one per pair, got {len(gold)}", path=path, line=len(gold) + 1)
    return gold


def _check_range(link: Link, pair: tuple[Sequence[str], Sequence[str]], text: str, path: str, line: int) -> None:
    for position, words, name in zip(link, pair, ("source", "target"), strict=True):
        if position >= len(words):
            message = f"link {text} is out of range: the {name} sentence has {len(words)} words"
            raise FormatError(message, path=path, line=line)


def write_pharaoh(target: Source, links: Iterable[GoldLinks | Iterable[Link]], *, encoding: str = "utf-8") -> None:
    r"""Write one line of ``i-j`` per pair, in ascending order; possible links of :class:`GoldLinks` as ``i?j``.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> write_pharaoh(out, [[(1, 0), (0, 1)], GoldLinks.of([(0, 0)], [(0, 1)])])
    >>> out.getvalue()
    '0-1 1-0\n0-0 0?1\n'
    """
    with open_target(target, encoding) as write:
        for number, pair in enumerate(links):
            gold = pair if isinstance(pair, GoldLinks) else GoldLinks.of(pair)
            for i, j in gold.possible:
                if i < 0 or j < 0:
                    raise InputError(f"pair {number}: positions count from 0, got the link {(i, j)}")
            write(" ".join(f"{i}{'-' if (i, j) in gold.sure else '?'}{j}" for i, j in sorted(gold.possible)) + "\n")


def read_naacl_links(
    source: Source, lengths: dict[int, tuple[int, int]] | None = None, *, encoding: str = "utf-8"
) -> dict[int, GoldLinks]:
    r"""Read ``snum source target [S|P] [confidence]`` lines, positions from 1; a link without a letter is sure.

    Parameters
    ----------
    lengths : dict of sentence number to (I, J), optional
        If given, unknown sentence numbers and positions out of range are errors.

    Examples
    --------
    >>> import io
    >>> gold = read_naacl_links(io.StringIO("0001 1 2 S\n0001 2 0 S\n0001 2 1 P\n"))
    >>> gold[1]
    GoldLinks(sure=frozenset({(0, 1)}), possible=frozenset({(0, 1), (1, 0)}))
    """
    path = name_of(source)
    found: dict[int, tuple[set[Link], set[Link]]] = {}
    number = 0
    for block in read_lines(source, encoding, bulk=False):
        for line in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            fields = line.decode().split()
            if not fields:
                continue
            kind = fields[3] if len(fields) > 3 and fields[3] in ("S", "P") else "S"
            rest = fields[4 if len(fields) > 3 and fields[3] in ("S", "P") else 3 :]
            if len(fields) < 3 or not all(map(str.isdecimal, fields[:3])) or len(rest) > 1 or not _number(rest):
                message = f"expected 'sentence source target S|P', got {' '.join(fields)!r:.80}"
                raise FormatError(message, path=path, line=number)
            snum, i, j = map(int, fields[:3])
            if lengths is not None:
                _check_naacl(snum, i, j, lengths, path, number)
            links = found.setdefault(snum, (set(), set()))
            if i and j:
                links[kind == "P"].add((i - 1, j - 1))
    return {snum: GoldLinks.of(*links) for snum, links in found.items()}


def _number(fields: list[str]) -> bool:
    try:
        return all(float(field) >= 0 for field in fields)
    except ValueError:
        return False


def _check_naacl(snum: int, i: int, j: int, lengths: dict[int, tuple[int, int]], path: str, line: int) -> None:
    if snum not in lengths:
        raise FormatError(f"there is no sentence {snum}", path=path, line=line)
    for position, length, name in zip((i, j), lengths[snum], ("source", "target"), strict=True):
        if position > length:
            message = f"link {i} {j} is out of range: the {name} sentence {snum} has {length} words"
            raise FormatError(message, path=path, line=line)


def read_naacl(source: Source, target: Source, links: Source | None = None, *, encoding: str = "utf-8") -> AlignedPairs:
    """Read the three files of a NAACL alignment set: both sides and (optionally) the ``.wa`` links.

    The pairs come in the order of the source file. A pair without a line of links has no links.
    """
    first, second = (read_naacl_sentences(file, encoding=encoding) for file in (source, target))
    for mine, other, path in ((first, second, name_of(target)), (second, first, name_of(source))):
        if missing := sorted(mine.keys() - other.keys()):
            message = f"no sentence {missing[0]}; the files have {len(first)} and {len(second)} sentences"
            raise FormatError(message, path=path)
    lengths = {snum: (len(first[snum]), len(second[snum])) for snum in first}
    found = {} if links is None else read_naacl_links(links, lengths, encoding=encoding)
    nothing = GoldLinks.of(())
    bitext = Bitext.from_pairs((first[snum], second[snum]) for snum in first)
    return AlignedPairs(bitext, [found.get(snum, nothing) for snum in first], list(first))


def write_naacl_links(
    target: Source, links: Iterable[GoldLinks | Iterable[Link]], numbers: Iterable[int] | None = None
) -> None:
    r"""Write ``.wa`` lines, positions from 1; sentences are numbered from 1 where no ``numbers`` are given.

    Examples
    --------
    >>> import io
    >>> out = io.StringIO()
    >>> write_naacl_links(out, [GoldLinks.of([(0, 1)], [(1, 0)])])
    >>> out.getvalue()
    '0001 1 2 S\n0001 2 1 P\n'
    """
    every = list(links)
    counted = list(range(1, len(every) + 1)) if numbers is None else list(numbers)
    if len(counted) != len(every):
        raise InputError(f"{len(every)} pairs but {len(counted)} numbers")
    with open_target(target, "utf-8") as write:
        for snum, pair in zip(counted, every, strict=True):
            gold = pair if isinstance(pair, GoldLinks) else GoldLinks.of(pair)
            for i, j in sorted(gold.possible):
                write(f"{snum:04d} {i + 1} {j + 1} {'S' if (i, j) in gold.sure else 'P'}\n")
