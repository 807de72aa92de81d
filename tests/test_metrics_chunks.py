"""Chunk scores: conlleval's rules token by token, and hand-computed cases."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from helpers import data_file
from hypothesis import given
from hypothesis import strategies as st

from partwise.data import CodedColumn, encode, read_columns
from partwise.exceptions import ParameterError
from partwise.metrics import chunk_scores, confusion, token_accuracy


def chunk_begins(before: tuple[str, str], now: tuple[str, str], extended: bool) -> bool:
    """Whether a chunk starts at ``now``; a tag is (prefix, type)."""
    if now[0] in ("[", "]"):
        return True
    if now[0] not in ("O", ".") and before[1] != now[1]:
        return True
    if extended and now[0] in ("B", "S"):
        return True
    if now[0] == "B":
        return before[0] in ("B", "I", "O")
    if now[0] in ("I", "E"):
        return before[0] in ("O", "E") or (extended and before[0] == "S")
    return False


def chunk_finishes(before: tuple[str, str], now: tuple[str, str], extended: bool) -> bool:
    """Whether a chunk ends between ``before`` and ``now``."""
    if before[0] in ("[", "]"):
        return True
    if before[0] not in ("O", ".") and before[1] != now[1]:
        return True
    if extended and before[0] in ("E", "S"):
        return True
    if before[0] in ("B", "I"):
        return now[0] in ("B", "O") or (extended and now[0] == "S")
    return before[0] == "E" and now[0] in ("E", "I", "O")


def reference(
    gold: list[list[str]], predicted: list[list[str]], extended: bool
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Chunks correct, gold, predicted by type, by one pass with a flag, as the script has it."""
    correct, found_gold, found_predicted = Counter[str](), Counter[str](), Counter[str]()
    before_g = before_p = ("O", "")
    matching = False
    for sentence_g, sentence_p in zip(gold, predicted, strict=True):
        for tag_g, tag_p in zip([*sentence_g, "O"], [*sentence_p, "O"], strict=True):
            g, p = (tag.partition("-")[::2] for tag in (tag_g, tag_p))
            end_g, end_p = chunk_finishes(before_g, g, extended), chunk_finishes(before_p, p, extended)
            if matching and end_g and end_p and before_g[1] == before_p[1]:
                matching = False
                correct[before_g[1]] += 1
            elif matching and (end_g != end_p or g[1] != p[1]):
                matching = False
            start_g, start_p = chunk_begins(before_g, g, extended), chunk_begins(before_p, p, extended)
            if start_g and start_p and g[1] == p[1]:
                matching = True
            if start_g:
                found_gold[g[1]] += 1
            if start_p:
                found_predicted[p[1]] += 1
            before_g, before_p = g, p
    if matching:
        correct[before_g[1]] += 1
    return correct, found_gold, found_predicted


def assert_equals_reference(gold: list[list[str]], predicted: list[list[str]], scheme: str) -> None:
    scores = chunk_scores(gold, predicted, scheme)
    correct, found_gold, found_predicted = reference(gold, predicted, extended=scheme == "conlleval")
    assert scores.overall == (correct.total(), found_gold.total(), found_predicted.total())
    expected = {t: (correct[t], found_gold[t], found_predicted[t]) for t in found_gold | found_predicted}
    assert scores.types == expected
    assert list(scores.types) == sorted(expected)
    np.testing.assert_array_equal(scores.per_sentence[:, :3].sum(axis=0), scores.overall)
    assert scores.accuracy == token_accuracy(gold, predicted)


TYPED = [f"{prefix}-{kind}" for prefix in "BIES[]" for kind in "XY"]
TAG = st.sampled_from(["O", *TYPED, *"BIES.", ".-X", "O-X", "else", "-X", "M-X"])
PAIRS = st.lists(st.lists(st.tuples(TAG, TAG | st.none()), max_size=8), min_size=1, max_size=5)


def unzip(pairs: list[list[tuple[str, str | None]]]) -> tuple[list[list[str]], list[list[str]]]:
    """None stands for a right tag, so that right chunks are common."""
    gold = [[g for g, _ in sentence] for sentence in pairs]
    return gold, [[g if p is None else p for g, p in sentence] for sentence in pairs]


@given(PAIRS.filter(lambda pairs: any(pairs)), st.sampled_from(["conlleval", "conlleval-2004"]))
def test_rules_on_random_tags(pairs: list[list[tuple[str, str | None]]], scheme: str) -> None:
    assert_equals_reference(*unzip(pairs), scheme)


@pytest.mark.parametrize("scheme", ["conlleval", "conlleval-2004"])
def test_rules_on_all_short_sequences(scheme: str) -> None:
    tags = ["O", "B-X", "I-X", "E-X", "S-X", "I-Y", "[-X", "]-X", "."]
    sentences = [list(tags) for tags in product(tags, repeat=3)]
    order = np.random.default_rng(0).permutation(len(sentences))
    assert_equals_reference(sentences, [sentences[k] for k in order], scheme)
    assert_equals_reference(sentences, sentences, scheme)


@pytest.mark.parametrize("prefixes", ["BI", "IE", "[]."])
def test_the_two_rule_sets_differ_only_on_mixed_schemes(prefixes: str) -> None:
    tags = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in "XY")]
    sentences = [list(tags) for tags in product(tags, repeat=3)]
    predicted = [sentence[::-1] for sentence in sentences]
    assert chunk_scores(sentences, predicted) == chunk_scores(sentences, predicted, "conlleval-2004")


@pytest.mark.parametrize(
    ("tags", "chunks", "chunks_2004"),
    [
        ("B-X I-X B-X", 2, 2),
        ("I-X I-X O I-X", 2, 2),
        ("O I-X I-Y", 2, 2),
        ("B-X I-Y", 2, 2),
        ("B-X E-X B-X E-X", 2, 1),
        ("S-X S-X", 2, 1),
        ("E-X E-X", 2, 2),
        ("[-X [-X ]-X", 3, 3),
        ("B I B", 2, 2),
        ("O O", 0, 0),
    ],
)
def test_number_of_chunks(tags: str, chunks: int, chunks_2004: int) -> None:
    sentence = [tags.split()]
    assert chunk_scores(sentence, sentence).overall == (chunks,) * 3
    assert chunk_scores(sentence, sentence, "conlleval-2004").overall == (chunks_2004,) * 3


def test_hand_computed_scores_and_report() -> None:
    gold = [["B-NP", "I-NP", "B-VP", "O"], ["B-NP", "B-NP", "O"]]
    predicted = [["B-NP", "I-NP", "B-PP", "O"], ["B-NP", "I-NP", "O"]]
    scores = chunk_scores(gold, predicted)
    # Gold: NP(0-1) VP(2) | NP(0) NP(1); predicted: NP(0-1) PP(2) | NP(0-1); in common: the first.
    assert scores.overall == (1, 4, 3)
    assert scores.types == {"NP": (1, 3, 2), "PP": (0, 0, 1), "VP": (0, 1, 0)}
    assert (scores.precision, scores.recall) == (1 / 3, 1 / 4)
    assert math.isclose(scores.f1, 2 / 7)
    assert math.isclose(scores.accuracy, 5 / 7)
    assert scores.per_sentence.tolist() == [[1, 2, 2, 3, 4], [0, 2, 1, 2, 3]]
    assert str(scores) == (
        "processed 7 tokens with 4 phrases; found: 3 phrases; correct: 1.\n"
        "accuracy:  71.43%; precision:  33.33%; recall:  25.00%; FB1:  28.57\n"
        "               NP: precision:  50.00%; recall:  33.33%; FB1:  40.00  2\n"
        "               PP: precision:   0.00%; recall:   0.00%; FB1:   0.00  1\n"
        "               VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0"
    )


@pytest.mark.parametrize(
    ("tags", "types", "overall"),
    [
        ([["I-X"], ["I-X"]], ["X"], (2, 2, 2)),  # chunks do not cross sentences
        ([["B-A-B", "I-A-B"]], ["A-B"], (1, 1, 1)),  # types may have hyphens
        ([["O", "O"]], [], (0, 0, 0)),
    ],
)
def test_special_cases(tags: list[list[str]], types: list[str], overall: tuple[int, int, int]) -> None:
    scores = chunk_scores(tags, tags)
    assert (list(scores.types), scores.overall, scores.accuracy) == (types, overall, 1)
    assert scores.precision == scores.recall == scores.f1 == bool(types)


def test_coded_tags_and_lists_mix() -> None:
    gold = [["B-X", "O"], [], ["B-X", "I-X"]]
    predicted = [["O", "B-X"], [], ["B-X", "I-X"]]
    expected = chunk_scores(gold, predicted)
    codes, vocab, offsets = encode(predicted)
    for other in (CodedColumn(codes, vocab, offsets), (codes, [*vocab, "unused"], offsets)):
        assert chunk_scores(gold, other) == expected  # type: ignore[arg-type]
        assert chunk_scores(encode(gold), other) == expected  # type: ignore[arg-type]
        assert confusion(gold, other).labels == ["B-X", "I-X", "O"]  # type: ignore[arg-type]


def test_unknown_scheme() -> None:
    with pytest.raises(ParameterError, match=r"'chunk scheme'.*did you mean 'conlleval'"):
        chunk_scores([["B-X"]], [["B-X"]], "conleval")


def test_chunks_of_conll2000() -> None:
    column = read_columns(data_file("conll2000/test.txt"), columns=("word", "pos", "chunk")).coded("chunk")
    assert chunk_scores(column, column).overall == (23852, 23852, 23852)
    rng, gold = np.random.default_rng(0), column.to_lists()
    predicted = [[str(rng.choice(["O", "B-X"])) if rng.random() < 0.05 else t for t in tags] for tags in gold]
    assert_equals_reference(gold, predicted, "conlleval")


def test_bilou_scores_as_iobes_does() -> None:
    gold = [["U-X", "U-X", "B-X", "L-X", "O"]]
    assert chunk_scores(gold, gold).overall == (3, 3, 3)
    assert chunk_scores(gold, [["U-X", "O", "B-X", "L-X", "O"]]).overall == (2, 3, 2)
