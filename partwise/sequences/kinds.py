"""Kinds of model files, and the module that reads each."""

KINDS = {
    "joint-labeler": "partwise.sequences.segmentation.joint",
    "search-labeler": "partwise.sequences.segmentation.search_labeler",
    "segment-labeler": "partwise.sequences.segmentation.labeler",
    "sequence-labeler": "partwise.sequences.labeler",
    "stacked-labeler": "partwise.sequences.stacked",
}
