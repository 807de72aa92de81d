"""One sentence per call: the same labels as in a batch, at a cost that does not depend on the vocabulary."""

from __future__ import annotations

import pickle
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from partwise import SequenceLabeler
from partwise.data import Columns, load_sample
from partwise.exceptions import InputError
from partwise.features.inputs import Vocabulary
from partwise.templates import Templates
from partwise.templates._sentences import SentenceCoder

TRAIN, TEST = load_sample(split="train"), load_sample(split="test")
WORDS = [list(sentence) for sentence in TEST.column("word")]


def model(**settings: object) -> SequenceLabeler:
    return SequenceLabeler(learner="perceptron", max_passes=3, **settings).fit(TRAIN, TRAIN.column("ner"))


@pytest.mark.parametrize("scheme", [None, "IOB2"])
def test_a_sentence_alone_gets_what_it_gets_in_a_batch(scheme: str | None) -> None:
    labeler = model(templates="crfsuite-chunking", scheme=scheme)
    together = labeler.predict(TEST)
    assert [labeler.predict(TEST.subset([i]))[0] for i in range(len(TEST))] == together
    few = labeler._predict_few(TEST.subset([3]))
    assert few == [together[3]]  # and the quick way was taken


def test_strings_and_plain_words() -> None:
    strings = [[[f"w={w}", f"s={w[-2:]}"] for w in sentence] for sentence in WORDS]
    y = TEST.column("ner")
    labeler = SequenceLabeler(learner="perceptron", max_passes=3).fit(strings, y)
    together = labeler.predict(strings)
    assert [labeler.predict([x])[0] for x in strings] == together
    assert labeler.predict([[["unknown"], ["w=never seen"]]])[0] is not None
    words = SequenceLabeler(templates=["word[-1..1]", "suffix(word,1..3)[0]"], learner="perceptron").fit(WORDS, y)
    assert [words.predict([x])[0] for x in WORDS] == words.predict(WORDS)


def test_no_sequences() -> None:
    assert model(templates="crfsuite-chunking").predict([]) == []


@pytest.mark.parametrize(
    "lines",
    [
        ["word[-2..2]", "pad(word)[-2..2]", "lower(word)[-1] pos[0]", "shape(word)[0]", "prefix(word,1..3)[0]"],
        ["bias", "first", "last is_title(word)[0]", "all_caps(word)[0] short_shape(word)[0]", "has_digit(word)[0]"],
    ],
)
def test_the_attributes_are_those_of_the_columns(lines: list[str]) -> None:
    index = Templates.parse(lines).fit(TRAIN)
    coder = SentenceCoder.of(index)
    assert coder is not None
    whole = index.transform(TEST)
    columns = [TEST.column(name) for name in coder.columns]
    for i in range(len(TEST)):
        indptr, attributes = coder([column[i] for column in columns])
        first, last = TEST.offsets[i], TEST.offsets[i + 1]
        np.testing.assert_array_equal(attributes, whole.attributes[whole.indptr[first] : whole.indptr[last]])
        np.testing.assert_array_equal(indptr, whole.indptr[first : last + 1] - whole.indptr[first])


def test_templates_beyond_the_sentence_go_the_usual_way() -> None:
    for line in ("doc_title(word)[0]", "number(word)[0]"):
        assert SentenceCoder.of(Templates.parse([line, "word[0]"]).fit(TRAIN)) is None


def test_many_threads_and_pickles() -> None:
    labeler = model(templates="crfsuite-chunking")
    together = labeler.predict(TEST)
    fresh = pickle.loads(pickle.dumps(labeler))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: fresh.predict(TEST.subset([i]))[0], list(range(len(TEST))) * 3))
    assert found == together * 3


def test_rows_by_hashes_are_rows_by_names() -> None:
    rng = np.random.default_rng(0)
    names = [f"a{j}" for j in range(60)]
    vocabulary = Vocabulary(names[:40])
    sequences = [
        [list(rng.choice(names, size=rng.integers(0, 6))) for _ in range(rng.integers(1, 5))] for _ in range(50)
    ]
    found = vocabulary.read(sequences, grow=False)
    rows = [[names.index(a) for a in row if a in vocabulary.numbers] for sequence in sequences for row in sequence]
    assert [found.attributes[a:b].tolist() for a, b in pairwise(found.indptr)] == rows
    assert np.diff(found.offsets).tolist() == [len(sequence) for sequence in sequences]
    again = vocabulary.read([[dict.fromkeys(row, 1.0) for row in s] for s in sequences], grow=False)  # by names
    assert again.n_attributes == found.n_attributes and len(again.offsets) == len(found.offsets)
    with pytest.raises(InputError, match="sequence 1 is empty"):
        vocabulary.read([[["a1"]], []], grow=False)


def test_the_cost_does_not_depend_on_the_vocabulary() -> None:
    sentence = [[f"a{j}" for j in range(20)] for _ in range(20)]

    def seconds(size: int) -> float:
        vocabulary = Vocabulary(f"a{j}" for j in range(size))
        times = []
        for _ in range(7):
            begin = time.process_time()
            for _ in range(20):
                vocabulary.read_one(sentence)
                vocabulary.read([sentence], grow=False)
            times.append(time.process_time() - begin)
        return min(times)

    seconds(100)
    assert seconds(10**6) < 5 * seconds(10**4)  # a walk over it would be a hundred times


# --------------------------------------------------------------------------------------------------
# Context


@pytest.mark.parametrize("name", ["ner", "chunking", "pos"])
def test_presets_for_sentences_need_no_more_than_the_sentence(name: str) -> None:
    labeler = model(templates=name)
    assert labeler.encoder_.index.context == "sentence"
    alone = [labeler.predict(TEST.subset([i]))[0] for i in range(len(TEST))]
    assert alone == labeler.predict(TEST) == [labeler.predict(TEST.subset([i, 0]))[0] for i in range(len(TEST))]
    assert SentenceCoder.of(labeler.encoder_.index) is not None  # and are quick


def test_statistics_are_those_of_the_training_corpus() -> None:
    train = Columns.from_sentences(
        {"word": [["a", "b"], ["a", "c"], ["a", "b"]], "tag": [["X", "Y"], ["X", "Z"], ["W", "Y"]]}
    )
    index, first = Templates.parse(["corpus_label(word,tag)[0]"]).fit_transform(train)
    names = index.names()
    seen = [names[a] for a in first.attributes]
    assert seen == [f"corpus_label(word,tag)[0]={x}" for x in ("W", "Y", "W", "X", "Y")]  # of the others; c has none
    for other in (["b", "b", "b"], ["a", "q", "c"]):
        data = Columns.from_sentences({"word": [["a", "c", "q"], other], "tag": [["Z"] * 3, ["Z"] * 3]})
        found = index.transform(data)
        assert [names[a] for a in found.attributes[: found.indptr[3]]] == ["corpus_label(word,tag)[0]=X"]


def test_documents_that_are_not_there_are_told_once() -> None:
    plain = replace(TRAIN, docstart=None, documents=TRAIN.documents * 0)
    with pytest.warns(UserWarning, match="no document boundaries"):
        labeler = SequenceLabeler(templates="ner-document", learner="perceptron", max_passes=1).fit(
            plain, TRAIN.column("ner")
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labeler.predict(replace(TEST, docstart=None, documents=TEST.documents * 0))
    assert labeler.encoder_.index.context == "document"


def test_the_output_does_not_depend_on_how_the_input_arrives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from partwise.cli import main
    from partwise.data import streams, write_columns

    path, source = str(tmp_path / "m.pw"), tmp_path / "in.txt"
    model(templates="ner-document").save(path)
    write_columns(source, TEST)
    outputs = set()
    for size in (64, 1000, 1 << 20):
        monkeypatch.setattr(streams, "BLOCK_BYTES", size)
        for context in ("sentence", "document"):
            target = tmp_path / f"{context}.txt"
            assert not main(
                [
                    "predict",
                    path,
                    str(source),
                    "--columns",
                    ",".join(TEST.names),
                    "--context",
                    context,
                    "-o",
                    str(target),
                ]
            )
            outputs.add((context, target.read_text()))
    assert len(outputs) == 2
