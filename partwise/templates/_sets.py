"""Presets: template sets on the columns ``word``, ``pos`` and ``chunk``, and ``predicted`` of a first stage."""

from __future__ import annotations

__all__ = ["PRESETS"]

_CRFSUITE = """\
# The templates of CRFsuite's chunking example
word[-2..2]
word[-1..1 pairs]
pos[-2..2]
pos[-2..2 pairs]
pos[-2..2 triples]
"""

_CHUNKING = """\
bias
# words and tags around, alone
word[-3..3]
lower(word)[-1..1]
pos[-3..3]
# and together
word[-2..2 pairs]
word[-1..1 triples]
word[-1] word[1]
pos[-2..2 pairs]
pos[-1] pos[1]
pos[-3..3 triples]
# words with tags
word[-1..1] pos[0]
word[0] pos[-1,1]
# form
prefix(word,1..4)[0]
suffix(word,1..4)[0]
suffix(word,2..3)[-1,1]
shape(word)[-1..1]
"""

_NER = """\
bias
# words around, as they are and in lower case
word[-2..2]
lower(word)[-2..2]
word[-1..1 pairs]
lower(word)[-1..1 pairs]
# form
prefix(word,1..5)[0]
suffix(word,1..5)[0]
prefix(word,2..4)[-1,1]
suffix(word,2..4)[-1,1]
shape(word)[-2..2]
shape(word)[-1..1 pairs]
short_shape(word)[-2..2]
short_shape(word)[-2..2 pairs]
short_shape(word)[-1..1 triples]
fold_digits(word)[0]
has_hyphen(word)[0]
has_digit(word)[0]
word[-1,1] short_shape(word)[0]
# tags
? pos[-2..2]
? pos[-1..1 pairs]
? pos[-1..1 triples]
? word[0] pos[0]
? chunk[-1..1]
# first in its sentence, or in a headline, a capital says little
first is_title(word)[0]
first short_shape(word)[0]
all_caps(word)[0] is_upper(word)[0]
all_caps(word)[0] short_shape(word)[0]
# what does the training corpus say of the same word?
corpus_label(lower(word),word)[0]
corpus_label(lower(word),short_shape(word))[-1..1]
corpus_label(lower(word),short_shape(word))[0] short_shape(word)[0]
corpus_label(lower(word),short_shape(word))[0] short_shape(word)[0] first
corpus_label(lower(word),short_shape(word))[0] all_caps(word)[0]
? corpus_label(word,pos)[0]
"""

#: Pairs that `ner` does without: small corpora cannot fill them (benchmarks/preset_folds.py). Not tried with documents.
_SPARSE = (
    "word[-1..1 pairs]",
    "lower(word)[-1..1 pairs]",
    "shape(word)[-1..1 pairs]",
    "word[-1,1] short_shape(word)[0]",
)
_LOWER_AFFIXES = """\
prefix(lower(word),1..5)[0]
suffix(lower(word),1..5)[0]
"""

_DOCUMENT = """\
# what does the document say of the same word?
doc_title(word)[-1..1]
doc_lower(word)[-1..1]
doc_title(word)[0] first
doc_lower(word)[0] first
doc_title(word)[0] short_shape(word)[0]
doc_lower(word)[0] short_shape(word)[0]
doc_title(word)[0] doc_lower(word)[0] short_shape(word)[0]
"""

_SECOND = """\
# what the first stage said here
predicted[-2..2]
predicted[-1..1 pairs]
predicted[-1..1] word[0]
# of the same word elsewhere in the document
doc_label(word,type(predicted))[-2..2]
doc_label(word,type(predicted))[-1..1 pairs]
doc_label(word,predicted)[-1..1]
doc_label(lower(word),type(predicted))[-1..1]
doc_label(word,type(predicted))[0] predicted[0]
doc_label(word,type(predicted))[0] short_shape(word)[0]
# and in the training corpus
corpus_label(word,type(predicted))[-1..1]
corpus_label(word,predicted)[-1..1]
corpus_label(lower(word),type(predicted))[-1..1]
corpus_label(word,type(predicted))[0] predicted[0]
corpus_label(word,type(predicted))[0] doc_label(word,type(predicted))[0]
corpus_label(word,type(predicted))[0] doc_label(word,type(predicted))[0] predicted[0]
"""

_POS = """\
bias
word[0]
lower(word)[-2..2]
lower(word)[-1..1 pairs]
prefix(word,1..4)[0]
suffix(word,1..5)[0]
prefix(lower(word),1..5)[0]
suffix(lower(word),1..5)[0]
suffix(lower(word),2..3)[-1,1]
short_shape(word)[-1..1]
fold_digits(word)[0]
has_hyphen(word)[0]
first short_shape(word)[0]
last short_shape(word)[0]
all_caps(word)[0]
"""

PRESETS: dict[str, str] = {
    "chunking": _CHUNKING,
    "crfsuite-chunking": _CRFSUITE,
    "ner": "".join(line for line in _NER.splitlines(keepends=True) if line.strip() not in _SPARSE) + _LOWER_AFFIXES,
    "ner-document": _NER + _DOCUMENT,
    "ner-second": _NER + _DOCUMENT + _SECOND,
    "pos": _POS,
}
