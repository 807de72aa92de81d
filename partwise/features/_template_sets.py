"""Ready template sets. Their columns are ``word``, ``pos`` and ``chunk``, and a first stage's ``predicted``."""

from __future__ import annotations

__all__ = ["READY"]

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
# words and tags around
word[-3..3]
pos[-3..3]
lower(word)[-1..1]
# neighbours together
word[-1..1 pairs]
lower(word)[-2..2 pairs]
pos[-2..2 pairs]
pos[-2..2 triples]
pos[-2] pos[-1] pos[0] pos[1]
pos[-1] pos[0] pos[1] pos[2]
# words with tags
word[-1..1] pos[0]
word[0] pos[-1,1]
word[0] pos[-1] pos[1]
# form
prefix(word,1..4)[0]
suffix(word,1..4)[0]
suffix(word,2..3)[-1,1]
short_shape(word)[-1..1]
"""

_NER = """\
bias
# words around, as they are and in lower case
word[-2..2]
lower(word)[-2..2]
word[-1..1 pairs]
# form
shape(word)[-1..1]
short_shape(word)[-2..2]
short_shape(word)[-1..1 pairs]
short_shape(word)[-1..1 triples]
prefix(word,1..6)[0]
suffix(word,1..6)[0]
prefix(lower(word),2..4)[0]
suffix(lower(word),2..4)[0]
prefix(lower(word),3..5)[-1,1]
suffix(lower(word),2..4)[-1,1]
# words around with the form of this one
lower(word)[-2,-1,1,2] short_shape(word)[0]
lower(word)[0] short_shape(word)[-1,1]
# tags
? pos[-2..2]
? pos[-1..1 pairs]
? chunk[-1..1]
# first in its sentence, or in a headline, a capital says little: what does the document say?
first short_shape(word)[0]
all_caps(word)[0]
doc_title(word)[0]
doc_lower(word)[0]
doc_title(word)[0] doc_lower(word)[0]
first doc_title(word)[0]
first doc_lower(word)[0]
all_caps(word)[0] doc_title(word)[0]
all_caps(word)[0] doc_lower(word)[0]
"""

_SECOND = """\
# what the first stage said of the same word elsewhere, and of the neighbours
doc_label(word,type(predicted))[-1..1]
doc_label(lower(word),type(predicted))[0]
corpus_label(word,type(predicted))[-1..1]
doc_label(word,type(predicted))[0] predicted[0]
predicted[-1..1]
predicted[-1,1] short_shape(word)[0]
"""

_POS = """\
bias
word[0]
lower(word)[-2..2]
lower(word)[-1..1 pairs]
prefix(word,1..4)[0]
suffix(word,1..5)[0]
suffix(lower(word),2..3)[-1,1]
short_shape(word)[-1..1]
fold_digits(word)[0]
has_hyphen(word)[0]
first short_shape(word)[0]
last short_shape(word)[0]
all_caps(word)[0]
doc_lower(word)[0] short_shape(word)[0]
"""

READY: dict[str, str] = {
    "chunking": _CHUNKING,
    "crfsuite-chunking": _CRFSUITE,
    "ner": _NER,
    "ner-second": _NER + _SECOND,
    "pos": _POS,
}
