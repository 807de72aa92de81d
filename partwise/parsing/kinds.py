"""Kinds of model files, and the module that reads each."""

KINDS = {
    "dependency-parser": "partwise.parsing.parser",
    "phrase-parser": "partwise.parsing.phrases.parser",
    "second-order-parser": "partwise.parsing.second_order",
    "transition-parser": "partwise.parsing.transitions",
}
