"""Model L, the counts of gold links, and the choice between models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise import WordAligner
from partwise.alignment import GenerativeAligner
from partwise.alignment.gold_lexicon import LEXICAL, GoldLexicon
from partwise.alignment.known_words import KnownWords
from partwise.alignment.link_features import LinkFeatures
from partwise.alignment.links import Edges
from partwise.alignment.report import training
from partwise.data import GoldLinks, load_sample_alignments
from partwise.estimation.base import load_model
from partwise.metrics import alignment_scores

PAIRS = [(["The", "cat"], ["le", "chat"]), (["the", "cat", "the"], ["le", "chien"]), (["dog"], ["le"])]
GOLD = [GoldLinks.of([(0, 0), (1, 1)]), GoldLinks.of([(0, 0)], [(2, 0)]), GoldLinks.of([])]
TRAIN, TEST = load_sample_alignments("train"), load_sample_alignments("test")


@pytest.fixture(scope="module")
def raw() -> GenerativeAligner:
    return GenerativeAligner().fit(TRAIN.bitext + TEST.bitext)


def counted(lexicon: GoldLexicon, pairs: Any, own: Any = None) -> Any:
    """(E, 8) columns of the counts of gold links."""
    edges = Edges.of(pairs)
    words = KnownWords.of((edges.source_words, edges.target_words), ({}, {}), lexicon=lexicon)
    features = LinkFeatures(edges, {}, words, own)
    assert tuple(features.names[-len(LEXICAL) :]) == LEXICAL
    return features.rows()[:, -len(LEXICAL) :]


def test_no_pair_is_described_by_its_own_links() -> None:
    """The features of each gold pair are those that counts of the other pairs alone would give it."""
    whole = counted(GoldLexicon.of(PAIRS, GOLD), PAIRS, GOLD)
    edges = Edges.of(PAIRS)
    for i in range(len(PAIRS)):
        rest = [k for k in range(len(PAIRS)) if k != i]
        others = GoldLexicon.of([PAIRS[k] for k in rest], [GOLD[k] for k in rest])
        apart = counted(others, [PAIRS[i]])
        own = whole[edges.offsets[i] : edges.offsets[i + 1]]
        np.testing.assert_allclose(own[:, :6], apart[:, :6])  # the average shares of the last two are those of all
    assert whole.shape == (len(edges), len(LEXICAL))


def test_counts_by_hand_and_through_a_file() -> None:
    lexicon = GoldLexicon.of(PAIRS, GOLD)
    assert lexicon.pairs["the", "le"] == (2, 2)  # three pairs of places, one of them only possible
    assert lexicon.pairs["cat", "le"] == (2, 0) and ("cat", "chien") not in lexicon.pairs
    assert lexicon.source == {"the": (3, 2), "cat": (2, 1), "dog": (1, 0)} and lexicon.target["le"] == (3, 2)
    assert GoldLexicon.from_state(lexicon.to_state()) == lexicon != GoldLexicon.of(PAIRS[:2], GOLD[:2])
    shuffled = {name: a[::-1] if name == "pairs" else a for name, a in lexicon.to_state().items()}
    again = GoldLexicon.from_state(shuffled)  # files of earlier versions have them in the order of the text
    np.testing.assert_array_equal(counted(again, PAIRS), counted(lexicon, PAIRS))
    assert GoldLexicon.from_state(GoldLexicon().to_state()) == GoldLexicon()


def test_links_one_by_one(raw: GenerativeAligner, tmp_path: Path) -> None:
    """Gold links may be many to many; scores above 0 are the predicted links; files keep all of it."""
    model = WordAligner(raw, model="L", C=1.0).fit(TRAIN.bitext, TRAIN.gold)
    found = model.predict(TEST.bitext)
    assert alignment_scores(TEST.gold, found).aer < alignment_scores(TEST.gold, raw.predict(TEST.bitext)).aer
    assert model.result_.certificate is not None and model.result_.certificate.relative_gap < 0.01
    for margins, links in zip(model.predict_margins(TEST.bitext), found, strict=True):
        assert list(map(tuple, np.argwhere(margins > 0).tolist())) == links
    link = found[0][0]
    why = model.explain(TEST.bitext[0], link)
    assert why.predicted and why.score == pytest.approx(model.predict_scores(TEST.bitext[:1])[0][link])
    assert not any("hinge" in record for record in training(model)["records"])  # the log-loss is none
    model.save(tmp_path / "l.pw")
    loaded = load_model(tmp_path / "l.pw")
    assert loaded.predict(TEST.bitext) == found and loaded.model_ == "L"


def test_weights_of_pairs(raw: GenerativeAligner) -> None:
    """Every pair twice with half the C is the same objective, doubled; a pair of weight 0 teaches nothing."""
    pairs, gold = list(TRAIN.bitext[:12]), list(TRAIN.gold[:12])
    model = WordAligner(raw, model="L", C=1.0, learner_options={"tolerance": 1e-9}).fit(pairs, gold)
    twice = model.unfitted().set_params(C=0.5).fit(pairs, gold, sample_weight=[2.0] * 12)
    np.testing.assert_allclose(twice.result_.theta, model.result_.theta, atol=1e-4)
    less = model.unfitted().fit(pairs, gold, sample_weight=[0.0] + [1.0] * 11)
    assert np.abs(less.result_.theta - model.result_.theta).max() > 1e-2
    with pytest.raises(ValueError, match="weight"):
        model.fit(pairs, gold, sample_weight=[1.0] * 11)


def test_the_model_is_chosen_by_cross_validation(raw: GenerativeAligner, tmp_path: Path) -> None:
    """Training afresh with what was chosen gives the same weights, and so does a file."""
    aligner = WordAligner(raw).fit(TRAIN.bitext[:40], TRAIN.gold[:40])
    chosen = aligner.selection_
    assert chosen is not None and {model for model, _ in chosen.errors | chosen.dropped} == {"L", "M", "M+F"}
    assert (aligner.model_, aligner.C_) == (chosen.model, chosen.C) and chosen.improves
    same = WordAligner(raw, model=aligner.model_, C=aligner.C_, infeasible="nearest").fit(
        TRAIN.bitext[:40], TRAIN.gold[:40]
    )
    assert (same.theta_ == aligner.theta_).all() and same.predict(TEST.bitext) == aligner.predict(TEST.bitext)
    aligner.save(tmp_path / "a.pw")
    loaded = load_model(tmp_path / "a.pw")
    assert (loaded.model, loaded.model_, loaded.selection_) == ("auto", aligner.model_, chosen)
    assert loaded.predict(TEST.bitext) == aligner.predict(TEST.bitext)
    given = WordAligner(raw, C=0.1, max_passes=2, infeasible="nearest").fit(TRAIN.bitext[:9], TRAIN.gold[:9])
    assert given.model_ == "M" and given.selection_ is None
