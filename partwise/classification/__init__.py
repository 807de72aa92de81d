"""One label per row of a matrix."""
