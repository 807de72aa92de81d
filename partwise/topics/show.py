"""What the topics say, as data: top words, strong topics, shares; and maps of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.exceptions import InputError

__all__ = [
    "StrongTopics",
    "TopWord",
    "document_map",
    "group_words",
    "strong_topics",
    "topic_groups",
    "topic_strengths",
]


class TopWord(NamedTuple):
    """A word and its score s_v^G: how many times likelier than uniform it is in the group of topics."""

    word: str
    score: float


def group_words(phi: np.ndarray, topics: Sequence[int], vocabulary: Sequence[str], n_words: int = 10) -> list[TopWord]:
    """The words with the largest s_v^G = (V/|G|) Σ_{k∈G} Φ_vk  (Lacoste-Julien 2009, §4.4.3)

    phi: (V, K); topics: the group G. Ties go to the earlier word.

    Examples
    --------
    >>> phi = np.array([[0.5, 0.25], [0.25, 0.25], [0.25, 0.5]])
    >>> [(w, round(float(s), 2)) for w, s in group_words(phi, [0], ["a", "b", "c"], n_words=2)]
    [('a', 1.5), ('b', 0.75)]
    """
    group = np.asarray(topics, dtype=np.int64)
    if group.size == 0:
        return []
    if len(vocabulary) != phi.shape[0]:
        raise InputError(f"the vocabulary has {len(vocabulary)} words but the topics have {phi.shape[0]}")
    scores = phi.shape[0] / group.size * phi[:, group].sum(axis=1)
    best = np.argsort(-scores, kind="stable")[:n_words]
    return [TopWord(str(vocabulary[v]), float(scores[v])) for v in best]


def topic_groups(n_classes: int, class_topics: int, shared_topics: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Topics of each class, and the shared ones, of the block transformation (4.11)."""
    own = [np.arange(y * class_topics, (y + 1) * class_topics) for y in range(n_classes)]
    return own, n_classes * class_topics + np.arange(shared_topics)


class StrongTopics(NamedTuple):
    """Topics that belong clearly to one class, and those that clearly belong to all."""

    classes: list[np.ndarray]
    shared: np.ndarray


def strong_topics(transformation: np.ndarray, high: float = 0.9, low: float = 0.4) -> StrongTopics:
    """Topics by s_k^y = Σ_l T_kl^y: shared if s ≥ 0.9 for all classes; of y if s^y ≥ 0.9, the others ≤ 0.4

    (Lacoste-Julien 2009, §4.4.3, there for two classes). transformation: (C, K, L).

    Examples
    --------
    >>> from partwise.topics.transforms import block_transformation
    >>> found = strong_topics(block_transformation(2, 1, 2))
    >>> [group.tolist() for group in found.classes], found.shared.tolist()
    ([[0], [1]], [2, 3])
    """
    strength = transformation.sum(axis=2)
    present, absent = strength >= high, strength <= low
    classes = [np.flatnonzero(present[y] & np.delete(absent, y, axis=0).all(axis=0)) for y in range(strength.shape[0])]
    return StrongTopics(classes, np.flatnonzero(present.all(axis=0)))


def topic_strengths(transformation: np.ndarray, theta: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Mean over the documents of class c of E[Σ_l T_kl^y θ_dl | y_d, w_d]: (C, K)  (Lacoste-Julien 2009, §4.4.3)

    theta: (D, L), E[θ_d | y_d, w_d]; labels: (D,) codes. A shared topic's strength is the mean over classes.
    """
    strengths = np.zeros(transformation.shape[:2])
    for y in range(n_classes):
        members = labels == y
        if members.any():
            strengths[y] = transformation[y] @ theta[members].mean(axis=0)
    return strengths


def document_map(representation: np.ndarray, random_state: int = 0, **options: Any) -> np.ndarray:
    """(D, 2): two-dimensional t-SNE map of documents (Lacoste-Julien 2009, Figures 4.5, 4.6, 4.8)."""
    from sklearn.manifold import TSNE  # slow to import, and only maps need it
    from threadpoolctl import threadpool_limits

    settings: dict[str, Any] = {"init": "pca", "perplexity": min(30.0, (len(representation) - 1) / 3)}
    with threadpool_limits(1):  # its threads meet at every step: on a busy machine they wait more than they work
        return np.asarray(TSNE(2, random_state=random_state, **(settings | options)).fit_transform(representation))
