"""Kinds of model files, and the module that reads each."""

KINDS = {
    "count-text": "partwise.topics.text",
    "disclda": "partwise.topics.disclda",
    "lda": "partwise.topics.lda",
    "text-topics": "partwise.topics.texts",
}
