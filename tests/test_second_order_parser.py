"""Second-order parsing: features, certificates, accuracy above first order, pruning, storage, bad input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cases.second_order import enumerate_second_order
from sklearn.base import clone

import partwise
from partwise.exceptions import InputError, ParameterError
from partwise.features.base import squared_norm
from partwise.learners import DCA
from partwise.losses import Loss
from partwise.parsing import DependencySentence, SecondOrderParser, load_sample_treebank, parsing_report
from partwise.parsing.features import ArcFeatures, SecondOrderFeatures, WordEncoder
from partwise.problem import Problem
from partwise.report.training import INFERENCE
from partwise.structures.arborescence import Arborescence, tree_fault
from partwise.structures.second_order import SecondOrderTree

TRAIN, TEST = load_sample_treebank("train"), load_sample_treebank("test")
SMALL = {"arc_bits": 18, "row_bits": 10, "max_passes": 3, "pruner_passes": 3}


@pytest.fixture(scope="module")
def parser() -> SecondOrderParser:
    return SecondOrderParser(**SMALL).fit(TRAIN)


def features_of(n_labels: int | None) -> tuple[SecondOrderTree, SecondOrderFeatures]:
    rng, sentences = np.random.default_rng(0), TRAIN[:3]
    tables = [rng.random((len(s) + 1, len(s))) < 0.4 for s in sentences]
    for sentence, table in zip(sentences, tables, strict=True):
        table[sentence.heads, np.arange(len(sentence))] = True
    space = SecondOrderTree(tables, n_labels, single_root=True)
    arcs = ArcFeatures(WordEncoder().fit(sentences), sentences, n_labels or 1, arc_bits=14, row_bits=8)
    return space, SecondOrderFeatures(arcs, space)


@pytest.mark.parametrize("n_labels", [None, 3])
def test_adjoint_and_norm(n_labels: int | None) -> None:
    space, features = features_of(n_labels)
    rng, scratch = np.random.default_rng(1), np.zeros(features.dim)
    for i in range(len(space)):
        theta = rng.normal(size=features.dim)
        parts = rng.normal(size=space.n_parts(i)) * (rng.random(space.n_parts(i)) < 0.3)
        weights = np.zeros(features.dim)
        features.accumulate(i, parts, 1.0, weights)
        assert theta @ weights == pytest.approx(features.scores(i, theta) @ parts)
        assert squared_norm(features.pack, i, parts, scratch) == pytest.approx(weights @ weights)
        assert not scratch.any()


def test_arcs_have_the_scores_of_the_first_order_model() -> None:
    space, features = features_of(3)
    theta = np.random.default_rng(2).normal(size=features.dim)
    for i in range(len(space)):
        table, n = space.atoms(i), int(space.lengths[i])
        dense = features.arcs.scores(i, theta)
        numbers = ((table.modifier - 1) * n + table.head - (table.head > table.modifier)) * 3 + table.label
        np.testing.assert_allclose(features.scores(i, theta)[: space.n_atoms(i)], dense[numbers], rtol=0, atol=1e-9)


def test_accuracy_certificates_and_pruning(parser: SecondOrderParser) -> None:
    found = parser.predict(TEST)
    assert all(tree.fault(single_root=True) is None for tree in found)
    scores, first = parser.evaluate(TEST), parser.pruner_.evaluate(TEST)
    assert scores.uas > 97 and scores.uas >= first.uas - 0.5
    certified = parser.certificates(TEST)
    assert (certified.bounds >= certified.values - 1e-6).all()
    assert certified.optimal.mean() > 0.8 and certified.iterations.min() >= 1
    assert parser.pruning_recall(TEST) > 0.98
    assert max(table.sum(axis=0).max() for table in parser.candidates(TEST)) <= parser.max_heads + 1


def test_batches_threads_and_storage(parser: SecondOrderParser, tmp_path: Path) -> None:
    expected = [tree.text() for tree in parser.predict(TEST)]
    assert parser.predict(TEST[3:4])[0].text() == expected[3]
    parser.n_jobs = 2
    try:
        assert [tree.text() for tree in parser.predict(TEST)] == expected
    finally:
        parser.n_jobs = 1
    parser.save(tmp_path / "model.pw")
    again = partwise.load_model(tmp_path / "model.pw")
    assert [tree.text() for tree in again.predict(TEST)] == expected
    np.testing.assert_array_equal(again.predict_marginals(TEST[:1])[0], parser.predict_marginals(TEST[:1])[0])
    assert parser.predict([]) == [] and len(parser.certificates([]).values) == 0


def test_belief_propagation_is_exact_without_second_order_scores() -> None:
    rng = np.random.default_rng(0)
    for n, single_root in ((1, False), (3, True), (5, False), (5, True)):
        space = SecondOrderTree([np.ones((n + 1, n))], 2, single_root=single_root)
        scores = np.zeros(space.n_parts(0))
        scores[: space.n_atoms(0)] = 2.0 * rng.normal(size=space.n_atoms(0))
        expected, mass = Arborescence([n], 2, single_root=single_root).marginals(0, scores[: space.n_atoms(0)])
        found = space.beliefs(0, scores)
        assert found.converged and found.log_partition == pytest.approx(expected)
        np.testing.assert_allclose(found.parts[: space.n_atoms(0)], mass, rtol=0, atol=1e-7)


def test_beliefs_are_the_gradient_of_the_bethe_log_partition() -> None:
    """At a fixed point, by central differences; and near the truth where second-order scores are small."""
    rng = np.random.default_rng(1)
    table = np.ones((5, 4), bool)
    for single_root in (False, True):
        space = SecondOrderTree([table], single_root=single_root)
        scores = rng.normal(size=space.n_parts(0))
        scores[space.n_atoms(0) :] *= 0.1
        found = space.beliefs(0, scores)
        assert found.converged
        for part in rng.integers(space.n_parts(0), size=12):
            step = 1e-4 * np.eye(space.n_parts(0))[part]
            ends = [space.beliefs(0, scores + sign * step, max_rounds=500) for sign in (1, -1)]
            slope = (ends[0].log_partition - ends[1].log_partition) / 2e-4
            assert slope == pytest.approx(found.parts[part], abs=1e-5)
        truth = enumerate_second_order(4, None, single_root, table)
        assert found.log_partition == pytest.approx(truth.log_partition(scores), abs=0.1)
        arcs = space.n_atoms(0)
        np.testing.assert_allclose(found.parts[:arcs], truth.marginals(scores)[:arcs], rtol=0, atol=0.05)


def test_training_on_beliefs(parser: SecondOrderParser) -> None:
    model = SecondOrderParser(**{**SMALL, "max_passes": 2}, loss="crf", C=0.1).fit(TRAIN[:80], pruner=parser.pruner_)
    assert model.evaluate(TEST).uas > 95
    for record in model.result_.trace:  # few: the scores of this sample are small
        assert 0 <= record.extra["unconverged"] <= 20 and 0 <= record.extra["negative_losses"] <= 20
    tables, account = model.predict_beliefs(TEST[:10])
    assert account.converged.any()  # not all: nothing promises that messages settle
    np.testing.assert_allclose(tables[0].sum(axis=0), 1.0)


def test_failures_of_propagation_are_counted() -> None:
    """Strong scores, where messages often run in circles: what the structure counts is what it tells one by one."""
    rng, n = np.random.default_rng(3), 12
    space = SecondOrderTree([np.ones((5, 4))] * n)
    assert space.unconverged("marginals") == space.unconverged("argmax") == 0  # nothing was asked for
    failed, unproved = 0, 0
    for i in range(n):
        scores = 4.0 * rng.normal(size=space.n_parts(i))
        space.marginals(i, scores)
        failed += not space.beliefs(i, scores).converged
        found = space.solve(i, scores)
        unproved += found.bound - found.value > 1e-6 * (1.0 + abs(found.bound))
    assert space.unconverged("marginals") == failed > 0
    assert space.unconverged("argmax") == unproved > 0


def test_no_step_where_the_loss_is_negative(parser: SecondOrderParser, tmp_path: Path) -> None:
    """Footnote 17 of Martins et al.: Bethe's log-partition may be below the gold score. Counted, traced, reported."""
    words, n = [word for sentence in TRAIN for word in sentence.forms], 100
    sentences = [DependencySentence.of_words(words[3 * k : 3 * k + 3], [0, 1, 2]) for k in range(n)]
    space = SecondOrderTree([np.ones((4, 3))] * n, 1)
    arcs = ArcFeatures(WordEncoder().fit(sentences), sentences, 1, arc_bits=14, row_bits=8)
    features = SecondOrderFeatures(arcs, space)
    theta = (0.3 + np.random.default_rng(0).normal(size=features.dim)).astype(np.float32)
    gold, losses = [], np.zeros(n)
    for i in range(n):
        scores = features.scores(i, theta.astype(float))
        best = space.argmax(i, scores)
        gold.append(space.decode(i, best))
        losses[i] = space.marginals(i, scores)[0] - scores @ best
    assert 5 <= (losses < -1e-3).sum() < 50 and (losses > 1e-3).any()
    learner = DCA(C=1e-12, max_passes=1)  # steps too small to change the losses that follow
    result = learner.fit(Problem(space, features, gold, Loss.named("crf")), theta=theta)
    extra = result.trace[0].extra
    assert extra["negative_losses"] == (losses < 0).sum() and extra["updates"] == (losses > 0).sum()
    assert extra["unconverged"] == space.unconverged("marginals") > 0

    kept, parser.result_ = parser.result_, result
    try:
        parsing_report(tmp_path / "report.html", parser, TEST[:20])
    finally:
        parser.result_ = kept
    text = (tmp_path / "report.html").read_text("utf-8")
    failed = int((~parser.predict_beliefs(TEST[:20])[1].converged).sum())
    assert f"did not converge on {failed} of 20 sentences" in text
    for name in ("unconverged", "negative_losses"):
        shown = f"{INFERENCE[name]}</dt>\\s*<dd>{extra[name]:.0f}<"
        assert re.search(shown, text), shown


def test_probabilities_are_its_own(parser: SecondOrderParser) -> None:
    tables, labelled = parser.predict_marginals(TEST[:8]), parser.predict_marginals(TEST[:8], labelled=True)
    for sentence, table, parts in zip(TEST[:8], tables, labelled, strict=True):
        assert parts.shape == (len(sentence) + 1, len(sentence), len(parser.relations_))
        np.testing.assert_allclose(table.sum(axis=0), 1.0)
        np.testing.assert_allclose(parts.sum(axis=2), table)
    found = parser.predict(TEST[:8])
    best = parser.predict_log_proba(found)
    assert np.isfinite(best).all() and (best < 0.5).all()  # Bethe's log-partition is no bound
    chain = found[0].with_tree(list(range(len(found[0]))), list(found[0].column("deprel")))
    assert parser.predict_log_proba([chain])[0] < best[0]  # pruned, or a bad tree
    temperature = parser.temperature_
    try:
        assert 0.01 < parser.calibrate(TEST).temperature_ < 20
        assert 0 <= parser.calibration(TEST).error < 0.1
    finally:
        parser.temperature_ = temperature


def test_settings_and_given_pruner(parser: SecondOrderParser) -> None:
    model = clone(SecondOrderParser(C=0.5, max_heads=3, arc_bits=12))
    assert model.get_params()["C"] == 0.5 and repr(model) == "SecondOrderParser(C=0.5, arc_bits=12, max_heads=3)"
    with pytest.raises(ParameterError, match=r"pruner.*row_bits=9"):
        SecondOrderParser(**{**SMALL, "row_bits": 9}).fit(TRAIN[:5], pruner=parser.pruner_)
    with pytest.raises(TypeError, match="unknown"):
        SecondOrderParser(unknown=1)
    with pytest.raises(ParameterError, match="projective"):
        SecondOrderParser(projective=True).fit(TRAIN[:5])


def test_exact_projective_trees_against_enumeration() -> None:
    rng = np.random.default_rng(3)
    for n, n_labels, single_root in ((1, None, True), (2, 2, False), (4, None, False), (4, None, True), (3, 2, True)):
        table = rng.random((n + 1, n)) < 0.8
        table[np.arange(n), np.arange(n)] = True  # a chain from the root stays possible
        space, truth = SecondOrderTree([table], n_labels, single_root=single_root), None
        truth = enumerate_second_order(n, n_labels, single_root, table)
        heads = [np.reshape(y, (n, -1))[:, 0] for y in truth.outputs]
        flat = [k for k, h in enumerate(heads) if tree_fault(h, projective=True) is None]
        for _ in range(5):
            scores = 3.0 * rng.normal(size=space.n_parts(0))
            value, parts = space.best_projective(0, scores)
            assert value == pytest.approx(max(truth.parts[k] @ scores for k in flat)) == pytest.approx(parts @ scores)
            assert tree_fault(np.reshape(space.decode(0, parts), (n, -1))[:, 0], projective=True) is None


def test_dual_decomposition_against_exact_projective_trees() -> None:
    """Never below the best projective tree where proved optimal; the same where that tree is projective."""
    rng, same = np.random.default_rng(4), 0
    for k in range(40):
        n = 6 + k % 9
        table = rng.random((n + 1, n)) < 0.5
        table[np.arange(n), np.arange(n)] = True
        space = SecondOrderTree([table], single_root=bool(k % 2))
        size = space.n_parts(0)
        planted = space.best_projective(0, rng.normal(size=size))[1]  # as in a trained model, some tree stands out
        scores = 0.5 * rng.normal(size=size) + planted
        exact, _ = space.best_projective(0, scores)
        found = space.solve(0, scores)
        assert found.bound >= exact - 1e-6
        if found.status == "optimal":
            assert found.value >= exact - 1e-6
            if tree_fault(space.decode(0, found.parts), projective=True) is None:
                assert found.value == pytest.approx(exact)
                same += 1
    assert same >= 15


def test_branch_and_bound_finds_the_best_tree_where_the_relaxation_is_loose() -> None:
    """Strong second-order scores on four words: dual decomposition leaves gaps, and k-best closes them all."""
    rng, loose, worse = np.random.default_rng(5), 0, 0
    table = np.ones((5, 4), bool)
    truth = {single: enumerate_second_order(4, None, single, table) for single in (False, True)}
    for k in range(60):
        single_root = bool(k % 2)
        space = SecondOrderTree([table], single_root=single_root, max_iterations=30)
        scores = 3.0 * rng.normal(size=space.n_parts(0))
        expected = np.sort(truth[single_root].parts @ scores)[::-1]
        found = space.solve(0, scores)
        loose += found.status != "optimal"
        worse += found.value < expected[0] - 1e-6
        np.testing.assert_allclose(space.kbest(0, scores, 8) @ scores, expected[:8], rtol=0, atol=1e-6)
    assert loose >= 5 and worse >= 1


def test_lists_of_trees(parser: SecondOrderParser) -> None:
    lists, best = parser.predict_kbest(TEST[:20], 5), parser.predict(TEST[:20])
    certified = parser.certificates(TEST[:20]).optimal
    for sentence, trees, tree, optimal in zip(TEST[:20], lists, best, certified, strict=True):
        assert len({t.text() for t in trees}) == len(trees) == 5 and all(t.proved for t in trees)
        assert all(t.fault(single_root=True) is None for t in trees)
        chances = [t.probability for t in trees]
        assert chances == sorted(chances, reverse=True) and sum(chances) <= 1 + 1e-9
        assert not optimal or trees[0].text() == tree.text()
        log_proba = parser.predict_log_proba(trees)  # ratios are those of the model's scores
        np.testing.assert_allclose(np.diff(log_proba), np.diff(np.log(chances)), rtol=0, atol=1e-6)
        assert trees[0].forms == sentence.forms
    assert [[t.text() for t in trees[:2]] for trees in lists] == [
        [t.text() for t in trees] for trees in parser.predict_kbest(TEST[:20], 2)
    ]
    assert parser.predict_kbest([], 2) == []
    with pytest.raises(ParameterError, match="k"):
        parser.predict_kbest(TEST[:1], 0)


def test_lists_end_in_long_sentences_whose_scores_mean_nothing() -> None:
    """The budget of iterations ends a search that would take hours; what is not proved is known not to be."""
    rng, n = np.random.default_rng(6), 150
    table = rng.random((n + 1, n)) < 8.0 / n
    table[np.arange(n), np.arange(n)] = True
    space = SecondOrderTree([table], max_iterations=20)
    scores = rng.normal(size=space.n_parts(0))
    found = space.kbest(0, scores, 4)
    values = found @ scores
    assert len({row.tobytes() for row in found}) == 4 and (np.diff(values) <= 1e-9).all()
    assert all(tree_fault(space.decode(0, row)) is None for row in found)
    assert values[0] >= space.solve(0, scores).value - 1e-6


def test_a_list_that_is_not_proved_says_so(parser: SecondOrderParser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without further splits nothing is known of trees beyond a loose bound."""
    from partwise.parsing import second_order

    def cut_short(*given: object) -> None:
        second_order_lists(*given)
        given[-1].rest[:] = given[-1].values[:, 0] + 1.0  # type: ignore[attr-defined]

    second_order_lists = second_order.second_order_lists
    monkeypatch.setattr(second_order, "second_order_lists", cut_short)
    assert not any(tree.proved for tree in parser.predict_kbest(TEST[:1], 3)[0])


def test_bad_input(parser: SecondOrderParser) -> None:
    with pytest.raises(ParameterError, match="max_heads"):
        SecondOrderParser(max_heads=0).fit(TRAIN)
    with pytest.raises(ParameterError, match="threshold"):
        SecondOrderParser(threshold=1.0).fit(TRAIN)
    with pytest.raises(ParameterError, match="decoding"):
        parser.predict(TEST, decoding="risk")
    with pytest.raises(ParameterError, match="constraints"):
        parser.predict(TEST[:1], constraints=[{1: 2}])
    with pytest.raises(InputError, match="sentence 0: every word needs a head"):
        SecondOrderParser(**SMALL).fit([DependencySentence.of_words(["a"])])


def test_space_faults() -> None:
    with pytest.raises(InputError, match=r"candidates of instance 0 have shape \(2, 2\)"):
        SecondOrderTree([np.ones((2, 2))])
    with pytest.raises(InputError, match="candidate arcs of instance 0 hold no tree"):
        SecondOrderTree([[[0, 0], [0, 1], [1, 0]]])
    space = SecondOrderTree([[[1, 1], [0, 1], [0, 0]]], single_root=True)
    with pytest.raises(InputError, match=r"arc \(2, 1\) of instance 0 is not a candidate"):
        space.encode(0, np.array([2, 0]))
    with pytest.raises(InputError, match="words 1, 2 depend on the root"):
        space.encode(0, np.array([0, 0]))
    scores = np.zeros(space.n_parts(0))
    scores[-1] = -np.inf
    with pytest.raises(InputError, match="a sibling or grandparent, has score -inf"):
        space.argmax(0, scores)
