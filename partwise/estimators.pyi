from partwise.alignment.aligner import WordAligner as WordAligner
from partwise.classification.linear import LinearClassifier as LinearClassifier
from partwise.estimation.base import load_model as load_model
from partwise.estimation.structured import StructuredClassifier as StructuredClassifier
from partwise.sequences.labeler import SequenceLabeler as SequenceLabeler
from partwise.sequences.stacked import StackedLabeler as StackedLabeler
