"""Reports: one self-contained HTML page a run, with scores, pictures and the errors, that opens offline.

``page`` and ``charts`` know nothing of models; ``sequence`` fills them for sequence labellers.
"""

from partwise.report.page import Page
from partwise.report.sequence import sequence_report

__all__ = ["Page", "sequence_report"]
