"""Features of dependency arcs: what is known of the words, as hashes, and the table of weights."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import ParameterError
from partwise.features.base import Features
from partwise.parsing._arc_kernels import ArcPack
from partwise.parsing._second_order_features import GRAND_TEMPLATES, SIBLING_TEMPLATES, SecondOrderPack
from partwise.parsing._word_views import ARC_TEMPLATES, ATTRIBUTES, PAIR_TEMPLATES, WORD_TEMPLATES
from partwise.parsing.columns import complete, frequent_words, has_tags
from partwise.parsing.conllu import DependencySentence
from partwise.storage import pack_strings, unpack_strings
from partwise.structures.second_order import SecondOrderTree

__all__ = ["ArcFeatures", "SecondOrderFeatures", "WordEncoder"]


#: Morphology by which words govern and agree, as UD and CoNLL-X treebanks name it, in lower case.
CASE, AGREEMENT, VERB_FORM = ("case",), ("gender", "number", "person"), ("verbform", "mood", "tense", "voice")


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") | 1


class WordEncoder:
    """Words as rows of hashes, with everything seen fewer than ``min_count`` times in training treated as unknown.

    Morphological features that are unique to a token (the ids of some treebanks) vanish in this way. Columns that a
    treebank does not have are filled as :mod:`partwise.parsing.columns` says.
    """

    def __init__(self, min_count: int = 1) -> None:
        self.min_count = min_count
        self.known: dict[str, set[str]] = {}
        self.tags: list[str] = []
        self.frequent: dict[str, int] = {}
        self.tagged = False  # whether most training sentences had tags

    def fit(self, sentences: Sequence[DependencySentence]) -> WordEncoder:
        counts: dict[str, Counter[str]] = {name: Counter() for name in ("form", "lemma", "feats", "upos")}
        self.frequent, self.tagged = frequent_words(sentences), 2 * sum(map(has_tags, sentences)) > len(sentences)
        for sentence in sentences:
            for row in sentence.words:
                form, lemma, upos, _, feats = complete(row[1:6], self.frequent)
                counts["form"][form] += 1
                counts["lemma"][lemma] += 1
                counts["upos"][upos] += 1
                counts["feats"].update(feats.split("|"))
        self.known = {
            name: {value for value, count in counts[name].items() if count >= self.min_count}
            for name in ("form", "lemma")
        }
        self.known["feats"] = {value for value, count in counts["feats"].items() if count >= 2}
        self.tags = [tag for tag, _ in counts["upos"].most_common(63)]
        return self

    def encode(self, sentences: Sequence[DependencySentence]) -> tuple[NDArray[np.int64], Any, NDArray[np.uint8]]:
        """(offsets, (words, attributes) hashes, (words,) numbers of parts of speech)."""
        offsets = np.zeros(len(sentences) + 1, np.int64)
        bit = {tag: k for k, tag in enumerate(self.tags)}
        numbers: dict[tuple[str, ...], int] = {}  # of the different words, each with its tags
        kinds: list[int] = []
        for i, sentence in enumerate(sentences):
            own = [numbers.setdefault(row[1:6], len(numbers)) for row in sentence.rows if row[0].isdecimal()]
            offsets[i + 1] = offsets[i] + len(own)
            kinds += own
        hashes, full = _Hashes(self.known), [complete(key, self.frequent) for key in numbers]
        table = np.array([hashes.of_word(*word) for word in full], np.uint64).reshape(-1, len(ATTRIBUTES))
        bits = np.array([bit.get(word[2], 63) for word in full], np.uint8)
        which = np.array(kinds, np.intp)
        return offsets, table[which], bits[which]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """(header, arrays) of a model file."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, words in self.known.items():
            arrays[f"{name}_bytes"], arrays[f"{name}_offsets"] = pack_strings(sorted(words))
        return {"tags": self.tags, "frequent": list(self.frequent), "tagged": self.tagged}, arrays

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> WordEncoder:
        """What :meth:`to_state` wrote; ``min_count`` has done its work."""
        encoder = cls()
        encoder.tags, encoder.tagged = list(header["tags"]), bool(header["tagged"])
        encoder.frequent = {word: rank for rank, word in enumerate(header["frequent"])}
        for name in ("form", "lemma", "feats"):
            encoder.known[name] = set(unpack_strings(arrays[f"{name}_bytes"], arrays[f"{name}_offsets"]))
        return encoder


class _Hashes:
    """Hashes of what words are made of, each string hashed once."""

    def __init__(self, known: dict[str, set[str]]) -> None:
        self.known = known
        self.of = functools.cache(_hash)
        self.of_feats = functools.cache(self._of_feats)

    def _of_feats(self, feats: str) -> tuple[int, int, int, int]:
        """Known features, and case, agreement and verb form among them."""
        kept = "|".join(sorted(f for f in feats.split("|") if f in self.known["feats"]))
        morphology = dict(pair.lower().partition("=")[::2] for pair in kept.split("|"))
        case, agreement, verb = (
            "|".join(morphology.get(name, "") for name in names) for names in (CASE, AGREEMENT, VERB_FORM)
        )
        return _hash("f" + kept), _hash("k" + case), _hash("g" + agreement), _hash("v" + verb)

    def of_word(self, form: str, lemma: str, upos: str, xpos: str, feats: str) -> list[int]:
        """The attributes of a word, in the order of ``ATTRIBUTES``."""
        shape = "".join(
            "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in form[:1] + form[-1:]
        )
        known_form = form if form in self.known["form"] else "\0"
        known_lemma = lemma if lemma in self.known["lemma"] else "\0"
        of = self.of
        kept, case, agreement, verb = self.of_feats(feats)
        return [
            of("w" + known_form), of("l" + known_lemma), of("p" + upos), of("x" + xpos), kept,
            of("s" + form.lower()[-3:]), of("c" + shape), case, agreement, verb,
        ]  # fmt: skip


class ArcFeatures(Features):
    """s(h, m, l) of all arcs of all sentences, from a table of 2^arc_bits weights and 2^row_bits rows of L weights.

    Parameters
    ----------
    encoder : WordEncoder
    sentences : sequence of DependencySentence
    n_labels : int
    arc_bits, row_bits : int
    """

    precision = np.float32

    def __init__(
        self,
        encoder: WordEncoder,
        sentences: Sequence[DependencySentence],
        n_labels: int,
        *,
        arc_bits: int = 22,
        row_bits: int = 17,
    ) -> None:
        for name, value in (("arc_bits", arc_bits), ("row_bits", row_bits)):
            if not 4 <= value <= 30:
                raise ParameterError(name, "ArcFeatures", "in 4..30", value)
        self.n_labels, self.arc_bits, self.row_bits = n_labels, arc_bits, row_bits
        offsets, words, bits = encoder.encode(sentences)
        self._pack = ArcPack(
            offsets, words, bits, ARC_TEMPLATES, WORD_TEMPLATES, PAIR_TEMPLATES, n_labels, arc_bits, row_bits
        )

    @property
    def dim(self) -> int:
        rows = (1 << self.row_bits) * self.n_labels if self.n_labels > 1 else 0
        return (1 << self.arc_bits) + rows

    @property
    def pack(self) -> ArcPack:
        return self._pack


class SecondOrderFeatures(Features):
    """s of labelled candidate arcs, siblings and grandparents, from the tables of :class:`ArcFeatures`."""

    precision = np.float32

    def __init__(self, arcs: ArcFeatures, space: SecondOrderTree) -> None:
        self.arcs = arcs
        self._pack = SecondOrderPack(arcs.pack, space.pack, SIBLING_TEMPLATES, GRAND_TEMPLATES)

    @property
    def dim(self) -> int:
        return self.arcs.dim

    @property
    def pack(self) -> SecondOrderPack:
        return self._pack
