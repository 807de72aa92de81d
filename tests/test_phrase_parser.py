"""PhraseParser: features, training with several learners, probabilities, storage, commands, report."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from test_parse_cli import run

from partwise import PhraseParser, load_model
from partwise.exceptions import InputError, ParameterError
from partwise.features.base import squared_norm
from partwise.parsing import load_sample_phrases, parse_trees, phrase_svg, write_trees
from partwise.parsing.phrases.features import PhraseFeatures
from partwise.parsing.phrases.model import PhraseModel

TRAIN, TEST = load_sample_phrases("train"), load_sample_phrases("test")


@pytest.fixture(scope="module")
def parser() -> PhraseParser:
    return PhraseParser(bits=16, max_passes=5, threshold=1e-4).fit(TRAIN)


def test_features_and_their_adjoint_agree() -> None:
    model = PhraseModel(2, 1, 1e-4).fit(TRAIN)
    space, words, gold, recall = model.training_forests(TRAIN, 3, 1)
    assert 0.8 < recall.share <= 1.0
    assert recall.trees == len(TRAIN)
    features = PhraseFeatures(space, words, model.fine.symbols, bits=12)
    rng = np.random.default_rng(0)
    theta, scratch = rng.normal(size=features.dim), np.zeros(features.dim)
    for i in (0, 5, 30):
        parts, other = rng.normal(size=(2, space.n_parts(i)))
        gradient = np.zeros(features.dim)
        features.accumulate(i, parts, 2.0, gradient)
        assert gradient @ theta == pytest.approx(2.0 * features.scores(i, theta) @ parts)
        expected = np.zeros(features.dim)
        features.accumulate(i, other, 1.0, expected)
        assert squared_norm(features.pack, i, other, scratch) == pytest.approx(expected @ expected)
        assert not scratch.any()
        assert space.decode(i, space.encode(i, gold[i])).tolist() == gold[i].tolist()


def test_it_learns(parser: PhraseParser) -> None:
    assert parser.score(TEST) > 0.9
    assert parser.fallbacks_ == 0
    assert parser.score(TRAIN) > 0.97


def test_least_risk_is_least_and_calibration_helps() -> None:
    parser = PhraseParser(bits=16, max_passes=3, threshold=1e-4).fit(TRAIN)
    known = [
        {tuple(c[:3]): c.probability for c in found} for found in parser.predict_marginals(TEST, min_probability=0.0)
    ]

    def risk(decoding: str) -> list[float]:
        """Expected wrong and missed constituents, up to a constant."""
        trees = parser.predict(TEST, decoding=decoding)
        return [sum(1 - 2 * mass[c] for c in tree.constituents()) for tree, mass in zip(trees, known, strict=True)]

    assert all(a <= b + 0.05 for a, b in zip(risk("risk"), risk("best"), strict=True))  # ties go by rules
    before = parser.predict_log_proba(TEST).copy()
    parser.calibrate(TEST)
    after = parser.predict_log_proba(TEST)
    assert parser.temperature_ != 1.0
    assert after[np.isfinite(after)].sum() > before[np.isfinite(before)].sum()


def test_probabilities_add_up(parser: PhraseParser) -> None:
    sentence = TEST[2].words
    ranked = parser.predict_kbest([sentence], 400)[0]
    assert str(ranked[0].tree) == str(parser.predict([sentence])[0])
    assert [r.probability for r in ranked] == sorted((r.probability for r in ranked), reverse=True)
    assert len({str(r.tree) for r in ranked}) == len(ranked)
    total = sum(r.probability for r in ranked)
    assert 0.5 < total <= 1.0 + 1e-9
    known = {tuple(c[:3]): c.probability for c in parser.predict_marginals([sentence], min_probability=0.0)[0]}
    lower: dict[tuple[int, int, str], float] = {}
    for r in ranked:
        for constituent in set(r.tree.constituents()):
            lower[constituent] = lower.get(constituent, 0.0) + r.probability
    for constituent, mass in lower.items():
        assert mass - 1e-9 <= known[constituent] <= mass + 1.0 - total + 1e-9
    log_p = parser.predict_log_proba([ranked[0].tree])
    assert np.exp(log_p[0]) == pytest.approx(ranked[0].probability)
    odd = next(parse_trees([f"(NP {' '.join(f'(CC {word})' for word in sentence)})"]))
    assert parser.predict_log_proba([odd])[0] == -np.inf


def test_no_parse_is_marked_counted_and_told(parser: PhraseParser) -> None:
    with pytest.warns(UserWarning, match="1 of 2 sentences have no parse"):
        trees = parser.predict([[".", "?", "?", "."], ["she", "slept", "."]])
    assert (trees[0].label, parser.fallbacks_) == ("FALLBACK", 1)
    assert parser.predict_kbest([[".", "?", "?", "."]], 2) == [[]]
    assert parser.predict_marginals([[".", "?", "?", "."]]) == [[]]


def test_unknown_words_and_long_sentences(parser: PhraseParser) -> None:
    (found,) = parser.predict([["the", "gardener", "slept", "."]])
    assert str(found) == "(S (NP (DT the) (NN gardener)) (VP (VBD slept)) (. .))"
    words = ["he", "said", "that"] * 30 + ["the", "cat", "slept", "."]
    (found,) = parser.predict([words])
    assert found.words == words
    assert found.label == "S"


def test_it_says_why(parser: PhraseParser) -> None:
    reason = parser.explain(TEST[0], 0, 2, "NP")
    assert reason.probability > 0.5
    assert "NP over words 0..1" in str(reason)
    assert reason.score == pytest.approx(sum(weight for _, weight in reason.contributions))
    with pytest.raises(InputError, match="has dropped"):
        parser.explain(TEST[0], 0, 1, "VP")
    with pytest.raises(InputError, match="is not among"):
        parser.explain(TEST[0], 0, 1, "QQ")


@pytest.mark.parametrize(("learner", "loss"), [("perceptron", None), ("sgd", "crf"), ("eg", "svm")])
def test_other_learners(learner: str, loss: str | None) -> None:
    options = {"eta": 0.3} if learner == "sgd" else {}
    settings = {"bits": 14, "max_passes": 25 if learner == "eg" else 4, "vertical": 1, "horizontal": 0}
    settings["learner_options"] = options
    model = PhraseParser(learner=learner, loss=loss, C=1.0, **settings).fit(TRAIN)
    assert model.score(TRAIN) > 0.8


def test_a_model_comes_back_from_its_file(parser: PhraseParser, tmp_path: Path) -> None:
    parser.save(tmp_path / "m.pw")
    again = load_model(tmp_path / "m.pw")
    assert [str(t) for t in again.predict(TEST)] == [str(t) for t in parser.predict(TEST)]
    np.testing.assert_array_equal(again.predict_log_proba(TEST), parser.predict_log_proba(TEST))
    assert again.recall_ == parser.recall_


def test_settings_are_checked() -> None:
    for setting, value in (("vertical", 3), ("horizontal", -1), ("threshold", 0.0), ("folds", 0), ("bits", 40)):
        with pytest.raises(ParameterError, match=setting):
            PhraseParser(**{setting: value}).fit(TRAIN)
    with pytest.raises(InputError, match="no sentences"):
        PhraseParser().fit([])
    with pytest.raises(InputError, match="a phrase over its words"):
        PhraseParser().fit(list(parse_trees(["(NN a)"])))


def test_pictures_are_well_formed(parser: PhraseParser) -> None:
    mass = parser.predict_marginals(TEST[:1])[0]
    picture = phrase_svg(TEST[1], marginals=mass)
    assert len(ElementTree.fromstring(picture).findall(".//{*}text")) == len(TEST[1].constituents()) + 2 * len(TEST[1])
    wrong = next(parse_trees(["(S (NP (DT the) (NN doctor) (VBD slept)) (. .))"]))
    compared = phrase_svg(wrong, gold=TEST[0])
    assert "missing: VP over slept" in compared
    assert "#c0392b" in compared
    with pytest.raises(InputError, match="different words"):
        phrase_svg(TEST[0], gold=TEST[1])


def test_commands(tmp_path: Path) -> None:
    write_trees(TRAIN, tmp_path / "train.mrg")
    write_trees(TEST, tmp_path / "test.mrg")
    (tmp_path / "words.txt").write_text("the dog slept .\n\n. ? ? .\n")
    model, report = tmp_path / "m.pw", tmp_path / "r.html"
    done = run(
        "phrase-train", tmp_path / "train.mrg", "--dev", tmp_path / "test.mrg", "--save", model, "--bits", "16",
        "--threshold", "1e-4", "--max-passes", "3", "--report", report, "--json", "--quiet",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads(done.out)["f1"] > 85
    data = re.search(r'id="report-data"[^>]*>(.*?)</script>', report.read_text(), re.S)
    assert data is not None
    assert json.loads(data.group(1))["f1"] == pytest.approx(json.loads(done.out)["f1"])
    done = run("phrase", tmp_path / "words.txt", "--model", model)
    assert done.out == "(S (NP (DT the) (NN dog)) (VP (VBD slept)) (. .))\n(FALLBACK (. .) (. ?) (. ?) (. .))\n"
    assert "1 of 2 sentences have no parse" in done.err
    done = run("phrase", "--model", model, "--kbest", "2", stdin="the dog slept .\n")
    assert done.out.splitlines()[0].startswith("1\t")
    done = run("phrase", "--model", model, "--probabilities", stdin="the dog slept .\n")
    assert "0\t2\tNP\t" in done.out
    done = run("phrase", tmp_path / "test.mrg", "--model", model, "--evaluate", "--json", "-o", tmp_path / "out.mrg")
    assert json.loads(done.out)["f1"] > 85
    for words, message in (
        (["phrase", "x.txt"], "--model FILE"),
        (["phrase", tmp_path / "none.txt", "--model", model], "cannot be read"),
        (["phrase", tmp_path / "test.mrg", "--model", model], "test.mrg:1: a bracketed tree"),
        (["phrase", tmp_path / "words.txt", "--model", model, "--evaluate"], "words.txt:1: 'the' outside of brackets"),
        (["phrase-train", tmp_path / "train.mrg"], "--model FILE"),
    ):
        done = run(*words)
        assert done.code != 0
        assert message in done.err
