"""CoNLL-X and CoNLL-U in and out, attachment scores by the rules of CoNLL-2018, the treebank of our own making."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from helpers import data_file

from partwise.exceptions import InputError, ParameterError
from partwise.parsing import (
    DependencySentence,
    TagPredictor,
    attachment_scores,
    load_sample_treebank,
    parse_conllu,
    read_conllu,
    write_conllu,
)
from partwise.structures.arborescence import tree_fault

RICH = """\
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\tMood=Imp\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\tCase=Acc|Number=Plur\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\tDefinite=Def\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\tGender=Masc\t1\tobl\t1:obl:a\tSpaceAfter=No
5.1\tfuimos\tir\tVERB\t_\t_\t_\t_\t1:conj\t_

1\tSí\tsí\tINTJ\t_\t_\t0\troot\t_\t_

"""


def line(head: str, number: str = "1", form: str = "a") -> str:
    return f"{number}\t{form}\t_\t_\t_\t_\t{head}\tdep\t_\t_"


def test_nothing_is_lost() -> None:
    sentences = list(parse_conllu(io.StringIO(RICH), "rich.conllu", trees=True))
    out = io.StringIO()
    write_conllu(sentences, out)
    assert out.getvalue() == RICH
    first = sentences[0]
    assert len(first) == 5 and first.forms[4] == "mar" and first.heads.tolist() == [0, 1, 5, 5, 1]
    changed = first.with_tree([0, 1, 4, 1, 1], ["root", "obj", "case", "obl", "dep"])
    assert changed.heads.tolist() == [0, 1, 4, 1, 1]
    assert changed.rows[0] == first.rows[0] and changed.rows[7] == first.rows[7]
    assert changed.rows[6][8:] == first.rows[6][8:] and changed.comments == first.comments


def test_windows_line_ends_and_no_blank_line_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_bytes(("\ufeff" + line("0") + "\r\n").encode())
    assert read_conllu(path)[0].heads.tolist() == [0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("0"), line("1", "3")], "t.conllu:2: word id 3; expected 2"),
        ([line("1")], r"t.conllu:1: word 1 \('a'\) is its own head"),
        ([line("2"), line("1", "2")], "t.conllu:1: words 1, 2 form a cycle"),
        ([line("5")], r"t.conllu:1: word 1 \('a'\) has head 5; the sentence has 1 words"),
        ([line("_")], r"t.conllu:1: word 1 \('a'\) has no head"),
        ([line("x")], "t.conllu:1: head 'x'; expected a number"),
        (["1\ta"], "t.conllu:1: 2 columns; expected 10"),
        ([line("0", "1a")], "t.conllu:1: id '1a'"),
        ([line("²")], "t.conllu:1: head '²'; expected a number"),
        ([line("0", "²")], "t.conllu:1: id '²'"),
        ([line("-1")], "t.conllu:1: head '-1'; expected a number"),
        ([line("0"), line("2", "2")], r"t.conllu:2: word 2 \('a'\) is its own head"),
        (["# alone", ""], "t.conllu:2: comments without a sentence"),
        ([line("_", "1-2")], "t.conllu:1: a sentence without words"),
    ],
)
def test_faults_name_file_and_line(lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(parse_conllu(lines, "t.conllu", trees=True))


def test_several_roots_where_one_is_demanded() -> None:
    sentence = DependencySentence.of_words(["a", "b"], [0, 0])
    assert sentence.fault() is None
    assert sentence.fault(single_root=True) == "words 1, 2 depend on the root, but only one may"


def test_sentences_without_trees_can_be_read() -> None:
    (sentence,) = parse_conllu([line("_")])
    assert not sentence.has_tree
    with pytest.raises(InputError, match="has head '_'; expected a number"):
        _ = sentence.heads


def test_trees_that_are_to_be_replaced_may_be_anything() -> None:
    (sentence,) = parse_conllu([line("1"), line("7", "2")])
    assert sentence.fault() == "word 1 ('a') is its own head"
    assert sentence.with_tree([0, 1]).fault() is None


def test_bad_columns() -> None:
    with pytest.raises(InputError, match="column 'upos' has 1 values for 2 words"):
        DependencySentence.of_words(["a", "b"], upos=["X"])
    with pytest.raises(InputError, match="no column 'tag'"):
        DependencySentence.of_words(["a"], tag=["X"])


def test_attachment_scores_by_hand() -> None:
    words = ["We", "have", "eaten", "it", "."]
    relations = ["nsubj", "aux:perf", "root", "obj", "punct"]
    gold = DependencySentence.of_words(words, [3, 3, 0, 3, 3], relations)
    found = gold.with_tree([3, 3, 0, 2, 4], ["nsubj", "aux", "root", "obj", "punct"])
    scores = attachment_scores([gold], [found])
    assert (scores.uas, scores.las, scores.las_universal) == (60.0, 40.0, 60.0)
    assert scores.clas == pytest.approx(100 * 2 / 3)  # nsubj, root, obj are content; obj hangs wrong
    assert scores.complete == 0.0 and attachment_scores([gold], [gold]).complete == 100.0
    without = attachment_scores([gold], [found], punctuation=False)
    assert (without.words, without.uas) == (4, 75.0)


def test_precision_and_recall_of_content_words_differ() -> None:
    """A content word that is called a function word misses in recall only: F1 of 1 right, 2 in gold, 1 found."""
    gold = DependencySentence.of_words(["a", "b"], [2, 0], ["amod", "root"])
    found = gold.with_tree([2, 0], ["det", "root"])
    assert attachment_scores([gold], [found]).clas == pytest.approx(100 * 2 * 1 / (2 + 1))


def test_scores_of_different_words() -> None:
    a, b = DependencySentence.of_words(["a"], [0]), DependencySentence.of_words(["b"], [0])
    with pytest.raises(InputError, match=r"sentence 0 .*: the words of the two files differ"):
        attachment_scores([a], [b])
    with pytest.raises(InputError, match="1 gold sentences but 0"):
        attachment_scores([a], [])


def test_sample_treebank() -> None:
    train, dev, test = map(load_sample_treebank, ("train", "dev", "test"))
    assert [len(train), len(dev), len(test)] == [200, 60, 60]
    assert len({s.comments[0] for s in train + dev + test}) == 320
    assert all(sentence.fault(single_root=True) is None for sentence in train + dev + test)
    crossing = [sentence for sentence in train if tree_fault(sentence.heads, projective=True) is not None]
    assert 5 <= len(crossing) <= 40
    assert [s.text() for s in load_sample_treebank("train")] == [s.text() for s in train]
    assert {r for s in test for r in s.column("deprel")} <= {r for s in train for r in s.column("deprel")}
    for held_out in (dev, test):
        assert np.mean([s.forms in [t.forms for t in train] for s in held_out]) < 0.1
    with pytest.raises(ParameterError, match="split"):
        load_sample_treebank("valid")


class Lookup:
    """The last tag seen with a word; X where there was none. Remembers what it was trained on."""

    def __init__(self, other: str = "X") -> None:
        self.other = other

    def get_params(self, deep: bool = True) -> dict[str, str]:
        return {"other": self.other}

    def fit(self, X: list[list[tuple[str]]], y: list[list[str]]) -> Lookup:
        self.tags = {
            word: tag for words, tags in zip(X, y, strict=True) for (word,), tag in zip(words, tags, strict=True)
        }
        return self

    def predict(self, X: list[list[tuple[str]]]) -> list[list[str]]:
        return [[self.tags.get(word, self.other) for (word,) in words] for words in X]


def test_tags_of_training_sentences_are_jackknifed() -> None:
    sentences = [
        DependencySentence.of_words(["a", f"only{i}"], [0, 1], upos=["A", "B"], feats=["x", "y"]) for i in range(6)
    ]
    tagger = TagPredictor(Lookup(), columns=("upos",), folds=3)
    found = tagger.fit_transform(sentences)
    assert [s.column("upos") for s in found] == [["A", "X"]] * 6  # nobody has seen a sentence's own word
    assert found[0].column("lemma") == ["a", "only0"] and found[0].column("feats") == ["_", "_"]
    assert found[0].heads.tolist() == [0, 1]
    assert tagger.transform(sentences)[0].column("upos") == ["A", "B"]  # those for prediction have seen all


def test_tag_predictor_faults() -> None:
    sentence = DependencySentence.of_words(["a"], upos=["A"])
    with pytest.raises(ParameterError, match="columns"):
        TagPredictor(Lookup(), columns=("head",)).fit([sentence])
    with pytest.raises(ParameterError, match="folds"):
        TagPredictor(Lookup(), folds=1).fit([sentence])
    with pytest.raises(InputError, match="1 sentences are too few for 5 folds"):
        TagPredictor(Lookup()).fit_transform([sentence])
    with pytest.raises(InputError, match="not fitted"):
        TagPredictor(Lookup()).transform([sentence])


@pytest.mark.parametrize(
    ("name", "sentences"), [("ud_greek_gdt/el_gdt-ud-test.conllu", 456), ("ddt_danish/ddt_test.conll", 552)]
)
def test_real_files_come_back_as_they_were(name: str, sentences: int) -> None:
    path = data_file(name)
    found = read_conllu(path)
    assert len(found) == sentences
    out = io.StringIO()
    write_conllu(found, out)
    assert out.getvalue() == path.read_text("utf-8")
