"""Data sets: columns of strings, chunk tags, files, and an embedded sample."""

from partwise.data import tags
from partwise.data.column_files import iter_columns, read_columns, write_columns
from partwise.data.columns import CodedColumn, Columns, Sentence, encode
from partwise.data.sample import load_sample

__all__ = [
    "CodedColumn",
    "Columns",
    "Sentence",
    "encode",
    "iter_columns",
    "load_sample",
    "read_columns",
    "tags",
    "write_columns",
]
