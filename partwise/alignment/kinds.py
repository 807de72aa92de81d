"""Kinds of model files, and the module that reads each."""

KINDS = {
    "generative-aligner": "partwise.alignment.generative",
    "word-aligner": "partwise.alignment.aligner",
}
