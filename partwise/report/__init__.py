"""Reports: one self-contained HTML page a run, with scores, pictures and the errors, that opens offline.

``page`` and ``charts`` know nothing of models; ``sequence`` fills them for sequence labellers,
``alignment`` for word aligners, ``topics`` for topic models.
"""

from partwise.report.alignment import alignment_report
from partwise.report.page import Page
from partwise.report.sequence import sequence_report
from partwise.report.topics import topic_report

__all__ = ["Page", "alignment_report", "sequence_report", "topic_report"]
