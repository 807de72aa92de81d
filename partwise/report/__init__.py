"""Reports: one self-contained HTML page per run, with scores, pictures and errors, that opens offline.

``page`` and ``charts`` know nothing of models; each task fills them in a file ``report.py`` of its own.
"""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
