"""Kinds of model files, and the module that reads each."""

KINDS = {
    "sequence-labeler": "partwise.sequences.labeler",
    "stacked-labeler": "partwise.sequences.stacked",
}
