from partwise.alignment.report import alignment_report as alignment_report
from partwise.report.page import Page as Page
from partwise.sequences.report import sequence_report as sequence_report
from partwise.topics.report import topic_report as topic_report
