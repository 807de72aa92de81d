"""Chunking by whole labelled segments: features, search, estimators."""
