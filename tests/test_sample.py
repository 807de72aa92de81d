"""The embedded sample: sizes, well-formed tags, and a split that keeps documents whole."""

from __future__ import annotations

import pytest

from partwise.data import Columns, load_sample, tags
from partwise.exceptions import ParameterError


def documents(data: Columns) -> list[tuple[tuple[str, ...], ...]]:
    """The words of each document."""
    found: dict[int, list[tuple[str, ...]]] = {}
    for sentence in data.sentences():
        found.setdefault(sentence.document, []).append(tuple(row[0] for row in sentence))
    return [tuple(sentences) for sentences in found.values()]


@pytest.mark.parametrize("name", ["news", "life", "english"])
def test_sizes_and_tags(name: str) -> None:
    data = load_sample(name)
    assert data.names == ("word", "pos", "chunk", "ner")
    assert len(data) >= (400 if name == "english" else 200)
    assert data.documents[-1] + 1 >= 20
    assert data.docstart is not None
    assert data.place(0) == "sentence 0, token 0"
    for column in ("chunk", "ner"):
        assert tags.detect_scheme(data.coded(column), tolerance=0) == "IOB2"
        for sentence in data.column(column):
            tags.check(sentence, "IOB2")
    assert {tag[2:] for tag in data.vocab[3]} == {"", "PER", "LOC", "ORG", "MISC"}
    assert {"B-NP", "I-NP", "B-VP", "B-PP", "O"} <= set(data.vocab[2])


@pytest.mark.parametrize("name", ["news", "life", "english"])
def test_every_document_is_in_one_half(name: str) -> None:
    train, test = (documents(load_sample(name, split=split)) for split in ("train", "test"))
    assert sorted(train + test) == sorted(documents(load_sample(name)))
    assert not set(train) & set(test)
    assert 0.1 < len(test) / len(train + test) < 0.3


@pytest.mark.parametrize("split", ["train", "test", None])
def test_both_parts_together(split: str | None) -> None:
    parts = [documents(load_sample(name, split=split)) for name in ("news", "life")]
    assert documents(load_sample(split=split)) == parts[0] + parts[1]


def test_unknown_names() -> None:
    with pytest.raises(ParameterError, match=r"'sample' parameter.*did you mean 'news'"):
        load_sample("new")
    with pytest.raises(ParameterError, match="'split' parameter"):
        load_sample(split="dev")
