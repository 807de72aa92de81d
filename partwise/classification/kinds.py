"""Kinds of model files, and the module that reads each."""

KINDS = {
    "linear-classifier": "partwise.classification.linear",
}
