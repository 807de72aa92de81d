"""Topic models: LDA, and DiscLDA, which bends LDA's topics towards classes."""

from __future__ import annotations

from .disclda import DiscLDA
from .lda import LDA
from .newsgroups import count_newsgroups, read_newsgroups
from .posterior import ClassPosterior, class_posterior
from .sample import Documents, load_documents
from .show import document_map, group_words, strong_topics, topic_groups, topic_strengths
from .text import CountText, tokenize
from .texts import TextTopics, TopicGroup

__all__ = [
    "LDA",
    "ClassPosterior",
    "CountText",
    "DiscLDA",
    "Documents",
    "TextTopics",
    "TopicGroup",
    "class_posterior",
    "count_newsgroups",
    "document_map",
    "group_words",
    "load_documents",
    "read_newsgroups",
    "strong_topics",
    "tokenize",
    "topic_groups",
    "topic_strengths",
]
