"""Tag schemes: spans to tags and back, conversion, repair, detection, legal transitions."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from helpers import data_file
from hypothesis import given
from hypothesis import strategies as st

from partwise.data import CodedColumn, encode, read_columns
from partwise.exceptions import InputError, ParameterError
from partwise.metrics import chunk_scores
from partwise.sequences.tags import (
    SCHEMES,
    check,
    convert,
    convert_all,
    detect_scheme,
    legal_transitions,
    repair,
    repair_report,
    scheme_name,
    span_table,
    spans,
    tags_from_spans,
)

Spans = tuple[list[tuple[int, int, str]], int]
LETTERS = {"IOB1": "BI", "IOB2": "BI", "IOBES": "BIES", "BILOU": "BILU"}
ANY_TAGS = st.lists(st.sampled_from(["O", *(f"{x}-{y}" for x in "BIES" for y in "XY"), "B", "I", "E", "S"]))


@st.composite
def sentence_spans(draw: st.DrawFn) -> Spans:
    """Chunks and length of a random sentence."""
    chunks, end = [], 0
    piece = st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["X", "Y", "A-B", ""]))
    for gap, size, kind in draw(st.lists(piece, max_size=6)):
        chunks.append((end + gap, end + gap + size, kind))
        end += gap + size
    return chunks, end + draw(st.integers(0, 2))


@given(sentence_spans(), st.sampled_from(SCHEMES))
def test_spans_to_tags_and_back(sentence: Spans, scheme: str) -> None:
    chunks, length = sentence
    tags = tags_from_spans(reversed(chunks), length, scheme)
    assert len(tags) == length
    assert spans(tags, scheme) == chunks
    assert repair(tags, scheme) == (tags, [])


@given(st.lists(sentence_spans(), max_size=5), st.sampled_from(SCHEMES), st.sampled_from(SCHEMES))
def test_conversion_round_trip(sentences: list[Spans], source: str, target: str) -> None:
    tags = [tags_from_spans(chunks, length, source) for chunks, length in sentences]
    expected = [tags_from_spans(chunks, length, target) for chunks, length in sentences]
    assert convert_all(tags, source, target) == expected
    assert convert_all(expected, target, source) == tags
    assert [convert(t, source, target) for t in tags] == expected
    coded = convert_all(encode(tags), source, target)
    assert isinstance(coded, CodedColumn)
    assert coded.to_lists() == expected
    assert len(set(coded.vocab)) == len(coded.vocab)


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("IOB1", "I-X I-X B-X I-X I-Y O I-Y B-Y"),
        ("IOB2", "B-X I-X B-X I-X B-Y O B-Y B-Y"),
        ("IOBES", "B-X E-X B-X E-X S-Y O S-Y S-Y"),
        ("BILOU", "B-X L-X B-X L-X U-Y O U-Y U-Y"),
    ],
)
def test_one_sentence_in_every_scheme(scheme: str, tags: str) -> None:
    chunks = [(0, 2, "X"), (2, 4, "X"), (4, 5, "Y"), (6, 7, "Y"), (7, 8, "Y")]
    assert spans(tags.split(), scheme) == chunks
    assert tags_from_spans(chunks, 8, scheme) == tags.split()
    assert detect_scheme([tags.split()]) == scheme


def test_span_table_of_sentences() -> None:
    table = span_table([["B-X", "I-X"], [], ["O"], ["O", "B-Y", "B-X"]], "IOB2")
    assert table.sentence.tolist() == [0, 3, 3]
    assert table.start.tolist() == [0, 1, 2]
    assert table.end.tolist() == [2, 2, 3]
    assert [table.types[k] for k in table.type] == ["X", "Y", "X"]
    assert spans([], "IOB2") == []
    assert convert([], "IOB1", "IOBES") == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_well_formed_iff_every_transition_is_legal(scheme: str) -> None:
    labels = ["O", *(f"{letter}-{kind}" for letter in LETTERS[scheme] for kind in "XY")]
    allowed, start, stop = legal_transitions(labels, scheme)
    code = {label: k for k, label in enumerate(labels)}
    for tags in product(labels, repeat=3):
        codes = [code[tag] for tag in tags]
        legal = start[codes[0]] and stop[codes[-1]] and all(allowed[i, j] for i, j in pairwise(codes))
        assert legal == (repair(tags, scheme)[1] == []), tags
        if legal:
            check(tags, scheme)
        else:
            with pytest.raises(InputError, match="should be"):
                check(tags, scheme)


def test_legal_transitions_refuse_other_labels() -> None:
    for label in ("E-X", "X", "L-X", "B-", "", "O-X"):
        with pytest.raises(InputError, match=r"is not a tag of IOB2"):
            legal_transitions(["O", label], "IOB2")


@given(ANY_TAGS, st.sampled_from(["IOB1", "IOB2", "IOBES"]))
def test_repair_gives_legal_tags_of_the_same_chunks(tags: list[str], scheme: str) -> None:
    repaired, repairs = repair(tags, scheme)
    check(repaired, scheme)
    assert repair(repaired, scheme) == (repaired, [])
    assert [fix.token for fix in repairs] == [t for t in range(len(tags)) if tags[t] != repaired[t]]
    assert all((fix.old, fix.new) == (tags[fix.token], repaired[fix.token]) for fix in repairs)
    if tags:
        scores = chunk_scores([tags], [repaired])
        assert scores.overall.correct == scores.overall.gold == scores.overall.predicted


def test_repair_report_counts_and_shows() -> None:
    sentences = [["I-X", "I-X"], ["O"], ["I-Y"], ["I-X", "O", "I-X"]]
    report = repair_report(sentences, "bio", examples=2)
    only, first = "I where B belongs (only token of a chunk)", "I where B belongs (first token of a chunk)"
    assert report.counts == {only: 3, first: 1}
    assert list(report.counts) == [only, first]
    assert [sentence for sentence, _ in report.examples[only]] == [2, 3]
    assert report.examples[first][0][1].new == "B-X"
    assert report.sentences.tolist() == [0, 2, 3]
    assert report.repaired.to_lists() == [["B-X", "I-X"], ["O"], ["B-Y"], ["B-X", "O", "B-X"]]
    assert str(report).startswith("IOB2: 4 of 7 tags replaced, in 3 of 4 sentences\n       3  I where B")
    clean = repair_report(report.repaired, "IOB2")
    assert (clean.total, clean.counts, clean.sentences.size) == (0, {}, 0)
    assert repair_report(sentences, "IOB2", examples=0).examples == {only: [], first: []}


@given(st.lists(ANY_TAGS, max_size=6))
def test_report_agrees_with_repairing_each_sentence(sentences: list[list[str]]) -> None:
    report = repair_report(sentences, "IOBES")
    each = [repair(tags, "IOBES") for tags in sentences]
    assert report.repaired.to_lists() == [tags for tags, _ in each]
    kinds = [fix.kind for _, repairs in each for fix in repairs]
    assert report.counts == {kind: kinds.count(kind) for kind in set(kinds)}


def test_scheme_names() -> None:
    names = ["iob1", "BIO", "Bio2", "bioes", "Bilou", "BIOLU"]
    assert [scheme_name(name) for name in names] == ["IOB1", "IOB2", "IOB2", "IOBES", "BILOU", "BILOU"]
    with pytest.raises(ParameterError, match=r"'scheme' parameter.*did you mean 'IOBES'\?"):
        scheme_name("IOBE")
    with pytest.raises(ParameterError):
        convert(["O"], "IOB1", "nothing")
    with pytest.raises(ParameterError):
        scheme_name(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("tag", ["X-PER", "PER", "B-", "O-X", "", "L-X", "b-X"])
def test_what_is_no_chunk_tag(tag: str) -> None:
    with pytest.raises(InputError, match=r"sentence 1, token 1: .* is not a chunk tag"):
        repair_report([["O"], ["O", tag]], "IOB2")


def test_ill_formed_tags_are_named() -> None:
    with pytest.raises(InputError, match=r"sentence 1, token 2: I-Y should be B-Y \(only token"):
        convert_all([["O"], ["B-X", "I-X", "I-Y"]], "IOB2", "IOBES")
    with pytest.raises(InputError, match=r"B-X should be I-X .* in IOB1"):
        spans(["B-X"], "IOB1")


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([(0, 2, "X"), (1, 3, "Y")], "overlap"),
        ([(1, 1, "X")], "empty or not within 3"),
        ([(2, 4, "X")], "not within 3"),
        ([(-1, 1, "X")], "not within 3"),
    ],
)
def test_impossible_spans(chunks: list[tuple[int, int, str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tags_from_spans(chunks, 3, "IOB2")


def test_detection() -> None:
    with pytest.raises(InputError, match="every tag scheme fits"):
        detect_scheme([["O", "O"]])
    mixed = [["B-X", "I-X", "O", "I-X"], ["B-X", "O", "I-Y"]]
    with pytest.raises(
        InputError, match="no tag scheme fits: of 5 tags inside chunks, these many are ill-formed: 2 in IOB1"
    ):
        detect_scheme(mixed)
    assert detect_scheme([["I-X", "B-X"]] * 200 + [["B-X"]]) == "IOB1"
    with pytest.raises(InputError, match="no tag scheme fits"):
        detect_scheme([["I-X", "B-X"]] * 200 + [["B-X"]], tolerance=0)
    with pytest.raises(ParameterError, match="tolerance"):
        detect_scheme([["B-X"]], tolerance=1.5)


def test_unused_vocabulary_is_not_read() -> None:
    column = CodedColumn(np.array([0], np.int32), ["B-X", "nonsense"], np.array([0, 1]))
    assert convert_all(column, "IOB2", "IOBES").to_lists() == [["S-X"]]


@pytest.mark.parametrize(
    ("name", "entities", "needless"),
    [("eng.train", 23499, 2), ("eng.testa", 5942, 0), ("eng.testb", 5648, 0)],
)
def test_entities_of_conll2003(name: str, entities: int, needless: int) -> None:
    column = read_columns(data_file(f"conll2003/{name}")).coded(-1)
    assert detect_scheme(column) == "IOB1"
    report = repair_report(column, "IOB1")
    assert report.total == needless
    table = span_table(report.repaired, "IOB1")
    assert len(table.start) == entities
    iobes = convert_all(report.repaired, "IOB1", "IOBES")
    assert convert_all(iobes, "IOBES", "IOB1").to_lists() == report.repaired.to_lists()
    assert chunk_scores(column, iobes).overall == (entities, entities, entities)
