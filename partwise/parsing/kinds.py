"""Kinds of model files, and the module that reads each."""

KINDS = {
    "dependency-parser": "partwise.parsing.parser",
}
