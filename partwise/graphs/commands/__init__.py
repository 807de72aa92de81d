"""Commands of graph labelling."""
