"""Gold trees of sentences: checked, numbered, or known only in part; and constraints on trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import InputError
from partwise.parsing.conllu import DependencySentence
from partwise.structures.arborescence import Arborescence, tree_fault

__all__ = [
    "Constraint",
    "GoldTrees",
    "constrained_trees",
    "gold_trees",
    "labelled_heads",
    "part_numbers",
    "relations_of",
]

Constraint = Mapping[int, int | tuple[int, str]] | None


@dataclass(frozen=True)
class GoldTrees:
    """What is known of the trees: everything, or in some sentences only part.

    ``missing`` names the first word without a head.
    """

    missing: str = ""

    @property
    def complete(self) -> bool:
        return not self.missing

    def outputs(self, space: Arborescence, X: Sequence[DependencySentence], relations: Sequence[str] | None) -> Any:
        """Outputs for a Problem: a tree per sentence, or the space of those that agree with what is known."""
        if self.complete:
            return labelled_heads(X, relations)
        known: list[Constraint] = []
        for sentence in X:
            rows = enumerate(sentence.words, 1)
            known.append({
                m: int(row[6]) if relations is None or row[7] == "_" else (int(row[6]), row[7])
                for m, row in rows
                if row[6].isdecimal()
            })  # fmt: skip
        given = constrained_trees(X, known, list(relations or ["_"]))
        if relations is None:
            given.pop("labels", None)
        n_labels = None if relations is None else len(relations)
        return Arborescence(
            space.lengths, n_labels, single_root=space.single_root, projective=space.projective, **given
        )


def gold_trees(
    X: Sequence[DependencySentence], single_root: bool | None, *, projective: bool
) -> tuple[bool, GoldTrees]:
    """(whether one root is demanded, what is known); a sentence that is no such tree is an error that names it."""
    missing, one_root = "", True
    for i, sentence in enumerate(X):
        if not isinstance(sentence, DependencySentence):
            raise InputError(
                f"sentence {i} is a {type(sentence).__name__}; expected a DependencySentence with its tree, such as "
                "DependencySentence.of_words(words, heads, relations)"
            )
        name = sentence.source or f"sentence {i}"
        if not len(sentence):
            raise InputError(f"{name}: a sentence without words")
        if not sentence.has_tree:
            if not missing:
                m, row = next((m, row) for m, row in enumerate(sentence.words, 1) if not row[6].isdecimal())
                missing = f"{name}: word {m} ({row[1]!r}) has no head"
            known = [int(row[6]) if row[6].isdecimal() else 0 for row in sentence.words]
            fault = sentence.with_tree(known).fault()
            if fault is not None:
                raise InputError(f"{name}: {fault}")
            continue
        fault = sentence.fault(single_root=bool(single_root))
        if fault is not None:
            raise InputError(f"{name}: {fault}")
        if projective:
            fault = tree_fault(sentence.heads, projective=True)
            if fault is not None:
                raise InputError(f"{name}: {fault}; a projective parser cannot learn it")
        one_root &= int((sentence.heads == 0).sum()) == 1
    return (one_root if single_root is None else single_root), GoldTrees(missing)


def relations_of(X: Iterable[DependencySentence]) -> list[str]:
    """The relations of the trees, the most frequent first."""
    counts = Counter(row[7] for sentence in X for row in sentence.words if row[6].isdecimal() and row[7] != "_")
    return [relation for relation, _ in counts.most_common()] or ["_"]


def part_numbers(X: Sequence[DependencySentence], relations: Sequence[str] | None) -> NDArray[np.int64]:
    """The parts of the sentences' trees, one per word, side by side."""
    space = Arborescence([len(s) for s in X], None if relations is None else len(relations))
    return space.encode_all(labelled_heads(X, relations))[1].astype(np.int64)


def labelled_heads(X: Sequence[DependencySentence], relations: Sequence[str] | None) -> list[NDArray[np.int64]]:
    """Heads (n,) of every sentence, or heads and numbers of relations (n, 2)."""
    if relations is None:
        return [sentence.heads for sentence in X]
    number, trees = {relation: k for k, relation in enumerate(relations)}, []
    for i, sentence in enumerate(X):
        labels = [number.get(relation, -1) for relation in sentence.column("deprel")]
        if min(labels) < 0:
            name = sentence.source or f"sentence {i}"
            m = int(np.argmin(labels))
            raise InputError(f"{name}: relation {sentence.column('deprel')[m]!r} of word {m + 1} is not in the model")
        trees.append(np.stack([sentence.heads, labels], axis=1))
    return trees


def constrained_trees(
    X: Sequence[DependencySentence], constraints: Sequence[Constraint], relations: Sequence[str]
) -> dict[str, Any]:
    """``allowed`` and ``labels`` of an Arborescence from {word: head} or {word: (head, relation)} per sentence."""
    if len(constraints) != len(X):
        raise InputError(f"{len(X)} sentences but constraints for {len(constraints)}")
    allowed, labels = [], []
    number = {relation: k for k, relation in enumerate(relations)}
    for i, (sentence, given) in enumerate(zip(X, constraints, strict=True)):
        n = len(sentence)
        table, pins = np.ones((n + 1, n), bool), np.full(n, -1)
        for word, want in (given or {}).items():
            head, relation = want if isinstance(want, tuple) else (want, None)
            if not (1 <= word <= n and 0 <= head <= n and head != word):
                raise InputError(f"sentence {i}: the constraint {word}: {want!r} is not an arc between its {n} words")
            table[:, word - 1] = False
            table[head, word - 1] = True
            if relation is not None:
                if relation not in number:
                    raise InputError(f"sentence {i}: relation {relation!r} of word {word} is not in the model")
                pins[word - 1] = number[relation]
        allowed.append(table)
        labels.append(pins)
    return {"allowed": allowed, "labels": labels} if len(relations) > 1 else {"allowed": allowed}
