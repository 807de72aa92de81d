"""The embedded parallel sample: short English–French pairs with sure and possible links."""

from __future__ import annotations

import io
from importlib.resources import files

from partwise.alignment.bitext import Bitext
from partwise.alignment.link_files import AlignedPairs, read_pharaoh
from partwise.alignment.parallel import SEPARATOR
from partwise.exceptions import unknown_name

__all__ = ["load_sample_alignments"]

_TEST_EVERY = 3  # every third pair is for testing


def load_sample_alignments(split: str | None = None) -> AlignedPairs:
    """150 English–French sentence pairs from daily life and from a parliament, tokenised, with gold links.

    Sure links are translations word by word; possible ones belong to a phrase (an auxiliary, an article, ``ne``).

    Parameters
    ----------
    split : {"train", "test"} or None
        Two thirds of the pairs, the other third, or all.

    Examples
    --------
    >>> data = load_sample_alignments()
    >>> data.bitext
    Bitext(150 pairs, 1028 and 1120 tokens)
    >>> source, target = data.bitext[23]
    >>> [(source[i], target[j]) for i, j in sorted(data.gold[23].sure)][:4]
    [('the', 'le'), ('white', 'blanc'), ('cat', 'chat'), ('sleeps', 'dort')]
    """
    if split not in (None, "train", "test"):
        raise unknown_name("split", split, ("train", "test"))
    text = files("partwise.alignment").joinpath("samples", "english_french.txt").read_text("utf-8")
    rows = [line.split(f" {SEPARATOR} ") for line in text.splitlines()]
    numbers = [n for n in range(1, len(rows) + 1) if split is None or (split == "test") == (n % _TEST_EVERY == 0)]
    chosen = [rows[n - 1] for n in numbers]
    bitext = Bitext.from_pairs((source.split(), target.split()) for source, target, _ in chosen)
    return AlignedPairs(bitext, read_pharaoh(io.StringIO("".join(f"{row[2]}\n" for row in chosen)), bitext), numbers)
