"""Sentences in columns: access, subsets, and data that does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise.data import CodedColumn, Columns, encode
from partwise.exceptions import InputError, ParameterError

ROWS = [[("a", "A")], [("b", "B")], [("c", "C"), ("d", "C")]]


@pytest.fixture
def data() -> Columns:
    return Columns.from_sentences(ROWS, names=("word", "chunk"))


def test_from_rows_and_from_columns(data: Columns) -> None:
    by_name = Columns.from_sentences({"word": [["a"], ["b"], ["c", "d"]], "chunk": [["A"], ["B"], ["C", "C"]]})
    assert data.names == by_name.names == ("word", "chunk")
    assert list(data.sentences()) == list(by_name.sentences()) == ROWS


def test_access(data: Columns) -> None:
    assert (len(data), data.tokens) == (3, 4)
    assert repr(data) == "Columns(3 sentences, 4 tokens, names=('word', 'chunk'))"
    assert data.column("word") == [["a"], ["b"], ["c", "d"]]
    assert data.column(-1) == data.column("chunk") == [["A"], ["B"], ["C", "C"]]
    assert data.sentence(-1, 0) == ["c", "d"]
    assert data.place(2, 1) == data.coded(0).place(3) == "sentence 2, token 1"
    codes, vocab, offsets = data.coded("chunk")
    assert (codes.tolist(), vocab, offsets.tolist()) == ([0, 1, 2, 2], ["A", "B", "C"], [0, 1, 2, 4])
    assert codes.dtype == np.int32


def test_unknown_columns_and_sentences(data: Columns) -> None:
    with pytest.raises(ParameterError, match="did you mean 'chunk'"):
        data.column("chunks")
    with pytest.raises(ParameterError):
        data.column(2)
    with pytest.raises(IndexError):
        data.sentence(3, 0)
    with pytest.raises(IndexError):
        data.subset([3])


@pytest.mark.parametrize(
    ("chosen", "indices"),
    [
        ([2, 0], [2, 0]),
        ((2, 0), [2, 0]),
        (np.array([2, 0]), [2, 0]),
        ([-1, 0], [2, 0]),
        (np.array([True, False, False]), [0]),
        (slice(1, None), [1, 2]),
        ([], []),
    ],
)
def test_subset(chosen: Any, indices: list[int]) -> None:
    parts = encode([["a"], ["b"], ["c", "d"]])
    data = Columns(("word",), [parts.codes], [parts.vocab], parts.offsets, np.array([0, 0, 1]), np.array([3, 5, 9]))
    part = data.subset(chosen)
    assert part.column("word") == [[["a"], ["b"], ["c", "d"]][i] for i in indices]
    assert part.documents.tolist() == [[0, 0, 1][i] for i in indices]
    assert part.lines.tolist() == [[3, 5, 9][i] for i in indices]


@pytest.mark.parametrize(
    ("sentences", "names", "message"),
    [
        ([], None, "no sentences"),
        ({}, None, "no sentences"),
        ({"w": []}, None, "no sentences"),
        ([[("a", "A")], []], None, "sentence 1 has no tokens"),
        ([[("a", "A")], [("b",)]], None, "sentence 1, token 0: expected a row of 2 columns, got 1 columns"),
        ([["ab", "cd"]], None, "sentence 0, token 0: expected a row of 2 columns, got a string"),
        ([[("a", 3)]], None, "sentence 0, token 0: expected a string, got 3"),
        ({"w": ["ab"]}, None, "each a list of strings, not of characters"),
        ({"w": [["a"]], "t": [["A"], ["B"]]}, None, "column 1 has 2 sentences, column 0 1"),
        ({"w": [["a"], ["b"]], "t": [["A"], ["B", "C"]]}, None, "sentence 1: column 1 and column 0 differ"),
        ([[("a", "A")]], ("word",), "2 different names"),
        ({"w": [["a"]]}, ("w",), "left out where a dict names"),
    ],
)
def test_data_that_does_not_fit(sentences: Any, names: Any, message: str) -> None:
    with pytest.raises((InputError, ParameterError), match=message):
        Columns.from_sentences(sentences, names)


def test_coded_columns_are_checked() -> None:
    codes, vocab, offsets = encode([["a", "b"], ["a"]])
    plain: Any = (codes, vocab, offsets)
    assert encode(plain).to_lists() == [["a", "b"], ["a"]]
    for wrong, message in [
        (CodedColumn(codes, ["a"], offsets), "codes must be in 0..0, got 0..1"),
        (CodedColumn(codes, vocab, offsets[:-1]), "offsets must rise from 0 to the 3 tokens"),
        (CodedColumn(codes.astype(float), vocab, offsets), "vector of integers"),
    ]:
        with pytest.raises(InputError, match=message):
            encode(wrong)
