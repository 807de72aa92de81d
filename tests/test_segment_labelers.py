"""SegmentLabeler and SearchLabeler: training, tags, probabilities, k-best, explanations, storage, mistakes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import partwise
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.sequences.sample import load_sample
from partwise.sequences.segmentation.labeler import SegmentLabeler
from partwise.sequences.segmentation.search_labeler import SearchLabeler

TEMPLATES = "bias\nword[-1..1]\npos[-1..1]\npos[-1..1 pairs]"


@pytest.fixture(scope="module")
def data() -> Any:
    return load_sample("english", split="train")


@pytest.fixture(scope="module")
def exact(data: Any) -> SegmentLabeler:
    return SegmentLabeler(TEMPLATES, max_passes=8).fit(data, data.column("chunk"))


@pytest.fixture(scope="module")
def searching(data: Any) -> SearchLabeler:
    return SearchLabeler(TEMPLATES, beam=4, max_passes=8).fit(data, data.coded("chunk"))


def test_both_label_held_out_sentences(data: Any, exact: Any, searching: Any) -> None:
    test = load_sample("english", split="test")
    for model in (exact, searching):
        assert model.score(data, data.column("chunk")) > 0.97
        assert model.score(test, test.column("chunk")) > 0.8
        assert model.classes_[0] == "O"
    assert searching.result_.trace[-1].extra["largest_norm"] <= 1.0 + 1e-9


def test_probabilities_of_segments_are_marginals(data: Any, exact: SegmentLabeler) -> None:
    few = data.subset(slice(0, 3))
    space, features = exact.encoder_.transform(few)
    for i, found in enumerate(exact.predict_spans(few)):
        _, mean = space.marginals(i, features.scores(i, exact.theta_))
        table = space.atoms(i)
        for span in found:
            label = exact.classes_.index(span.type)
            here = (table.start == span.start) & (table.stop == span.stop) & (table.label == label)
            np.testing.assert_allclose(span.probability, mean[: len(here)][here], atol=1e-9)


def test_n_best_lists_begin_with_the_prediction(data: Any, exact: Any, searching: Any) -> None:
    few = data.subset(slice(0, 4))
    for model in (exact, searching):
        best = model.predict(few)
        for tags, ranked in zip(best, model.predict_kbest(few, 3), strict=True):
            assert ranked[0][0] == tags
            values = [value for _, value in ranked]
            assert values == sorted(values, reverse=True)
            assert len({tuple(other) for other, _ in ranked}) == len(ranked)


def test_explanations_add_up(data: Any, exact: SegmentLabeler, searching: SearchLabeler) -> None:
    """The margin of an explanation is the difference of the two scores."""
    sentence = data.subset([0])
    span = next(s for s in exact.predict_spans(sentence)[0] if s.stop - s.start > 1)
    for model in (exact, searching):
        told = model.explain(sentence, span.start, span.stop)
        space, features = model.encoder_.transform(sentence)
        scores, table = features.scores(0, model.theta_), space.atoms(0)
        here = (table.start == span.start) & (table.stop == span.stop)
        value = {model.classes_[b]: s for b, s in zip(table.label[here], scores[: len(here)][here], strict=True)}
        np.testing.assert_allclose(told.margin, value[told.label] - value[told.rival], rtol=1e-9)
        assert told.label in str(told)
    with pytest.raises(InputError, match="no segment of 2 tokens has label 'XX'"):
        exact.explain(sentence, 0, 2, "XX")
    with pytest.raises(InputError, match="is empty or not within"):
        exact.explain(sentence, 3, 3)


@pytest.mark.parametrize("kind", ["exact", "searching"])
def test_a_model_file_gives_the_same_tags(kind: str, request: Any, data: Any, tmp_path: Any) -> None:
    model = request.getfixturevalue(kind)
    model.save(tmp_path / "model.pw")
    loaded = partwise.load_model(tmp_path / "model.pw")
    assert type(loaded) is type(model)
    assert loaded.predict(data.subset(slice(0, 9))) == model.predict(data.subset(slice(0, 9)))
    assert loaded.result_.status == model.result_.status
    header, arrays = model.to_state()
    with pytest.raises(StorageError, match="features of whole segments are inconsistent"):
        type(model).from_state(header, {**arrays, "keys/labels": arrays["keys/labels"] + 99})
    shorter = {"theta": arrays["theta"][:-1]} if kind == "exact" else {"dim": arrays["dim"] + 1}
    with pytest.raises(StorageError, match="expected"):
        type(model).from_state(header, {**arrays, **shorter})


def test_a_file_holds_the_weights_that_are_not_zero(data: Any, searching: SearchLabeler, tmp_path: Any) -> None:
    """Of the 2^20 hashed weights of histories, which would be 8 MB, a search has touched a few thousand."""
    searching.save(tmp_path / "model.pw")
    assert len(searching.theta_) > 1 << 20 and (tmp_path / "model.pw").stat().st_size < 3_000_000
    loaded = partwise.load_model(tmp_path / "model.pw")
    np.testing.assert_array_equal(loaded.theta_, searching.theta_)
    layout, same = searching.encoder_.token_layout, loaded.encoder_.token_layout
    np.testing.assert_array_equal(same.pair_start, layout.pair_start)
    assert same.pair_start.dtype == layout.pair_start.dtype
    header, arrays = searching.to_state()
    places = arrays["places"]
    for name, value, words in [
        ("places", places[::-1].copy(), "do not rise from 0 to at most"),
        ("places", np.append(places[:-1], arrays["dim"][0]).astype(np.int32), "do not rise from 0 to at most"),
        ("places", places[1:], "not one place for each weight"),
        ("dim", np.array([-1]), "not one whole number"),
        ("weights", arrays["weights"] * np.nan, "not a vector of finite float64 numbers"),
        ("layout0/pair_count", arrays["layout0/pair_count"][1:], "layout of the weights is inconsistent"),
    ]:
        with pytest.raises(StorageError, match=words):
            SearchLabeler.from_state(header, {**arrays, name: value})


def test_checkpoints_and_other_schemes(data: Any, tmp_path: Any) -> None:
    few = data.subset(slice(0, 30))
    tags = partwise.sequences.tags.convert_all(few.column("chunk"), "IOB2", "IOBES")
    settings: dict[str, Any] = {"templates": TEMPLATES, "scheme": "IOBES", "beam": 2}
    whole = SearchLabeler(**settings, max_passes=3).fit(few, tags)
    SearchLabeler(**settings, max_passes=1).fit(few, tags)
    assert {tag[:2] for row in whole.predict(few) for tag in row} <= {"B-", "I-", "E-", "S-", "O"}
    stopped = SearchLabeler(**settings, max_passes=3)
    stopped.fit(few, tags, callbacks=[lambda record, theta: record.step == 1], checkpoint=tmp_path / "run")
    assert stopped.result_.status == "stopped"
    stopped.fit(few, tags, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(stopped.theta_, whole.theta_)


def test_mistakes(data: Any, exact: SegmentLabeler) -> None:
    few = data.subset(slice(0, 5))
    too_long = sum(tag.startswith("B-") and after.startswith("I-") for row in few.column("chunk")
                   for tag, after in pairwise(row))  # fmt: skip
    with pytest.raises(InputError, match=f"{too_long} .*segments are longer than max_length allows; needed: "):
        SearchLabeler(TEMPLATES, max_length=1).fit(few, few.column("chunk"))
    with pytest.raises(InputError, match="segments are longer than max_length allows; needed: "):
        SegmentLabeler(TEMPLATES, max_length=1).fit(few, few.column("chunk"))
    for settings, words in [
        ({"max_length": 0}, "'max_length' parameter of SearchLabeler must be at least 1"),
        ({"beam": 0}, "'beam' parameter of LaSO must be at least 1"),
        ({"rivals": "some"}, "'rivals' parameter of LaSO must be one of 'all', 'ahead'"),
        ({"history_bits": 40}, "'history_bits' parameter of SearchLabeler must be from 4 to 26"),
        ({"segments": "pos[0]"}, "a list of templates"),
    ]:
        with pytest.raises(ParameterError, match=words):
            SearchLabeler(TEMPLATES, **settings).fit(few, few.column("chunk"))
    with pytest.raises(InputError, match="X has 5 sequences but y has 4"):
        SegmentLabeler(TEMPLATES).fit(few, few.column("chunk")[:4])
    with pytest.raises(InputError, match="must give one attribute per token"):
        SegmentLabeler(TEMPLATES, segments=["word[-1..1]"]).fit(few, few.column("chunk"))
