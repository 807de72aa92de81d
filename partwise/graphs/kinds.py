"""Kinds of model files, and the module that reads each."""

KINDS = {
    "graph-labeler": "partwise.graphs.labeler",
    "markov-network": "partwise.graphs.markov_network",
}
