from partwise.sequences.chunks import chunk_scores as chunk_scores
from partwise.sequences.labeler import SequenceLabeler as SequenceLabeler
from partwise.sequences.report import sequence_report as sequence_report
from partwise.sequences.sample import load_sample as load_sample
from partwise.sequences.stacked import StackedLabeler as StackedLabeler
