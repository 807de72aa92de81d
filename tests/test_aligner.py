"""WordAligner: what it learns, its learners, scikit-learn's interface, storage, explanations, and bad input."""

from __future__ import annotations

import itertools
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import partwise
from partwise import WordAligner
from partwise.alignment import GenerativeAligner
from partwise.alignment import link_prediction as module
from partwise.alignment.problems import link_costs, training_targets
from partwise.alignment.word_features import PATTERNS
from partwise.costs import PartCost
from partwise.data import AlignedPairs, GoldLinks, load_sample_alignments
from partwise.estimators import load_model
from partwise.exceptions import CapabilityError, InputError, ParameterError, SolverError, StorageError
from partwise.learners import LEARNERS
from partwise.metrics import alignment_scores
from partwise.structures import Matching, Multiclass

ENOUGH: dict[str, Any] = {"infeasible": "nearest", "max_passes": 12, "C": 0.1}
MODELS = ("M", "M+F", "M+Q", "M+F+Q")


@pytest.fixture(scope="module")
def train() -> AlignedPairs:
    return load_sample_alignments("train")


@pytest.fixture(scope="module")
def test() -> AlignedPairs:
    return load_sample_alignments("test")


@pytest.fixture(scope="module")
def generative() -> GenerativeAligner:
    return GenerativeAligner(also=("model1",)).fit(load_sample_alignments().bitext)


@pytest.fixture(scope="module")
def fitted(train: AlignedPairs, generative: GenerativeAligner) -> dict[str, WordAligner]:
    """One aligner a model; those with pairs of links from fewer sentences, since each pass takes their projections."""
    made = {}
    for model in MODELS:
        n = 25 if "Q" in model else 100
        settings = {**ENOUGH, "max_passes": 8} if "Q" in model else ENOUGH
        aligner = WordAligner(generative, model=model, candidates=0.05, **settings)
        made[model] = aligner.fit(train.bitext[:n], train.gold[:n])
    return made


# learning


@pytest.mark.parametrize("model", MODELS)
def test_learns_more_than_it_was_told(
    model: str, fitted: Any, generative: GenerativeAligner, test: AlignedPairs
) -> None:
    aligner = fitted[model]
    raw = 1 - alignment_scores(test.gold, generative.predict(test.bitext)).aer
    score = aligner.score(test.bitext, test.gold)
    assert score == 1 - alignment_scores(test.gold, aligner.predict(test.bitext)).aer
    assert score > (raw + 0.005 if model == "M" else raw - 0.02)  # the richer ones are stopped early here
    signed = np.array([name.split(":")[0] in ("source", "target") for name in aligner.feature_names_])
    assert signed.any() == ("F" in model) and (aligner.theta_[signed] >= 0).all()
    assert len(aligner.theta_) == len(aligner.feature_names_) and aligner.n_pairs_ == (25 if "Q" in model else 100)


@pytest.mark.parametrize("model", MODELS)
def test_predictions_respect_the_model(model: str, fitted: Any, test: AlignedPairs) -> None:
    aligner = fitted[model]
    most = 1
    for (source, target), links in zip(test.bitext, aligner.predict(test.bitext), strict=True):
        assert links == sorted(links) and all(type(j) is int and type(k) is int for j, k in links)
        table = np.zeros((len(source), len(target)))
        for j, k in links:
            table[j, k] += 1
        most = max(most, *table.sum(axis=0), *table.sum(axis=1))
    assert most <= (2 if "F" in model else 1)


def test_raw_text_is_trained_on_where_no_aligner_is_given(train: AlignedPairs, test: AlignedPairs) -> None:
    pairs, gold = train.bitext[:30], train.gold[:30]
    alone = WordAligner(**ENOUGH).fit(pairs, gold)
    assert alone.generative_.n_pairs_ == 30 and alone.generative is None
    helped = WordAligner(GenerativeAligner(model="model1"), **ENOUGH).fit(pairs, gold, bitext=test.bitext)
    assert helped.generative_.n_pairs_ == 80 and list(helped.generative_.models_) == ["model1"]
    assert not hasattr(helped.generative, "models_")  # what was given is left as it was
    assert any(name.startswith("model1 forward") for name in helped.feature_names_)
    with pytest.raises(InputError, match="a fitted one was given"):
        WordAligner(helped.generative_, **ENOUGH).fit(pairs, gold, bitext=test.bitext)


def test_held_out_pairs_choose_the_pass(train: AlignedPairs, test: AlignedPairs, generative: GenerativeAligner) -> None:
    aligner = WordAligner(generative, patience=3, **{**ENOUGH, "max_passes": 40})
    aligner.fit(train.bitext, train.gold, dev=(test.bitext, test.gold))
    scores = [record.score or 0.0 for record in aligner.result_.trace]
    assert aligner.result_.status == "early_stopping" and max(scores) == scores[aligner.result_.best_step - 1]
    assert aligner.score(test.bitext, test.gold) == pytest.approx(max(scores))


ALL = ("extragradient", "projected_gradient", "perceptron", "frank_wolfe", "one_slack", "n_slack", "dca", "joint_qp")


@pytest.mark.parametrize("name", [name for name in ALL if name in LEARNERS])
def test_every_learner_that_can(
    name: str, train: AlignedPairs, test: AlignedPairs, generative: GenerativeAligner
) -> None:
    aligner = WordAligner(generative, learner=name, infeasible="nearest", C=0.1, max_passes=15)
    if name == "joint_qp":
        pytest.importorskip("clarabel")
    aligner.fit(train.bitext[:40], train.gold[:40])
    assert aligner.score(test.bitext, test.gold) > 0.9
    constrained = aligner.unfitted().set_params(model="M+F", max_passes=3)
    if not LEARNERS[name].constrains:
        with pytest.raises(CapabilityError, match=r"cannot keep weights ≥ 0\. Learners that can: .*n_slack"):
            constrained.fit(train.bitext, train.gold)
    else:
        found = constrained.fit(train.bitext[:20], train.gold[:20])
        signed = [d for d, n in enumerate(found.feature_names_) if n.startswith(("source:", "target:"))]
        assert (found.theta_[signed] >= 0).all()


def test_the_weight_of_losses_is_chosen_by_cross_validation(
    train: AlignedPairs, test: AlignedPairs, tmp_path: Path
) -> None:
    raw = GenerativeAligner().fit(train.bitext + test.bitext)
    pairs, gold = train.bitext[:40], train.gold[:40]
    aligner = WordAligner(raw, model="M", infeasible="nearest").fit(pairs, gold)
    chosen = aligner.selection_
    assert chosen is not None and set(chosen.errors) == {("M", C) for C in (0.01, 0.1, 1.0)} and aligner.C_ == chosen.C
    assert chosen.errors["M", chosen.C] == min(chosen.errors.values()) < chosen.generative and chosen.improves
    assert chosen.generative == alignment_scores(gold, raw.predict(pairs)).aer
    assert aligner.result_.certificate is not None and aligner.result_.certificate.relative_gap < 0.01
    same = WordAligner(raw, infeasible="nearest", C=chosen.C).fit(pairs, gold)
    assert same.selection_ is None and (same.theta_ == aligner.theta_).all()
    assert (
        alignment_scores(test.gold, aligner.predict(test.bitext)).aer
        < alignment_scores(test.gold, raw.predict(test.bitext)).aer
    )
    # by hand: the folds, each aligned by weights from the others
    order, found = np.random.default_rng(0).permutation(40), {}
    for fold in range(5):
        held = order[fold::5].tolist()
        rest = [i for i in range(40) if i not in held]
        part = WordAligner(raw, infeasible="nearest", C=0.1).fit([pairs[i] for i in rest], [gold[i] for i in rest])
        found |= dict(zip(held, part.predict([pairs[i] for i in held]), strict=True))
    assert chosen.errors["M", 0.1] == alignment_scores(gold, [found[i] for i in range(40)]).aer
    aligner.save(tmp_path / "a.pw")
    assert load_model(tmp_path / "a.pw").selection_ == chosen and load_model(tmp_path / "a.pw").C_ == chosen.C


def test_gold_links_that_teach_nothing_do_no_harm(train: AlignedPairs, test: AlignedPairs) -> None:
    """Links at random: whatever is learned from them is worse than the generative aligner, whose links are kept."""
    raw = GenerativeAligner().fit(train.bitext + test.bitext)
    pairs, rng = train.bitext[:12], np.random.default_rng(0)
    gold = [[(int(rng.integers(len(e))), int(rng.integers(len(f)))) for _ in range(2)] for e, f in pairs]
    with pytest.warns(UserWarning, match="gold links did not improve on raw text: cross-validated AER"):
        aligner = WordAligner(raw, model="M+F", infeasible="nearest").fit(pairs, gold)
    assert aligner.selection_ is not None and not aligner.selection_.improves
    assert aligner.predict(test.bitext) == raw.predict(test.bitext)
    assert WordAligner(raw, infeasible="nearest").fit(pairs[:1], gold[:1]).C_ == 0.1  # nothing to hold out


def test_certified_learners_meet(train: AlignedPairs, generative: GenerativeAligner) -> None:
    """The same optimum by cutting planes and by a saddle point, whose lower bounds must respect it."""
    pairs, gold = train.bitext[:10], train.gold[:10]
    settings: dict[str, Any] = {"infeasible": "nearest", "C": 0.01}
    cuts = WordAligner(generative, learner="one_slack", max_passes=200, **settings).fit(pairs, gold).result_.certificate
    settings |= {"learner": "extragradient", "max_passes": 300}
    saddle = WordAligner(generative, **settings).fit(pairs, gold).result_.certificate
    assert cuts is not None and saddle is not None
    assert cuts.relative_gap < 0.01 and saddle.dual <= cuts.primal * (1 + 1e-9) and cuts.dual <= saddle.primal
    assert saddle.primal <= cuts.primal * 1.1


def test_losses_that_need_marginals_are_refused_at_once(train: AlignedPairs) -> None:
    with pytest.raises(CapabilityError, match="NSlack minimises"):
        WordAligner(loss="crf").fit(train.bitext, train.gold)
    with pytest.raises(CapabilityError, match="has no oracle 'marginals', which the crf loss needs"):
        WordAligner(loss="crf", learner="sgd").fit(train.bitext, train.gold)


# what it is trained on


def test_possible_links_cost_nothing() -> None:
    gold = [GoldLinks.of([(0, 0), (0, 1)], [(1, 1)])]
    sizes = np.array([[2, 2]])
    target = training_targets(sizes, gold, 1, "nearest")
    assert target[0].tolist() in ([[0, 0]], [[0, 1]])
    cost = link_costs(gold, target, sizes, 1.0, 3.0)
    z = np.zeros(4)
    z[target[0][0, 0] * 2 + target[0][0, 1]] = 1.0
    p, q = cost.parts(Matching(sizes), 0, z)
    assert p @ z + q == 0.0 and q == 3.0  # right; and without any link one is missing
    assert p.tolist().count(0.0) == 2 and p[2] == 1.0  # a sure link that is not asked for, a possible one, a wrong one


def test_part_costs() -> None:
    cost = PartCost([([1.0, -3.0], 3.0), ([0.0], 0.0)])
    gold = np.array([0.0, 1.0])
    p, q = cost.parts(Multiclass(3, len(gold)), 0, gold)
    for z in itertools.product((0.0, 1.0), repeat=2):
        assert p @ np.array(z) + q == 1.0 * z[0] + 3.0 * (1 - z[1])
    with pytest.raises(InputError, match="PartCost holds the costs of 2 instances; asked for instance 2"):
        cost.parts(Multiclass(3, len(gold)), 2, gold)
    with pytest.raises(InputError, match=r"the cost of instance 1 has shape \(1,\); expected \(2,\)"):
        cost.parts(Multiclass(3, len(gold)), 1, gold)
    with pytest.raises(InputError, match="the gold output of instance 0 costs -4; expected ≥ 0"):
        PartCost([([0.0, -4.0], 0.0)]).parts(Multiclass(3, len(gold)), 0, gold)
    with pytest.raises(InputError, match="the cost of instance 1 is not finite"):
        PartCost([([0.0], 1.0), ([np.inf], 0.0)])


def test_gold_that_the_model_cannot_produce() -> None:
    X = [(["a"], ["b"]), (["the", "potatoes", "are"], ["les", "pommes", "de", "terre", "sont"])]
    y = [[(0, 0)], [(0, 0), (1, 1), (1, 2), (1, 3), (2, 4)]]
    message = "gold alignment of pair 1: source word 1 has 3 links (1-1, 1-2, 1-3)"
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        WordAligner(model="M").fit(X, y)
    assert "Use a model with fertility (M+F), or infeasible='nearest'" in str(raised.value)
    with pytest.raises(InputError, match=re.escape(message)) as raised:
        WordAligner(model="M+F+Q").fit(X, y)
    assert "Use a max_fertility above 2" in str(raised.value)
    assert WordAligner(model="M+F", max_fertility=3, max_passes=20).fit(X, y).theta_.any()
    with pytest.raises(InputError, match=re.escape("target word 0 has 2 links (0-0, 1-0)")):
        WordAligner(model="M").fit([(["a", "b"], ["c"])], [[(0, 0), (1, 0)]])
    assert WordAligner(model="L", max_passes=20).fit(X, y).theta_.any()


def test_searches_that_take_too_long_say_so(fitted: Any, train: AlignedPairs, generative: GenerativeAligner) -> None:
    slow = WordAligner.from_state(*fitted["M+F+Q"].to_state())
    slow.map_ = slow.set_params(time_limit=1e-9)._feature_map(slow.map_.lexicon, slow.map_.gold)
    slow.theta_ = slow.theta_ + np.isin(slow.feature_names_, list(PATTERNS))  # a bonus, so that pairs of links matter
    with pytest.raises(SolverError, match="reached its time limit of 1e-09 s"):
        slow.predict(train.bitext)
    settings = {**ENOUGH, "model": "M+Q", "time_limit": 1e-9, "learner": "one_slack"}
    with pytest.raises(SolverError, match=r"the linear program of instance \d reached its time limit of 1e-09 s"):
        WordAligner(generative, **settings).fit(train.bitext[:4], train.gold[:4])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "M+G"}, "one of 'L', 'M', 'M+F', 'M+F+Q', 'M+Q', 'auto'"),
        ({"infeasible": "skip"}, "'infeasible' parameter of WordAligner must be 'error' or 'nearest'"),
        ({"model": "M", "max_fertility": 0}, "an integer of at least 1 where the model is 'M'"),
        ({"model": "M+F", "max_fertility": 1}, "an integer of at least 2 where the model is 'M+F'"),
        ({"false_negative": -1.0}, "'false_negative' parameter of WordAligner must be a number ≥ 0"),
        ({"time_limit": 0.0}, "a positive number of seconds"),
        ({"learner": "extragradiant"}, "did you mean 'extragradient'"),
        ({"loss": "hinge!"}, "'loss' parameter"),
        ({"n_jobs": 0}, "'n_jobs' parameter"),
        ({"learner_options": {"speed": 1}}, "Got 'speed' instead"),
    ],
)
def test_settings_are_checked_first(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        WordAligner(**settings).fit([], [])


def test_bad_data(fitted: Any, generative: GenerativeAligner) -> None:
    with pytest.raises(InputError, match="no sentence pairs to train on"):
        WordAligner().fit([], [])
    with pytest.raises(InputError, match="X has 1 pairs but y has 0"):
        WordAligner().fit([(["a"], ["b"])], [])
    with pytest.raises(InputError, match="the target sentence of pair 0 is empty"):
        WordAligner().fit([(["a"], [])], [[]])
    with pytest.raises(InputError, match="the source sentence of pair 1 is empty"):
        fitted["M"].predict([(["a"], ["b"]), ([], ["b"])])
    with pytest.raises(ParameterError, match="'hmm', 'model1'"):
        WordAligner(generative, posteriors=("model2",), **ENOUGH).fit([(["a"], ["b"])], [[(0, 0)]])
    with pytest.raises(NotFittedError):
        WordAligner().predict([(["a"], ["b"])])
    assert fitted["M"].predict([]) == []


# prediction


def test_blocks_do_not_change_predictions(fitted: Any, test: AlignedPairs, monkeypatch: pytest.MonkeyPatch) -> None:
    aligner = fitted["M+F"]
    before = aligner.predict(test.bitext), aligner.predict_scores(test.bitext)
    monkeypatch.setattr(module, "BLOCK_EDGES", 70)
    after = aligner.predict(test.bitext), aligner.predict_scores(test.bitext)
    assert before[0] == after[0] and len(after[1]) == len(test.bitext)
    for a, b in zip(before[1], after[1], strict=True):
        np.testing.assert_array_equal(a, b)


def test_margins_agree_with_all_matchings(fitted: Any) -> None:
    pairs = [(["the", "cat", "sleeps"], ["le", "chat"]), (["I", "see"], ["je", "vois", "."])]
    aligner = fitted["M"]
    for pair, scores, margins, links in zip(
        pairs, aligner.predict_scores(pairs), aligner.predict_margins(pairs), aligner.predict(pairs), strict=True
    ):
        n_rows, n_columns = len(pair[0]), len(pair[1])
        values: dict[frozenset[tuple[int, int]], float] = {}
        for choice in itertools.product([None, *range(n_columns)], repeat=n_rows):
            used = [k for k in choice if k is not None]
            if len(used) == len(set(used)):
                chosen = frozenset((j, k) for j, k in enumerate(choice) if k is not None)
                values[chosen] = sum(scores[j, k] for j, k in chosen)
        assert max(values, key=lambda y: values[y]) == frozenset(links)
        for j, k in itertools.product(range(n_rows), range(n_columns)):
            with_it = max(v for y, v in values.items() if (j, k) in y)
            without = max(v for y, v in values.items() if (j, k) not in y)
            assert margins[j, k] == pytest.approx(with_it - without)
    with pytest.raises(ParameterError, match=re.escape("must be 'L', 'M' or 'M+F'. Got 'M+Q' instead")):
        fitted["M+Q"].predict_margins(pairs)


def test_relaxation_is_about_as_good(fitted: Any, test: AlignedPairs) -> None:
    exact = fitted["M+F+Q"]
    relaxed = WordAligner.from_state(*exact.to_state()).set_params(exact=False)
    assert relaxed.score(test.bitext[:20], test.gold[:20]) == pytest.approx(
        exact.score(test.bitext[:20], test.gold[:20]), abs=0.01
    )


@pytest.mark.parametrize("model", MODELS)
def test_explanations_add_up(model: str, fitted: Any, test: AlignedPairs) -> None:
    """The contributions are the score with the link minus the score without it, fertilities and pairs included."""
    aligner = fitted[model]
    for pair, links in list(zip(test.bitext, aligner.predict(test.bitext), strict=True))[:6]:
        parts = aligner.map_([pair])
        scores = parts.features.scores(0, aligner.theta_)
        for link in [*links[:3], (0, len(pair[1]) - 1)]:
            why = aligner.explain(pair, link)
            rest = [other for other in links if other != link]
            change = parts.space.encode(0, [*rest, link]) - parts.space.encode(0, rest)
            assert why.score == pytest.approx(change @ scores)
            assert why.predicted == (link in links) and why.words == (pair[0][link[0]], pair[1][link[1]])
            assert why.rivals == [other for other in rest if other[0] == link[0] or other[1] == link[1]]
            sizes = [abs(c.difference) for c in why.contributions]
            assert sizes == sorted(sizes, reverse=True) and {c.name for c in why.contributions} <= set(parts.names)
    if model == "M":
        text = str(aligner.explain(pair, link))
        assert text.startswith(f"link {link[0]}-{link[1]} ({pair[0][link[0]]} – {pair[1][link[1]]})")
        with pytest.raises(InputError, match="link 0-99 is out of range: there are"):
            aligner.explain(pair, (0, 99))


def test_sources_of_ones_own(train: AlignedPairs, generative: GenerativeAligner, tmp_path: Path) -> None:
    pairs, gold = train.bitext[:30], train.gold[:30]
    oracle = {tuple(map(tuple, pair)): links for pair, links in zip(pairs, gold, strict=True)}

    def told(batch: Any) -> dict[str, Any]:
        made = []
        for source, target in batch:
            links = oracle.get((tuple(source), tuple(target)), GoldLinks.of(()))
            matrix = np.zeros((len(source), len(target)))
            for link in links.sure:
                matrix[link] = 1.0
            made.append(matrix)
        return {"told": made}

    aligner = WordAligner(generative, sources=(told,), **ENOUGH).fit(pairs, gold)
    weights = dict(zip(aligner.feature_names_, aligner.theta_, strict=True))
    assert weights["told"] > max(weights[name] for name in weights if name.startswith("hmm"))
    aligner.save(tmp_path / "m.pw")
    with pytest.raises(StorageError, match=r"trained with 1 sources.*WordAligner.load\(path, sources="):
        load_model(tmp_path / "m.pw")
    again = WordAligner.load(tmp_path / "m.pw", sources=(told,))
    assert again.predict(pairs) == aligner.predict(pairs)
    with pytest.raises(StorageError, match="2 were given"):
        WordAligner.load(tmp_path / "m.pw", sources=(told, told))


# the interface of scikit-learn


def test_scikit_learn_interface(train: AlignedPairs, generative: GenerativeAligner) -> None:
    aligner = WordAligner(generative, **ENOUGH)
    assert repr(WordAligner(model="M+F", C=0.5)) == "WordAligner(model='M+F', C=0.5)"
    copy = clone(aligner)
    assert copy is not aligner and copy.generative is generative  # what raw text taught is a setting
    assert copy.get_params(deep=False) == aligner.get_params(deep=False)
    assert aligner.get_params()["generative__model"] == "hmm"
    search = GridSearchCV(aligner, {"C": [1e-6, 0.1], "false_negative": [3.0]}, cv=2)
    search.fit(list(train.bitext[:30]), train.gold[:30])
    assert search.best_params_["C"] == 0.1 and search.best_score_ > 0.8
    assert partwise.WordAligner is WordAligner and "WordAligner" in partwise.__all__
    assert pickle.loads(pickle.dumps(search.best_estimator_)).predict(train.bitext[:3]) == search.predict(
        train.bitext[:3]
    )


@pytest.mark.parametrize("model", MODELS)
def test_storage_round_trip(model: str, fitted: Any, test: AlignedPairs, tmp_path: Path) -> None:
    aligner = fitted[model]
    aligner.info_ = {"train": {"file": "somewhere"}}
    aligner.save(tmp_path / "a.pw")
    again = load_model(tmp_path / "a.pw")
    assert type(again) is WordAligner and again.model == model and again.info_ == aligner.info_
    np.testing.assert_array_equal(again.theta_, aligner.theta_)
    assert again.feature_names_ == aligner.feature_names_ and again.n_pairs_ == aligner.n_pairs_
    assert again.result_.trace == aligner.result_.trace and again.result_.certificate == aligner.result_.certificate
    some = test.bitext[:10]
    assert again.predict(some) == aligner.predict(some)
    again.save(tmp_path / "b.pw")
    assert (tmp_path / "a.pw").read_bytes() == (tmp_path / "b.pw").read_bytes()


def test_damaged_models_are_refused(fitted: Any) -> None:
    header, arrays = fitted["M"].to_state()
    with pytest.raises(StorageError, match="theta is not a vector of finite float64 numbers"):
        WordAligner.from_state(header, {**arrays, "theta": arrays["theta"] * np.nan})
    with pytest.raises(StorageError, match="the weights do not match the features"):
        WordAligner.from_state(header, {**arrays, "theta": arrays["theta"][:-1]})
    with pytest.raises(StorageError, match="the weights do not match the features"):
        WordAligner.from_state({**header, "params": {**header["params"], "frequent": 2}}, arrays)


def test_checkpoints(train: AlignedPairs, generative: GenerativeAligner, tmp_path: Path) -> None:
    pairs, gold = train.bitext[:20], train.gold[:20]
    whole = WordAligner(generative, **ENOUGH).fit(pairs, gold)
    path = tmp_path / "run.ckpt"
    halted = WordAligner(generative, **ENOUGH)
    halted.fit(pairs, gold, checkpoint=path, callbacks=[lambda record, theta: record.step == 5])
    resumed = WordAligner(generative, verbose=0, n_jobs=2, **ENOUGH).fit(pairs, gold, checkpoint=path)
    assert len(halted.result_.trace) == 5 and len(resumed.result_.trace) == len(whole.result_.trace)
    np.testing.assert_allclose(resumed.theta_, whole.theta_, atol=1e-12)
    for other in (
        lambda: WordAligner(generative, **{**ENOUGH, "C": 0.2}).fit(pairs, gold, checkpoint=path),
        lambda: WordAligner(generative, **ENOUGH).fit(pairs[:19], gold[:19], checkpoint=path),
        lambda: WordAligner(generative, **ENOUGH).fit(pairs, [[]] * 20, checkpoint=path),
        lambda: WordAligner(generative, posteriors=("hmm",), **ENOUGH).fit(pairs, gold, checkpoint=path),
        lambda: WordAligner(generative, **ENOUGH).fit(pairs, gold, dev=(pairs, gold), checkpoint=path),
    ):
        with pytest.raises(InputError, match="belongs to another run"):
            other()
    with pytest.raises(StorageError, match="cannot be written"):
        WordAligner(**ENOUGH).fit(pairs, gold, checkpoint=tmp_path / "no" / "folder")


def test_interrupted_in_the_first_stage(
    train: AlignedPairs, generative: GenerativeAligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the model without pairs is trained, where one with pairs begins, ends the whole training."""
    original = LEARNERS["extragradient"].advance

    def interrupted(self: Any, problem: Any, state: Any) -> Any:
        if state.get("passes", state.setdefault("seen", 0)) >= 1:
            raise KeyboardInterrupt
        state["seen"] = 1
        state["passes"] = 1
        return original(self, problem, state)

    monkeypatch.setattr(LEARNERS["extragradient"], "advance", interrupted)
    settings = {**ENOUGH, "model": "M+Q", "learner": "extragradient"}
    aligner = WordAligner(generative, **settings).fit(train.bitext[:5], train.gold[:5])
    assert aligner.result_.status == "interrupted" and aligner.result_.best_step == 0
    assert aligner.theta_.shape == (len(aligner.feature_names_),)


def test_the_same_seed_makes_the_same_model(train: AlignedPairs, generative: GenerativeAligner) -> None:
    pairs, gold = train.bitext[:20], train.gold[:20]
    first = WordAligner(generative, **ENOUGH).fit(pairs, gold)
    second = WordAligner(generative, n_jobs=2, **ENOUGH).fit(pairs, gold)
    np.testing.assert_array_equal(first.theta_, second.theta_)
