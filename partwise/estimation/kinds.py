"""Kinds of model files, and the module that reads each."""

KINDS = {
    "structured-classifier": "partwise.estimation.structured",
}
