"""Bounds on corrections, Theorems 1 and 4 and Corollary 5: on a small separable problem, from the corrections made."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from partwise.exceptions import InputError
from partwise.learners.laso.bounds import (
    RecordedSearch,
    corollary_2,
    corollary_5,
    projected,
    theorem_1,
    theorem_4,
    widest_margin,
)
from partwise.learners.laso.learner import LaSO, PackedSearch
from partwise.sequences.sample import load_sample
from partwise.sequences.segmentation._chunk_kernels import chunk_search
from partwise.sequences.segmentation._history import History
from partwise.sequences.segmentation.encoding import SegmentEncoder, gold_segments

ALPHA = 0.9
THEOREM_4 = {"update": "alma", "margin_scale": math.sqrt(8.0) / ALPHA, "step_scale": math.sqrt(2.0)}
SLOPE = (1.0 - ALPHA) / ALPHA
COROLLARY_5 = {"update": "alma", "margin_scale": 1.0 / ALPHA, "step_scale": math.sqrt(SLOPE**2 + 1.0) - SLOPE}


@pytest.fixture(scope="module")
def problem() -> PackedSearch:
    train = load_sample("english", split="train").subset(slice(0, 25))
    gold, labels = gold_segments(train.coded("chunk"), "IOB2")
    encoder = SegmentEncoder("word[-1..1]\npos[0]").fit(train, gold, labels, gold.limits(len(labels)))
    space, features = encoder.transform(train)
    none = History(np.zeros((0, 0), np.int32), 0, -1)
    return PackedSearch(chunk_search(features.pack, gold.first, gold.segments, none), features.dim, len(space))


def trained(problem: PackedSearch, **settings: Any) -> tuple[Any, csr_matrix]:
    data = RecordedSearch(problem)
    settings = {"beam": 5, "alpha": ALPHA, "rivals": "ahead", "average": False, "max_passes": 60, **settings}
    return LaSO(**settings).fit(data), data.corrections


def replay(rows: csr_matrix, settings: dict[str, Any]) -> tuple[Any, Any]:
    """(the weights that the corrections make, wᵀx at each of them), eqs. (2) and (3) in plain numpy."""
    alma, w, products = settings["update"] == "alma", np.zeros(rows.shape[1]), []
    for k, x in enumerate(rows.toarray(), start=1):
        products.append(w @ x)
        w = w + (settings["step_scale"] / math.sqrt(k) if alma else 1.0) * x
        if alma:
            w = w / max(1.0, np.linalg.norm(w))
    return w, np.array(products)


@pytest.mark.parametrize("settings", [THEOREM_4, {"update": "perceptron"}])
def test_corrections_stay_below_the_bound(problem: PackedSearch, settings: dict[str, Any]) -> None:
    result, rows = trained(problem, **settings)
    assert result.status == "converged"
    corrections = result.trace[-1].extra["corrections"]
    assert rows.shape[0] == corrections > 20
    alma = settings["update"] == "alma"
    if alma:
        rows = projected(rows)
    weights, products = replay(rows, settings)
    np.testing.assert_allclose(weights, result.theta, atol=1e-9)  # these are all corrections, as they were made

    # what the proofs need of a correction: the weights of that time want it
    k = np.arange(1.0, len(products) + 1.0)
    wanted = (1.0 - ALPHA) * settings["margin_scale"] / np.sqrt(k) if alma else np.zeros(len(k))
    assert (products <= wanted + 1e-9).all()

    widest = widest_margin(rows)
    assert 0.0 < widest.margin <= widest.limit <= widest.margin / 0.98
    np.testing.assert_allclose(np.linalg.norm(widest.direction), 1.0)
    np.testing.assert_allclose((rows @ widest.direction).min(), widest.margin)
    radius = math.sqrt(float(rows.multiply(rows).sum(axis=1).max()))
    for margin in (widest.margin, float((rows @ result.theta).min() / np.linalg.norm(result.theta))):
        assert 0.0 < margin <= widest.limit
        assert corrections <= (theorem_4(margin, ALPHA) if alma else theorem_1(radius, margin))


def test_all_nodes_of_the_queue_may_not_be_what_the_proof_needs(problem: PackedSearch) -> None:
    """At a wrong goal, most of a large beam is behind the right one already: wᵀx is above (1 − α)B k^{−1/2}."""
    _, rows = trained(problem, **THEOREM_4, rivals="all", beam=25)
    rows = projected(rows)
    _, products = replay(rows, THEOREM_4)
    wanted = (1.0 - ALPHA) * THEOREM_4["margin_scale"] / np.sqrt(np.arange(1.0, len(products) + 1.0))
    assert (products > wanted + 1e-6).any()


def test_corollary_5_needs_no_separation(problem: PackedSearch) -> None:
    """After one pass, with a u that has some corrections wrong: a random vector that leans towards the weights."""
    result, rows = trained(problem, **COROLLARY_5, max_passes=1)
    rows, corrections = projected(rows), result.trace[-1].extra["corrections"]
    noise = np.random.default_rng(0).normal(size=len(result.theta))
    u = result.theta / np.linalg.norm(result.theta) + 3.0 * noise / np.linalg.norm(noise)
    scores = rows @ (u / np.linalg.norm(u))
    assert scores.min() < 0.0  # Theorem 4 says nothing
    bounds = [
        corollary_5(margin, float(np.maximum(0.0, margin - scores).sum()), COROLLARY_5["step_scale"])
        for margin in (0.03, 0.1, 0.3, 1.0)
    ]
    assert corrections <= min(bounds) < 100.0 * corrections


def test_no_margin_no_bound() -> None:
    rows = csr_matrix([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    found = widest_margin(rows, max_passes=50)
    assert found.margin <= 0.0 and found.limit < 0.02
    assert theorem_1(1.0, found.margin) == theorem_4(found.margin, ALPHA) == math.inf
    assert corollary_5(0.0, 1.0, 1.0) == math.inf and corollary_2(1.0, 0.5, 2.0) == 36.0
    with pytest.raises(InputError, match="no rows to separate"):
        widest_margin(csr_matrix((0, 3)))


def test_a_log_without_room(problem: PackedSearch) -> None:
    with pytest.raises(InputError, match="have over 3 numbers; raise 'entries'"):
        LaSO(max_passes=1).fit(RecordedSearch(problem, entries=3))
