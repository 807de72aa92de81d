"""Reports: one self-contained HTML page a run, with scores, pictures and the errors, that opens offline.

``page`` and ``charts`` know nothing of models; ``sequence`` fills them for sequence labellers,
``topics`` for topic models.
"""

from partwise.report.page import Page
from partwise.report.sequence import sequence_report
from partwise.report.topics import topic_report

__all__ = ["Page", "sequence_report", "topic_report"]
