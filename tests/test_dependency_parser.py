"""DependencyParser on the treebank of our own making: accuracy, probabilities, constraints, storage, bad input."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import partwise
from partwise.exceptions import CapabilityError, InputError, ParameterError, StorageError
from partwise.parsing import DependencyParser, DependencySentence, load_sample_treebank
from partwise.structures.arborescence import tree_fault

TRAIN, TEST = load_sample_treebank("train"), load_sample_treebank("test")
SMALL = {"arc_bits": 16, "row_bits": 10, "max_passes": 4}


@pytest.fixture(scope="module")
def parser() -> DependencyParser:
    return DependencyParser(**SMALL).fit(TRAIN, dev=TEST[:10]).calibrate(TEST[:20])


def texts(sentences: list[DependencySentence]) -> list[str]:
    return [sentence.text() for sentence in sentences]


def test_accuracy_and_what_stays_as_it_was(parser: DependencyParser) -> None:
    scores = parser.evaluate(TEST[20:])
    assert scores.uas > 95 and scores.las > 93 and parser.score(TEST[20:]) == scores.las / 100
    assert parser.single_root_ and "nsubj" in parser.relations_
    for sentence, parsed in zip(TEST, parser.predict(TEST), strict=True):
        assert parsed.fault(single_root=True) is None
        assert [row[:6] + row[8:] for row in parsed.rows] == [row[:6] + row[8:] for row in sentence.rows]
        assert parsed.comments == sentence.comments


def test_one_at_a_time_and_threads_give_what_a_batch_gives(parser: DependencyParser) -> None:
    batch = texts(parser.predict(TEST))
    assert [parser.predict([sentence])[0].text() for sentence in TEST[:5]] == batch[:5]
    parser.n_jobs = 2
    try:
        assert texts(parser.predict(TEST)) == batch
    finally:
        parser.n_jobs = 1
    assert parser.predict([]) == []


def test_probabilities(parser: DependencyParser) -> None:
    arcs = parser.predict_marginals(TEST[:5])
    labelled = parser.predict_marginals(TEST[:5], labelled=True)
    for sentence, mass, parts in zip(TEST[:5], arcs, labelled, strict=True):
        assert mass.shape == (len(sentence) + 1, len(sentence))
        np.testing.assert_allclose(mass.sum(axis=0), 1.0)
        np.testing.assert_allclose(parts.sum(axis=2), mass)
        assert mass[0].sum() == pytest.approx(1.0)  # one root
    assert 0 <= parser.calibration(TEST[20:]).error < 0.1
    assert 0.01 < parser.temperature_ < 5


def test_kbest_lists(parser: DependencyParser) -> None:
    for sentence, trees in zip(TEST[:3], parser.predict_kbest(TEST[:3], 4), strict=True):
        probabilities = [tree.probability for tree in trees]
        assert probabilities == sorted(probabilities, reverse=True) and sum(probabilities) <= 1 + 1e-9
        assert len(set(texts(list(trees)))) == 4 and trees[0].text() == parser.predict([sentence])[0].text()
        np.testing.assert_allclose(np.exp(parser.predict_log_proba(trees)), probabilities, rtol=1e-6)


def test_minimum_risk_maximises_expected_right_arcs(parser: DependencyParser) -> None:
    def expected(trees: list[DependencySentence]) -> float:
        number = {relation: k for k, relation in enumerate(parser.relations_)}
        total = 0.0
        for tree, mass in zip(trees, parser.predict_marginals(TEST, labelled=True), strict=True):
            labels = [number[relation] for relation in tree.column("deprel")]
            total += mass[tree.heads, np.arange(len(tree)), labels].sum()
        return total

    assert expected(parser.predict(TEST, decoding="risk")) >= expected(parser.predict(TEST)) - 1e-9


def test_constraints(parser: DependencyParser) -> None:
    sentence = TEST[0]
    free = parser.predict([sentence])[0]
    word = 1
    other = next(h for h in range(1, len(sentence) + 1) if h not in (word, free.heads[0]))
    pinned = parser.predict([sentence], constraints=[{word: (other, "amod")}])[0]
    assert pinned.heads[0] == other and pinned.column("deprel")[0] == "amod"
    assert pinned.fault(single_root=True) is None
    with pytest.raises(InputError, match=r"the constraint 1: 1 is not an arc"):
        parser.predict([sentence], constraints=[{1: 1}])
    with pytest.raises(InputError, match="relation 'subject' of word 1 is not in the model"):
        parser.predict([sentence], constraints=[{1: (2, "subject")}])
    with pytest.raises(InputError, match="the constraints allow no tree for instance 0"):
        parser.predict([sentence], constraints=[{1: 2, 2: 1}])


def test_explanations_add_up(parser: DependencyParser) -> None:
    why = parser.explain(TEST[0], 2)
    assert why.head == parser.predict([TEST[0]])[0].heads[1]
    assert sum(c.difference for c in why.contributions) == pytest.approx(why.score - why.rival_score)
    assert "head" in str(why)
    with pytest.raises(InputError, match="there is no word 99 in a sentence"):
        parser.explain(TEST[0], 99)
    with pytest.raises(InputError, match="2 cannot be the head of word 2"):
        parser.explain(TEST[0], 2, 2)


def test_storage(parser: DependencyParser, tmp_path: Path) -> None:
    path = tmp_path / "parser.pw"
    parser.save(path)
    again = partwise.load_model(path)
    assert texts(again.predict(TEST)) == texts(parser.predict(TEST))
    np.testing.assert_array_equal(again.predict_marginals(TEST[:1])[0], parser.predict_marginals(TEST[:1])[0])
    header, arrays = parser.to_state()
    with pytest.raises(StorageError, match="weights"):
        DependencyParser.from_state({**header, "dim": 5}, arrays)
    with pytest.raises(StorageError, match="outside the table"):
        DependencyParser.from_state(header, {**arrays, "places": arrays["places"] + header["dim"]})


def test_checkpoint_ends_with_the_same_weights(parser: DependencyParser, tmp_path: Path) -> None:
    path, data = tmp_path / "run", TRAIN[:30]
    whole = DependencyParser(**SMALL).fit(data)
    DependencyParser(**SMALL).fit(data, checkpoint=path, callbacks=[lambda record, theta: record.step == 2])
    resumed = DependencyParser(**SMALL).fit(data, checkpoint=path)
    assert len(resumed.result_.trace) == SMALL["max_passes"]
    np.testing.assert_array_equal(resumed.theta_, whole.theta_)
    with pytest.raises(InputError, match="belongs to another run"):
        DependencyParser(**SMALL).fit(TRAIN[:29], checkpoint=path)


@pytest.mark.parametrize(
    "settings", [{"learner": "perceptron"}, {"loss": "crf", "C": 0.1}, {"learner": "sgd", "loss": "svm", "C": 1.0}]
)
def test_losses_and_learners(settings: dict[str, object]) -> None:
    options = {"learner_options": {"eta": 0.05}} if settings.get("learner") == "sgd" else {}
    model = DependencyParser(**{**SMALL, **settings, **options}).fit(TRAIN[:80])
    assert model.evaluate(TEST).uas > 85


def test_several_roots_and_projective_trees() -> None:
    sentence = DependencySentence.of_words(["a", "b", "c"], [0, 0, 2], ["x", "y", "z"], upos=["A", "B", "C"])
    model = DependencyParser(**SMALL).fit([sentence] * 3)
    assert not model.single_root_ and model.predict([sentence])[0].heads.tolist() == [0, 0, 2]
    flat = [s for s in TRAIN if tree_fault(s.heads, projective=True) is None]
    projective = DependencyParser(projective=True, labelled=False, **SMALL).fit(flat[:60])
    found = projective.predict(TEST)
    assert all(tree_fault(tree.heads, projective=True, single_root=True) is None for tree in found)
    assert projective.evaluate(TEST).uas > 80


def test_partial_trees_are_learned_from() -> None:
    """Half of the heads unknown, and a loss with γ = 0: nearly as good as with all of them."""
    rng, partial = np.random.default_rng(0), []
    for sentence in TRAIN:
        rows = [(*row[:6], "_", "_", *row[8:]) if rng.random() < 0.5 else row for row in sentence.rows]
        partial.append(DependencySentence(rows))
    model = DependencyParser(**SMALL, loss="crf", single_root=True).fit(partial)
    assert model.evaluate(TEST).uas > 88
    with pytest.raises(InputError, match=r"word \d+ \('.*'\) has no head; only a loss without a cost, such as 'crf'"):
        DependencyParser(**SMALL, loss="svm").fit(partial)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        (["2", "1", "_"], "words 1, 2 form a cycle"),
        (["1", "0", "_"], r"word 1 \('a'\) is its own head"),
        (["4", "0", "_"], r"word 1 \('a'\) has head 4; the sentence has 3 words"),
    ],
)
def test_faults_in_partial_trees(heads: list[str], message: str) -> None:
    sentence = DependencySentence.of_words(["a", "b", "c"], heads, ["dep"] * 3)  # type: ignore[arg-type]
    sentence.source = "t.conllu:5"
    with pytest.raises(InputError, match=f"t.conllu:5: {message}"):
        DependencyParser(**SMALL, loss="crf").fit([sentence])


def without(sentences: list[DependencySentence], *columns: int) -> list[DependencySentence]:
    return [
        DependencySentence([tuple("_" if c in columns else value for c, value in enumerate(row)) for row in s.rows])
        for s in sentences
    ]


def test_treebanks_without_some_columns(tmp_path: Path) -> None:
    """Words alone, or words with one column of tags: something stands in for what is missing, and models keep it."""
    tagged = DependencyParser(**SMALL).fit(without(TRAIN, 2, 4, 5))
    assert tagged.evaluate(without(TEST, 2, 4, 5)).uas > 93
    fine = DependencyParser(**SMALL).fit(without(TRAIN, 2, 3, 5))
    assert fine.evaluate(without(TEST, 2, 3, 5)).uas > 93
    bare, words = DependencyParser(**SMALL).fit(without(TRAIN, 2, 3, 4, 5)), without(TEST, 2, 3, 4, 5)
    assert bare.evaluate(words).las > 82  # 77 with _ as a tag like any other
    assert "between upos _" not in str(bare.explain(words[0], 1, head=len(words[0])))
    bare.save(tmp_path / "bare.pw")
    again = partwise.load_model(tmp_path / "bare.pw")
    assert [t.text() for t in again.predict(words)] == [t.text() for t in bare.predict(words)]


def test_scikit_learn_interface() -> None:
    model = clone(DependencyParser(C=0.5))
    assert repr(model) == "DependencyParser(C=0.5)"
    with pytest.raises(NotFittedError):
        model.predict(TEST)


def test_bad_input(parser: DependencyParser) -> None:
    with pytest.raises(InputError, match="no sentences"):
        DependencyParser().fit([])
    with pytest.raises(ParameterError, match="arc_bits"):
        DependencyParser(arc_bits=3).fit(TRAIN)
    with pytest.raises(ParameterError, match="decoding"):
        parser.predict(TEST, decoding="worst")
    with pytest.raises(InputError, match="sentence 0 is a str"):
        parser.predict(["a b"])  # type: ignore[list-item]
    with pytest.raises(InputError, match="sentence 1 has no words"):
        parser.predict([TEST[0], DependencySentence([])])
    two = DependencySentence.of_words(["a", "b"], [0, 0], ["x", "y"])
    with pytest.raises(InputError, match="sentence 0: words 1, 2 depend on the root"):
        DependencyParser(single_root=True).fit([two])
    crossing = next(s for s in TRAIN if tree_fault(s.heads, projective=True) is not None)
    with pytest.raises(InputError, match="a projective parser cannot learn it"):
        DependencyParser(projective=True).fit([crossing])
    with pytest.raises(InputError, match="relation 'odd' of word 1 is not in the model"):
        parser.predict_log_proba([DependencySentence.of_words(["a"], [0], ["odd"])])


def test_lists_of_words(parser: DependencyParser) -> None:
    words = ["The", "neighbour", "slept", "."]
    with pytest.warns(UserWarning, match="these have no tags: expect worse trees"):
        (tree,) = parser.predict([words])
    assert tree.forms == words and tree.fault(single_root=True) is None
    with pytest.raises(InputError, match="sentence 0, word 2 is 2; expected a string"):
        parser.predict([["a", 2]])  # type: ignore[list-item]
    with pytest.raises(InputError, match="X is of type DependencySentence; expected a sequence of instances"):
        parser.predict(TEST[0])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="X is of type NoneType"):
        parser.predict(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="sentence 0 is a list; expected a DependencySentence with its tree"):
        DependencyParser().fit([words])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bare = [DependencySentence.of_words(s.forms, s.heads, s.column("deprel")) for s in TRAIN[:20]]
        alone = DependencyParser(arc_bits=14, row_bits=8, max_passes=1).fit(bare)
        assert alone.predict([words])[0].forms == words  # trained on words alone: nothing is missing


def test_words_never_seen_and_long_sentences(parser: DependencyParser) -> None:
    words = [f"word{k}" for k in range(500)]
    assert parser.predict([DependencySentence.of_words(words)])[0].fault(single_root=True) is None


def test_frank_wolfe_certifies_and_sdca_says_what_is_missing() -> None:
    small = {"arc_bits": 12, "row_bits": 6, "labelled": False, "C": 0.02}
    model = DependencyParser(learner="frank_wolfe", max_passes=8, **small).fit(TRAIN[:40])
    certificate = model.result_.certificate
    assert certificate is not None and 0 < certificate.dual <= certificate.primal
    dca = DependencyParser(max_passes=1, **small).fit(TRAIN[:40]).result_.trace[0].dual
    assert dca is not None and dca <= certificate.primal  # both bound one optimum
    with pytest.raises(CapabilityError, match=r"no oracle 'marginal_entropy'.*lbfgs"):
        DependencyParser(learner="sdca", loss="crf", **small).fit(TRAIN[:5])


def test_weights_are_learned_in_single_precision(parser: DependencyParser) -> None:
    seen = []
    DependencyParser(**{**SMALL, "max_passes": 1}).fit(
        TRAIN[:20], callbacks=[lambda _, theta: seen.append(theta.dtype)]
    )
    assert seen == [np.float32] and parser.theta_.dtype == np.float32
