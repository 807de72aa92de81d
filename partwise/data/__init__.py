"""Data sets: columns of strings, chunk tags, parallel text with links, files, and embedded samples."""

from partwise.data import tags
from partwise.data.bitext import Bitext
from partwise.data.column_files import iter_blocks, iter_columns, read_columns, write_columns
from partwise.data.columns import CodedColumn, Columns, Sentence, encode
from partwise.data.letters import Letters, read_letters
from partwise.data.links import (
    AlignedPairs,
    GoldLinks,
    read_naacl,
    read_naacl_links,
    read_pharaoh,
    write_naacl_links,
    write_pharaoh,
)
from partwise.data.parallel import iter_bitext, read_bitext, read_naacl_sentences, write_bitext
from partwise.data.sample import load_sample
from partwise.data.sample_alignments import load_sample_alignments

__all__ = [
    "AlignedPairs",
    "Bitext",
    "CodedColumn",
    "Columns",
    "GoldLinks",
    "Letters",
    "Sentence",
    "encode",
    "iter_bitext",
    "iter_blocks",
    "iter_columns",
    "load_sample",
    "load_sample_alignments",
    "read_bitext",
    "read_columns",
    "read_letters",
    "read_naacl",
    "read_naacl_links",
    "read_naacl_sentences",
    "read_pharaoh",
    "tags",
    "write_bitext",
    "write_columns",
    "write_naacl_links",
    "write_pharaoh",
]
