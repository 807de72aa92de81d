"""One-file storage: versioned, checksummed, memory-mappable, and without code in it.

``save`` and ``load`` know a JSON-able header and named arrays; ``pack_strings`` makes arrays of strings, and
``Checkpoint`` keeps the state of a training. ``partwise.storage.layout`` describes the file.
"""

from partwise.storage.checkpoint import Checkpoint
from partwise.storage.layout import FORMAT_VERSION, ArrayInfo, Description, Stored
from partwise.storage.reading import describe, load
from partwise.storage.strings import pack_strings, unpack_strings
from partwise.storage.writing import check_writable, save

__all__ = [
    "FORMAT_VERSION",
    "ArrayInfo",
    "Checkpoint",
    "Description",
    "Stored",
    "check_writable",
    "describe",
    "load",
    "pack_strings",
    "save",
    "unpack_strings",
]
