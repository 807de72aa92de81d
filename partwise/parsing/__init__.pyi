from partwise.parsing.conllu import DependencySentence as DependencySentence
from partwise.parsing.conllu import parse_conllu as parse_conllu
from partwise.parsing.conllu import read_conllu as read_conllu
from partwise.parsing.conllu import write_conllu as write_conllu
from partwise.parsing.metrics import AttachmentScores as AttachmentScores
from partwise.parsing.metrics import attachment_scores as attachment_scores
from partwise.parsing.sample import load_sample_treebank as load_sample_treebank
