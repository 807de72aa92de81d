"""Learners of single instances on shards: dual rounds with the gap of the whole problem, and parameter mixing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partwise
from partwise.cluster.local import LocalRunner
from partwise.cluster.shards import ShardedObjective, group_borders
from partwise.data import Columns, load_sample
from partwise.exceptions import ParameterError
from partwise.learners import find_learner
from partwise.losses import Loss
from partwise.sequences.encoders import make_encoder
from partwise.sequences.labels import encode_labels, find_classes
from partwise.sequences.shards import HeldShard, cut_rows

LINES = ["word[-1..1]", "suffix(word,1..2)[0]", "pos[0]"]


@pytest.fixture(scope="module")
def data() -> Columns:
    return load_sample(split="train").without("ner")


def problems(data: Columns, learner: Any, loss: str, n: int) -> tuple[Any, list[HeldShard]]:
    """The whole problem, and its shards."""
    seen, labels = data.without("chunk"), data.coded("chunk")
    model = partwise.SequenceLabeler(LINES)
    model.encoder_, model.classes_ = make_encoder(seen, LINES, None, 1, None), find_classes(labels)
    rows = model.encoder_.fit_transform(seen)
    gold = encode_labels(labels, model.classes_, rows.offsets)
    model.layout_ = rows.layout(gold.codes, len(model.classes_), False)
    point = Loss.named(loss)
    shards = [HeldShard(model._problem(*part, point, learner, None), 1) for part in cut_rows(rows, gold, n)]
    return model._problem(rows, gold, point, learner, None), shards


def on_shards(shards: list[HeldShard], loss: str, groups: int) -> ShardedObjective:
    return ShardedObjective(LocalRunner(shards, n_groups=groups), Loss.named(loss))


@pytest.mark.parametrize(("name", "loss", "C"), [("frank_wolfe", "svm", 0.01), ("sdca", "crf", 0.1)])
def test_dual_rounds_reach_the_gap(data: Columns, name: str, loss: str, C: float) -> None:
    learner = find_learner(name)(C=C, max_passes=100, tolerance=1e-3)
    whole, shards = problems(data, learner, loss, 8)
    alone = learner.fit(whole)
    for groups in (1, 4):
        objective = on_shards(shards, loss, groups)
        result = objective.learner_for(learner).fit(objective)
        assert result.status == "converged" and result.certificate is not None
        assert result.certificate.gap <= 1e-3 * result.certificate.primal
        # the certificate is that of the whole problem, by its own evaluation
        primal = (0.5 * result.theta @ result.theta / C + whole.losses(result.theta).sum()) / whole.m
        assert result.certificate.primal == pytest.approx(primal, rel=1e-12)
        assert alone.certificate is not None
        assert result.certificate.dual <= alone.certificate.primal and alone.certificate.dual <= primal
        assert len(result.trace) <= 1.5 * len(alone.trace) + 1


def test_sigma_is_safe_where_groups_agree(data: Columns) -> None:
    """Four copies of one shard make the same change: added up with σ′ = 1 they would go four times too far."""
    learner = find_learner("sdca")(C=0.1, max_passes=60, tolerance=1e-3)
    _, shards = problems(data.subset(range(60)), learner, "crf", 1)
    objective = on_shards(shards * 4, "crf", 4)
    result = objective.learner_for(learner).fit(objective)
    assert result.status == "converged"


def test_a_single_group_is_the_learner_itself(data: Columns) -> None:
    for name, loss in (("perceptron", "perceptron"), ("dca", "svm"), ("sgd", "crf")):
        options = {"eta": 0.1} if name == "sgd" else {}
        learner = find_learner(name)(C=0.5, max_passes=3, shuffle=False, **options)
        whole, shards = problems(data, learner, loss, 1)
        objective = on_shards(shards, loss, 1)
        mixed = objective.learner_for(learner).fit(objective)
        np.testing.assert_allclose(mixed.theta, learner.fit(whole).theta, rtol=0, atol=1e-10)


def test_mixing_learns(data: Columns) -> None:
    for name, loss, options in (
        ("perceptron", "perceptron", {}),
        ("dca", "svm", {"C": 0.1}),
        ("sgd", "crf", {"C": 1.0, "candidates": (0.1, 1.0)}),
    ):
        learner = find_learner(name)(max_passes=8, **options)
        whole, shards = problems(data, learner, loss, 6)
        objective = on_shards(shards, loss, 3)
        found, alone = objective.learner_for(learner).fit(objective), learner.fit(whole)
        again = objective.learner_for(learner).fit(objective)
        np.testing.assert_array_equal(found.theta, again.theta)
        gold = [
            whole.space.decode(i, parts)
            for i, parts in enumerate(np.split(whole.gold_parts(), whole.part_offsets[1:-1]))
        ]
        right = [
            np.mean(np.concatenate([a == b for a, b in zip(whole.predict(theta), gold, strict=True)]))
            for theta in (found.theta, alone.theta)
        ]
        assert right[0] > 0.97 * right[1], (name, right)


@pytest.mark.parametrize(
    ("name", "loss", "options"),
    [
        ("eg", "svm", {"max_passes": 60}),
        ("eg", "crf", {"max_passes": 60, "head_start": 2.0}),
        ("eg", "crf", {"max_passes": 4, "eta": "smooth"}),
    ],
)
def test_exponentiated_gradient_on_shards(data: Columns, name: str, loss: str, options: dict[str, Any]) -> None:
    """The very steps of one process, up to the rounding of sums; the certificate is that of the whole problem."""
    learner = find_learner(name)(C=0.05, **options)
    whole, shards = problems(data.subset(range(60)), learner, loss, 5)
    objective = on_shards(shards, loss, 1)
    alone, found = learner.fit(whole), objective.learner_for(learner).fit(objective)
    assert len(found.trace) == len(alone.trace)
    np.testing.assert_allclose(found.theta, alone.theta, rtol=0, atol=1e-9)
    assert found.certificate is not None and alone.certificate is not None
    assert found.certificate.dual == pytest.approx(alone.certificate.dual, rel=1e-9)


def test_subgradient_steps_on_shards(data: Columns) -> None:
    """η_t = 1/(λt) on the whole sum: the objective of the average falls towards the optimum, and stays above it."""
    part, C = data.subset(range(60)), 0.01
    exact = find_learner("frank_wolfe")(C=C, max_passes=200, tolerance=1e-4)
    whole, shards = problems(part, exact, "svm", 4)
    best = exact.fit(whole).certificate
    assert best is not None
    objective = on_shards(shards, "svm", 1)
    result = objective.learner_for(find_learner("subgradient")(C=C, max_passes=150)).fit(objective)
    reached = [record.objective for record in result.trace]
    assert best.dual <= min(reached) <= 1.05 * best.primal
    # the first two steps by hand
    one = -C * whole.loss_and_gradient(np.zeros(whole.dim))[1]
    two = 0.5 * one - 0.5 * C * whole.loss_and_gradient(one)[1]
    twice = objective.learner_for(find_learner("subgradient")(C=C, max_passes=2)).fit(objective)
    np.testing.assert_allclose(twice.trace[1].objective, _objective(whole, (one + 2 * two) / 3, C), rtol=1e-12)
    # within a ball
    radius = float(np.linalg.norm(exact.fit(whole).theta))
    inside = objective.learner_for(find_learner("subgradient")(radius=radius, max_passes=150)).fit(objective)
    assert np.linalg.norm(inside.theta) <= radius * (1 + 1e-12)
    optimum = whole.losses(exact.fit(whole).theta).sum() / whole.m
    assert min(record.objective for record in inside.trace) <= 1.1 * optimum


def _objective(problem: Any, theta: Any, C: float) -> float:
    return float(0.5 * theta @ theta / C + problem.losses(theta).sum()) / problem.m


def test_settings_without_a_form_on_shards(data: Columns) -> None:
    learner = find_learner("frank_wolfe")(cuts=0)
    _, shards = problems(data.subset(range(20)), learner, "svm", 2)
    objective = on_shards(shards, "svm", 2)
    with pytest.raises(ParameterError, match="average"):
        objective.learner_for(learner)
    with pytest.raises(ParameterError, match="sampling"):
        objective.learner_for(find_learner("frank_wolfe")(sampling="gap"))
    with pytest.raises(ParameterError, match="'form' parameter of EG must be 'primal' on shards"):
        objective.learner_for(find_learner("eg")(form="dual"))
    assert group_borders(5, 2) == [0, 2, 5] and group_borders(2, 9) == [0, 1, 2]


def test_online_learners_from_a_pack(data: Columns, tmp_path: Path) -> None:
    pack = partwise.pack(
        data.without("chunk"), tmp_path / "a.pack", data.coded("chunk"), templates=LINES, shard_tokens=900
    )
    assert len(pack.shards) > 3
    model = partwise.SequenceLabeler(learner="dca", loss="svm", C=0.1, max_passes=5).fit(pack)
    assert model.score(data.without("chunk"), data.coded("chunk")) > 0.9
