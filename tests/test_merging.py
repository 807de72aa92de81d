"""Vocabularies, template indexes and layouts of shards, merged: exactly what one pass over all the data finds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from partwise.data import load_sample
from partwise.exceptions import FormatError, InputError
from partwise.features.inputs import RowMatrix, Vocabulary
from partwise.features.layout import ObservedPairs, RowLayout
from partwise.templates import Templates
from partwise.templates._counts import TemplateCounts

LINES = [
    "word[-2..2]", "lower(word)[-1] lower(word)[0]", "suffix(word,1..3)[0]", "is_title(word)[0]", "pad(word)[-1..1]",
    "word[-2] word[-1] word[0] word[1] word[2] pos[-1] pos[0] pos[1]",
]  # fmt: skip


@pytest.mark.parametrize("cuts", [(30,), (1, 2, 50), (10, 20, 30, 40)])
@pytest.mark.parametrize("min_count", [1, 3])
def test_templates(cuts: tuple[int, ...], min_count: int) -> None:
    data = load_sample(split="train").subset(range(60))
    templates = Templates.parse(LINES)
    borders = [0, *cuts, 60]
    shards = [data.subset(range(a, b)) for a, b in pairwise(borders)]
    merged = TemplateCounts.merged([templates.count(shard) for shard in shards]).index(min_count)
    whole = templates.fit(data, min_count=min_count)
    assert merged.names() == whole.names() and merged.n_attributes == whole.n_attributes
    ours, theirs = merged.transform(data), whole.transform(data)
    np.testing.assert_array_equal(ours.attributes, theirs.attributes)
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    for mine, yours in zip(merged.to_state()[1].items(), whole.to_state()[1].items(), strict=True):
        assert mine[0] == yours[0]
        np.testing.assert_array_equal(mine[1], yours[1])


def test_templates_over_all_documents_are_refused() -> None:
    data = load_sample(split="train").subset(range(5))
    with pytest.raises(FormatError, match="cannot be counted shard by shard"):
        Templates.parse(["corpus_label(word,pos)[0]"]).count(data)
    counts = [Templates.parse([line]).count(data) for line in ("word[0]", "word[1]")]
    with pytest.raises(InputError, match="different templates"):
        TemplateCounts.merged(counts)


def test_vocabularies_and_layouts() -> None:
    rng = np.random.default_rng(0)
    names = [f"a{j}" for j in range(40)]
    sequences = [[list(rng.choice(names, size=4)) for _ in range(rng.integers(1, 5))] for _ in range(30)]
    n_rows = sum(map(len, sequences))
    outputs = rng.integers(-1, 5, size=n_rows)
    whole = Vocabulary()
    matrix = whole.read(sequences, grow=True)
    layout = RowLayout.observed(matrix, outputs, 5)
    vocabularies, pairs, row = [], [], 0
    for a, b in ((0, 7), (7, 8), (8, 30)):
        vocabulary = Vocabulary()
        part: RowMatrix = vocabulary.read(sequences[a:b], grow=True)
        pairs.append(ObservedPairs.of(part, outputs[row : row + part.n_rows], 5))
        vocabularies.append(vocabulary)
        row += part.n_rows
    merged = Vocabulary.merged(vocabularies)
    assert merged.names == whole.names
    maps = [vocabulary.numbers_in(merged) for vocabulary in vocabularies]
    again = RowLayout.of_pairs(ObservedPairs.merged(pairs, maps, len(merged)))
    for name in ("rank", "mask", "pair_start", "pair_output"):
        np.testing.assert_array_equal(getattr(again, name), getattr(layout, name))
    assert again.dim == layout.dim
