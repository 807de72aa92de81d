"""Features of segments: the map and its adjoint, whole-segment keys, and the packed search against plain Python."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from partwise.features.base import norm_and_clear
from partwise.learners.laso._beam import decode
from partwise.learners.laso.learner import LaSO, PackedSearch
from partwise.learners.laso.packed import action_features, cache_size, expand, most_actions, prepare
from partwise.learners.laso.plain import PlainSearch
from partwise.learners.laso.queues import Beam
from partwise.learners.laso.spaces import SearchProblem
from partwise.sequences.sample import load_sample
from partwise.sequences.segmentation._chunk_kernels import best_segments, chunk_search
from partwise.sequences.segmentation._history import History
from partwise.sequences.segmentation.encoding import SegmentEncoder, gold_segments, segment_tags
from partwise.structures.segments import Segments

#: No weights of histories.
NONE = History(np.zeros((0, 0), np.int32), 0, -1)


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    train = load_sample("english", split="train").subset(slice(0, 25))
    tags = train.coded("chunk")
    gold, labels = gold_segments(tags, "IOB2")
    encoder = SegmentEncoder("word[-1..1]\npos[0]").fit(train, gold, labels, gold.limits(len(labels)))
    space, features = encoder.transform(train)
    return {"train": train, "gold": gold, "labels": labels, "space": space, "features": features, "encoder": encoder}


def test_tags_come_back(sample: dict[str, Any]) -> None:
    gold, train = sample["gold"], sample["train"]
    tags = segment_tags(gold.segments, gold.first, sample["labels"], train.offsets)
    assert tags.to_lists() == train.column("chunk")
    for y, i in zip(gold.outputs(), range(3), strict=False):
        np.testing.assert_array_equal(sample["space"].decode(i, sample["space"].encode(i, y)), y)


def test_accumulate_is_the_transpose_of_scores(sample: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    features, space = sample["features"], sample["space"]
    for i in (0, 7):
        theta, parts = rng.normal(size=features.dim), rng.normal(size=space.n_parts(i))
        live = features.live.astype(float)
        back = np.zeros(features.dim)
        features.accumulate(i, parts, 1.0, back)
        np.testing.assert_allclose(features.scores(i, theta * live) @ parts, theta @ (back * live), rtol=1e-10)
        np.testing.assert_array_equal(back * live, back)  # weights that do not exist stay 0
        scratch = back.copy()
        np.testing.assert_allclose(norm_and_clear(features.pack, i, parts, 0, scratch), back @ back, rtol=1e-10)
        assert not scratch.any()


def test_scores_by_hand(sample: dict[str, Any]) -> None:
    """s(t, u, b) = first + rests + last + length + whole, each read off the packed rows on its own."""
    pack, space = sample["features"].pack, sample["space"]
    theta = np.random.default_rng(1).normal(size=sample["features"].dim)
    theta *= sample["features"].live
    i, n = 3, len(sample["labels"])
    scores, table = sample["features"].scores(i, theta), space.atoms(i)

    def row(rows: Any, r: int, output: int) -> float:
        dense = range(rows.indptr[r], rows.indptr[r + 1])
        total = sum(theta[rows.base + rows.attributes[e] * rows.n_outputs + output] for e in dense)
        pairs = range(rows.pair_indptr[r], rows.pair_indptr[r + 1])
        return total + sum(theta[rows.weights[e]] for e in pairs if rows.outputs[e] == output)

    at = pack.tokens.offsets[i]
    entries = slice(pack.starts[i], pack.starts[i + 1])
    for r in range(0, space.n_atoms(i), 17):
        t, u, b = int(table.start[r]), int(table.stop[r]), int(table.label[r])
        expected = row(pack.tokens, at + t, b) + row(pack.lasts, at + u - 1, b)
        expected += sum(row(pack.tokens, at + j, n + b) for j in range(t + 1, u))
        expected += theta[pack.base + space.pack.within[-1, b] + u - t - 1]
        expected += sum(theta[w] for a, w in zip(pack.atoms[entries], pack.weights[entries], strict=True) if a == r)
        np.testing.assert_allclose(scores[r], expected, rtol=1e-10)


def test_whole_segments_of_training_have_their_weights(sample: dict[str, Any]) -> None:
    """Every gold segment has its twelve keys (three bases, four kinds), and more than one segment shares some."""
    pack, space = sample["features"].pack, sample["space"]
    for i, y in enumerate(sample["gold"].outputs()[:5]):
        numbers = np.flatnonzero(space.encode(i, y)[: space.n_atoms(i)])
        here = pack.atoms[pack.starts[i] : pack.starts[i + 1]]
        assert all((here == number).sum() == 12 for number in numbers)
    used = np.bincount(pack.weights - sample["features"].first_whole)
    assert (used > 0).all()
    assert used.max() > 1


def test_an_unlimited_beam_is_viterbi(sample: dict[str, Any]) -> None:
    train = sample["train"].subset(slice(0, 12))
    short = [i for i in range(len(train)) if np.diff(train.offsets)[i] <= 7][:4] or [0]
    few = train.subset(short)
    encoder = sample["encoder"]
    limits, encoder.limits = encoder.limits, np.minimum(encoder.limits, 2)
    try:
        full_space, features = encoder.transform(few)
    finally:
        encoder.limits = limits
    theta = np.random.default_rng(2).normal(size=features.dim)
    labels = np.empty(int(few.offsets[-1]), np.int64)
    best_segments(chunk_search(features.pack, None, np.zeros((0, 3), np.int64), NONE), theta, 1 << 40, 0, len(few),
                  few.offsets, labels)  # fmt: skip
    for i in range(len(few)):
        exact = full_space.decode(i, full_space.argmax(i, features.scores(i, theta)))
        here = labels[few.offsets[i] : few.offsets[i + 1]]
        np.testing.assert_array_equal(np.flatnonzero(here >= 0), exact[:, 0])
        np.testing.assert_array_equal(here[here >= 0], exact[:, 2])


class Chunks(SearchProblem):
    """The packed problem once more, in plain Python: features by their number in θ."""

    def __init__(self, space: Segments, features: Any) -> None:
        self.space, self.names = space, []
        for i in range(len(space)):
            columns = []
            for r in range(space.n_parts(i)):
                parts, weights = np.zeros(space.n_parts(i)), np.zeros(features.dim)
                parts[r] = 1.0
                features.accumulate(i, parts, 1.0, weights)
                columns.append({str(j): float(weights[j]) for j in np.flatnonzero(weights)})
            self.names.append(columns)

    def initial(self, x: int) -> Any:
        return ()

    def operators(self, x: int, state: Any) -> Any:
        table, stop = self.space.atoms(x), state[-1][1] if state else 0
        here = np.flatnonzero(table.start == stop)
        return [(*state, (int(table.start[r]), int(table.stop[r]), int(table.label[r]))) for r in here]

    def progress(self, x: int, state: Any) -> float:
        return float(state[-1][1]) if state else 0.0

    def goal(self, x: int, state: Any) -> bool:
        return bool(state) and state[-1][1] == self.space.lengths[x]

    def good(self, x: int, y: Any, state: Any) -> bool:
        return bool(y[: len(state)] == state)

    def features(self, x: int, state: Any) -> Any:
        segments = np.array(state[-2:])
        found: dict[str, float] = {}
        table = self.space.atoms(x)
        start, stop, label = segments[-1]
        atom = np.flatnonzero((table.start == start) & (table.stop == stop) & (table.label == label))[0]
        numbers = [int(atom)]
        for (_, _, a), (_, _, b) in pairwise(segments.tolist()):
            numbers.append(self.space.n_atoms(x) + a * self.space.n_labels + b)
        for number in numbers:
            for name, value in self.names[x][number].items():
                found[name] = found.get(name, 0.0) + value
        return found


@pytest.mark.parametrize(
    ("update", "mode", "beam", "rivals"),
    [("perceptron", "laso", 3, "all"), ("alma", "laso", 2, "all"), ("alma", "laso", 1, "all"),
     ("perceptron", "early", 3, "all"), ("perceptron", "standard", 2, "all"), ("alma", "max_violation", 3, "all"),
     ("alma", "laso", 6, "ahead")],
)  # fmt: skip
def test_the_packed_search_learns_what_plain_python_learns(
    sample: dict[str, Any], update: str, mode: str, beam: int, rivals: str
) -> None:
    """Figure 2 twice: weights after three passes agree, feature by feature."""
    short = np.argsort(np.diff(sample["train"].offsets), kind="stable")[:4]
    few = sample["train"].subset(short)
    gold, labels = gold_segments(few.coded("chunk"), "IOB2")
    encoder = SegmentEncoder("word[0]", bases=("pos[0]",)).fit(few, gold, labels, gold.limits(len(labels)))
    space, features = encoder.transform(few)
    learner = LaSO(update=update, mode=mode, beam=beam, rivals=rivals, max_passes=3)
    search = chunk_search(features.pack, gold.first, gold.segments, NONE)
    packed = learner.fit(PackedSearch(search, features.dim, len(space)))
    outputs = [tuple(map(tuple, y.tolist())) for y in gold.outputs()]
    plain = PlainSearch(Chunks(space, features), list(range(len(space))), outputs, Beam(beam))
    slow = learner.fit(plain)
    assert [r.extra["updates"] for r in packed.trace] == [r.extra["updates"] for r in slow.trace]
    assert packed.trace[0].extra["updates"] > 0
    numbers = np.array([int(name) for name in plain.names])
    expected = np.zeros(features.dim)
    expected[numbers] = slow.theta
    np.testing.assert_allclose(packed.theta, expected, rtol=1e-9, atol=1e-10)


def test_histories_are_scored_as_they_are_learnt(sample: dict[str, Any]) -> None:
    """The score that the search gives an output is wᵀΦ of its actions, and two labels back change what comes next."""
    few = sample["train"].subset(slice(0, 4))
    gold, labels = gold_segments(few.coded("chunk"), "IOB2")
    encoder = SegmentEncoder("word[0]", bases=("pos[0]", "lower(word)[0]")).fit(
        few, gold, labels, gold.limits(len(labels))
    )
    _, features = encoder.transform(few)
    search = chunk_search(features.pack, gold.first, gold.segments, History(features.codes, features.dim, 255))
    theta = np.random.default_rng(4).normal(size=features.dim + 256)
    for rows in (features.pack.tokens, features.pack.lasts):  # weights that do not exist are 0
        theta[rows.base : rows.base + len(rows.mask)] *= rows.mask
    for i in range(len(few)):
        arena, queue = decode(search, i, theta, 5)
        node = int(queue[0])
        value, total = float(arena.score[node]), 0.0
        while arena.parent[node] >= 0:
            before = int(arena.parent[node])
            delta, touched = np.zeros(len(theta)), np.zeros(search.most, np.int64)
            n = action_features(search, i, arena.state[before], int(arena.action[node]), 1.0, delta, touched, 0)
            assert n <= search.most
            total += float(theta @ delta)
            node = before
        np.testing.assert_allclose(total, value, rtol=1e-9)
    cache = np.full(cache_size(search, 0), np.nan)
    prepare(search, 0, theta, cache)
    gains = np.empty((2, most_actions(search)))
    actions, bars = np.empty(most_actions(search), np.int64), np.full(int(few.offsets[1]) + 1, -np.inf)
    for row, label in zip(gains, (0, 1), strict=True):
        state = np.array([2, 1, 2, label], np.int32)
        n = expand(search, 0, theta, cache, state, 0.0, bars, actions, row)
    assert n > 1 and not np.allclose(gains[0, :n], gains[1, :n])
