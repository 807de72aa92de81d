"""Templates of :class:`~partwise.sequences.segmentation.joint.JointLabeler` and of the chains that guess for it."""

from __future__ import annotations

from partwise.templates._sets import PRESETS

__all__ = ["CHUNK_TEMPLATES", "FIRST_CHUNK_TEMPLATES", "FIRST_TAG_TEMPLATES", "TAG_TEMPLATES"]

#: What words and dictionaries say of tags; the chain of tags has no more.
FIRST_TAG_TEMPLATES = """\
bias
word[-2..2]
lower(word)[0]
word[-1..1 pairs]
prefix(word,1..4)[0]
suffix(word,1..5)[0]
suffix(word,2..3)[-1,1]
shape(word)[-1..1]
has_hyphen(word)[0]
has_digit(word)[0]
usual[-2..2]
usual[-1..1 pairs]
usual[-1..1 triples]
usual[1] usual[2]
word[0] usual[1]
word[0] usual[-1]
seen[-2..3]
seen[-1..1 pairs]
seen[0] seen[1] seen[2]
lower[0]
seen[0] lower[0]
seen[0] first
seen[0] suffix(word,2..3)[0]
word[0] seen[1]
seen[0] word[-1,1]
lower[0] first short_shape(word)[0]
short_shape(word)[0] suffix(word,3)[0]
stem[0]
forms[0]
seen[0] stem[0]
seen[0] forms[0]
seen[0] stem[0] forms[0]
stem[-1,1]
stem[0] seen[-1]
stem[0] seen[1]
stem[0] suffix(word,2)[0]
"""

#: The chain of chunk tags reads the guessed tags.
FIRST_CHUNK_TEMPLATES = (
    PRESETS["chunking"]
    + """\
role[-1..1]
role[-1..1 pairs]
seen[-1..1]
seen[-1..1 pairs]
word[0] pos[1] pos[2]
pos_odds[-1..1]
pos_odds[0] pos_odds[1]
"""
)

TAG_TEMPLATES = (
    FIRST_TAG_TEMPLATES
    + """\
# what the chains guess, if they do
? pos[-2..2]
? pos_odds[-1..1]
? pos[-1..1 pairs]
? pos_odds[0] seen[0]
? pos_odds[0] word[0]
? pos_odds[0] pos[1]
? pos_odds[0] pos[-1]
? pos_odds[0] suffix(word,3)[0]
? pos_odds[0] chunk_odds[0]
? pos[-1..1 triples]
"""
)

CHUNK_TEMPLATES = """\
bias
word[-2..2]
lower(word)[-1..1]
word[-1..1 pairs]
suffix(word,1..3)[0]
prefix(word,1..3)[0]
shape(word)[-1..1]
usual[-2..3]
usual[-2..2 pairs]
usual[-2..2 triples]
usual[1] usual[2] usual[3]
word[0] usual[-1,1]
word[1] usual[0]
word[-1] usual[0]
seen[-2..3]
seen[-1..2 pairs]
seen[0..2 triples]
word[0] seen[1]
word[0] seen[1] seen[2]
word[-3,3]
word[-1] word[1]
word[0] word[1] usual[2]
word[-1] usual[0] usual[1]
suffix(word,2..3)[-1,1]
role[-2..2]
role[-1..2 pairs]
role[0] usual[1]
role[1] usual[0]
# what the chains guess, if they do
? pos[-3..3]
? pos[-2..2 pairs]
? pos[-2..2 triples]
? word[-1..1] pos[0]
? word[0] pos[-1,1]
? pos_odds[-1..2]
? chunk[-2..2]
? chunk_odds[-1..1]
? chunk[-1..1 pairs]
? chunk_odds[0] pos[0]
? chunk_odds[0] word[0]
? chunk_odds[0] chunk_odds[1]
? chunk_odds[0] chunk_odds[-1]
? chunk_odds[0] pos[0] pos[1]
? chunk_odds[0] pos[-1] pos[0]
? chunk_odds[0] word[1]
? chunk_odds[0] word[-1]
"""
