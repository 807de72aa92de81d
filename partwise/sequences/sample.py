"""The embedded sample: short English texts with part-of-speech, chunk and entity tags."""

from __future__ import annotations

import io
from dataclasses import replace
from importlib.resources import files

import numpy as np

from partwise.data.column_files import read_columns
from partwise.data.columns import Columns
from partwise.exceptions import unknown_name

__all__ = ["load_sample"]

_PARTS = {"news": ("news",), "life": ("life",), "english": ("news", "life")}
_DOCSTART = "-DOCSTART- "
_TEST_EVERY = 5  # every fifth document of a part is for testing


def load_sample(name: str = "english", split: str | None = None) -> Columns:
    """English text with columns word, pos, chunk and ner, the last two in IOB2; documents are kept.

    Parameters
    ----------
    name : {"english", "news", "life"}
        News reports, texts of everyday life, or (the default) both.
    split : {"train", "test"} or None
        Four fifths of the documents, the other fifth, or all. A document is in the same half whatever
        the name is.

    Examples
    --------
    >>> data = load_sample("news", split="test")
    >>> data
    Columns(38 sentences, 574 tokens, names=('word', 'pos', 'chunk', 'ner'))
    >>> data.sentence(0, "word")
    ['Astronomers', 'find', 'water', 'on', 'distant', 'moon']
    """
    if name not in _PARTS:
        raise unknown_name("sample", name, _PARTS)
    if split not in (None, "train", "test"):
        raise unknown_name("split", split, ("train", "test"))
    chosen = []
    for part in _PARTS[name]:
        text = files("partwise.sequences").joinpath("samples", f"english_{part}.conll").read_text("utf-8")
        for number, document in enumerate(text.split(_DOCSTART)[1:], start=1):
            if split is None or (split == "test") == (number % _TEST_EVERY == 0):
                chosen.append(_DOCSTART + document)
    data = read_columns(io.StringIO("".join(chosen)), columns=("word", "pos", "chunk", "ner"))
    # The lines are those of no file that the caller could look at.
    return replace(data, path=None, lines=np.zeros_like(data.lines))
