"""Templates: a small language that says which attributes a token has.

A template set is text, one template per line::

    word[-2..2]                 # the word, and two to either side: five templates
    word[-1] word[0]            # two words together
    suffix(word,1..4)[0]        # functions of a column; a range makes one template each
    ? pos[-1..1 pairs]          # only where there is a column of this name

It is fitted on columns of integer codes: every function is computed once for each distinct word, and
every template becomes one integer key per token. The guide to the language is ``docs/templates.md``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from partwise.data.columns import Columns
from partwise.exceptions import FormatError, ParameterError, unknown_name
from partwise.templates._counts import TemplateCounts
from partwise.templates._functions import CONTEXTS, FUNCTIONS
from partwise.templates._index import (
    MAX_BITS,
    TemplateIndex,
    TokenMatrix,
    check_columns,
    distinct_templates,
)
from partwise.templates._parse import Line, parse_lines
from partwise.templates._sets import PRESETS
from partwise.templates._values import Files, Values

__all__ = ["FUNCTIONS", "PRESETS", "TemplateIndex", "Templates", "TokenMatrix"]

# A word alone is no template, which needs an offset; so this is a name, right or wrong.
_READY_NAME = re.compile(r"[\w-]+")


class Templates:
    r"""A parsed template set. Made by ``parse``, ``read`` or ``preset``.

    Examples
    --------
    >>> data = Columns.from_sentences({"word": [["the", "dog"], ["the", "cat"]]})
    >>> templates = Templates.parse("word[0]\nword[-1..1 pairs]  # of neighbours")
    >>> index, matrix = templates.fit_transform(data)
    >>> index.names()  # doctest: +NORMALIZE_WHITESPACE
    ['word[0]=the', 'word[0]=dog', 'word[0]=cat', 'word[-1]|word[0]=the|dog',
     'word[-1]|word[0]=the|cat', 'word[0]|word[1]=the|dog', 'word[0]|word[1]=the|cat']
    >>> matrix.attributes[matrix.indptr[1] : matrix.indptr[2]]  # of the token "dog"
    array([1, 3], dtype=int32)
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = tuple(lines)

    @classmethod
    def parse(cls, text: str | Iterable[str], path: str = "templates") -> Templates:
        r"""Parse text, or a list of lines; the name of a preset stands for its text.

        ``path`` is what errors call the text.

        Examples
        --------
        >>> Templates.parse(["word[-2..2]", "suffix(word,1..3)[0]"])
        Templates(8 templates on word)
        >>> Templates.parse("chunking") == Templates.preset("chunking")
        True
        >>> Templates.parse("word[0]\nsufix(word,3)[0]")
        Traceback (most recent call last):
            ...
        partwise.exceptions.FormatError: templates:2: unknown function 'sufix' (did you mean 'suffix'?)
            sufix(word,3)[0]
            ^
        """
        if isinstance(text, str):
            if _READY_NAME.fullmatch(text) and text not in FUNCTIONS:
                return cls.preset(text)
        else:
            text = list(text)
            if not all(isinstance(line, str) for line in text):
                raise ParameterError("text", "Templates.parse", "a string or a list of strings", text)
            text = "\n".join(text)
        lines = parse_lines(text, path)
        if not lines:
            raise FormatError("no templates", path=path)
        return cls(lines)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Templates:
        """Parse a file."""
        name = os.fspath(path)
        try:
            with open(name, encoding="utf-8-sig") as file:
                return cls.parse(file.read(), name)
        except OSError as error:
            raise FormatError(f"the templates cannot be read: {error.strerror or error}", path=name) from error
        except UnicodeDecodeError as error:
            raise FormatError(f"the templates are not utf-8: {error.reason}", path=name) from None

    @classmethod
    def preset(cls, name: str) -> Templates:
        """A preset: "chunking", "ner", "pos", ...; ``PRESETS`` holds their texts.

        Examples
        --------
        >>> Templates.preset("crfsuite-chunking")
        Templates(19 templates on word, pos)
        """
        if name not in PRESETS:
            raise unknown_name("templates", name, PRESETS)
        return cls(parse_lines(PRESETS[name], name))

    def __repr__(self) -> str:
        maybe = "".join(f", {name}?" for name in self.optional_columns)
        return f"Templates({len(self)} templates on {', '.join(self.columns)}{maybe})"

    def __len__(self) -> int:
        return len(distinct_templates(self._lines))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Templates) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __add__(self, other: Templates) -> Templates:
        """The templates of both; what is in both counts once."""
        return Templates((*self._lines, *other._lines))

    @property
    def text(self) -> str:
        """The templates in canonical form, one per line, without comments; parses to the same set."""
        return "\n".join(line.text for line in self._lines)

    @property
    def names(self) -> list[str]:
        """The single templates that the lines expand to.

        Examples
        --------
        >>> Templates.parse("prefix(word,1..2)[0] pos[-1,1]").names  # doctest: +NORMALIZE_WHITESPACE
        ['prefix(word,1)[0]|pos[-1]', 'prefix(word,1)[0]|pos[1]',
         'prefix(word,2)[0]|pos[-1]', 'prefix(word,2)[0]|pos[1]']
        """
        return list(map(str, distinct_templates(self._lines)))

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the data must have."""
        needed = (name for line in self._lines if not line.optional for name in line.columns())
        return list(dict.fromkeys(needed))

    @property
    def context(self) -> str:
        """How much text the templates look at: a "sentence", or its "document".

        Examples
        --------
        >>> Templates.parse("doc_lower(word)[0]").context
        'document'
        """
        pieces = (piece for line in self._lines for piece in line.pieces())
        used = {FUNCTIONS[value.function].context for piece in pieces for value in piece.value.walk() if value.function}
        return max(used | {CONTEXTS[0]}, key=CONTEXTS.index)

    @property
    def optional_columns(self) -> list[str]:
        """Names of the columns that only lines with ``?`` use."""
        found = dict.fromkeys(name for line in self._lines if line.optional for name in line.columns())
        return [name for name in found if name not in self.columns]

    def resolve(self, columns: Columns | Sequence[str]) -> Templates:
        """The set for data with these columns: without the optional lines whose columns are not there.

        Raises
        ------
        FormatError
            Where a line that is not optional reads a column that is not there.
        """
        names = columns.names if isinstance(columns, Columns) else tuple(columns)
        lines = [line for line in self._lines if not line.optional or set(line.columns()) <= set(names)]
        check_columns(lines, columns)
        if not lines:
            raise FormatError("none of the templates has its columns in the data", path=self._lines[0].path)
        return Templates(lines)

    def check(self, columns: Columns | Sequence[str]) -> None:
        """Raise now what ``fit`` would raise: a column that is not there, a file that cannot be read."""
        Files.read(self.resolve(columns)._lines)

    def fit(self, columns: Columns, min_count: int = 1, hashing: int | None = None) -> TemplateIndex:
        """Collect the attributes of training data.

        Parameters
        ----------
        columns : Columns
        min_count : int
            Attributes of fewer tokens are left out. Real-valued ones always stay.
        hashing : int, optional
            Instead of numbering the attributes, hash them to this many bits: no vocabulary is kept, an
            attribute has the same id in all data, and there are no names. Excludes ``min_count``.

        Returns
        -------
        TemplateIndex
        """
        return self._fit(columns, min_count, hashing)[0]

    def count(self, columns: Columns) -> TemplateCounts:
        """The attributes of one shard of the training data with their counts; those of several shards can be merged."""
        return TemplateCounts.of(self.resolve(columns)._lines, columns)

    def fit_transform(
        self, columns: Columns, min_count: int = 1, hashing: int | None = None
    ) -> tuple[TemplateIndex, TokenMatrix]:
        """``fit``, and the attributes of each token of the same data."""
        index, values, found = self._fit(columns, min_count, hashing)
        return index, index.transform_values(values, found)

    def _fit(self, columns: Columns, min_count: Any, hashing: Any) -> tuple[TemplateIndex, Values, Any]:
        if isinstance(min_count, bool) or not isinstance(min_count, int) or min_count < 1:
            raise ParameterError("min_count", "Templates.fit", "a positive integer", min_count)
        if hashing is not None:
            if isinstance(hashing, bool) or not isinstance(hashing, int) or not 1 <= hashing <= MAX_BITS:
                raise ParameterError("hashing", "Templates.fit", f"None or bits from 1 to {MAX_BITS}", hashing)
            if min_count > 1:
                raise ParameterError("min_count", "Templates.fit", "1 if attributes are hashed", min_count)
        if not isinstance(columns, Columns):
            raise ParameterError("columns", "Templates.fit", "Columns", type(columns).__name__)
        lines = self.resolve(columns)._lines
        values = Values(columns, Files.read(lines))
        index, found = TemplateIndex.fit(lines, values, min_count, hashing)
        return index, values, found
