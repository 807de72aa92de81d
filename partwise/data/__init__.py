"""Data sets: columns of strings, chunk tags, parallel text with links, files, and embedded samples.

Streams and columns live here; formats of a single task live with the task and are re-exported here.
"""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
