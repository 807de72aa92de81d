"""Kinds of model files, and the module that reads each."""

KINDS = {
    "search-predictor": "partwise.search.predictor",
}
