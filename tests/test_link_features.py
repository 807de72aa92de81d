"""Features of links, words and pairs of links: against plain loops, their signs, and messages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.alignment.bitext import Bitext
from partwise.alignment.feature_map import FeatureMap
from partwise.alignment.gold import gold_links
from partwise.alignment.gold_lexicon import GoldLexicon
from partwise.alignment.known_words import KnownWords
from partwise.alignment.link_features import LinkFeatures, source_values, value_columns
from partwise.alignment.link_files import GoldLinks
from partwise.alignment.links import Edges, check_pairs
from partwise.alignment.orthography import ORTHOGRAPHY, first_alike, orthographic_features
from partwise.alignment.word_counts import WordCounts
from partwise.alignment.word_features import PATTERNS, fertility_features, pair_features
from partwise.batch import Batch
from partwise.exceptions import InputError, ParameterError
from partwise.structures.assignment import PAIRS

PAIRS_OF_WORDS = [
    (["the", "white", "house"], ["la", "maison", "blanche"]),
    (["yes"], ["oui", ",", "oui"]),
    (["12", "of", "them"], ["12", "d'", "eux", "!"]),
]
COUNTS = ({"the": 9, "of": 3, "house": 2, "yes": 1}, {"la": 8, "oui": 4, "maison": 2})


def drawn(seed: int, edges: Edges) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {f"hmm {side}": rng.random(len(edges)) for side in ("forward", "backward")}


def known(edges: Edges, counts: Any = COUNTS, **settings: Any) -> KnownWords:
    return KnownWords.of((edges.source_words, edges.target_words), counts, **settings)


def everywhere(edges: Edges) -> list[tuple[int, int, int, int]]:
    """(number, pair, j, k) of every edge."""
    return [(e, int(edges.pair[e]), int(edges.j[e]), int(edges.k[e])) for e in range(len(edges))]


def test_edges_are_in_order() -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    e = 0
    for i, (source, target) in enumerate(PAIRS_OF_WORDS):
        for j, word in enumerate(source):
            for k, other in enumerate(target):
                assert (edges.pair[e], edges.j[e], edges.k[e]) == (i, j, k)
                assert edges.source_words[edges.source[e]] == word and edges.target_words[edges.target[e]] == other
                e += 1
    assert len(edges) == e


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
def test_columns_of_a_value_compare_it_with_its_row_column_and_neighbours(
    seed: int, sizes: list[tuple[int, int]]
) -> None:
    edges = Edges.of([(["a"] * n_rows, ["b"] * n_cols) for n_rows, n_cols in sizes])
    values = np.random.default_rng(seed).choice([0.0, 0.25, 0.5, 1.0], len(edges))
    out = np.full((len(edges), 12), np.nan)
    value_columns(values, edges.offsets, edges.lengths, np.array([0.3, 0.7]), True, out, 1)
    place = {(i, j, k): values[e] for e, i, j, k in everywhere(edges)}
    for e, i, j, k in everywhere(edges):
        row = [v for (p, r, c), v in place.items() if (p, r) == (i, j) and c != k]
        column = [v for (p, r, c), v in place.items() if (p, c) == (i, k) and r != j]
        v = values[e]
        expected = [v, v - max(row, default=0.0), v - max(column, default=0.0)]
        expected += [place.get((i, j - 1, k - 1), 0.0), place.get((i, j + 1, k + 1), 0.0), v > 0.3, v > 0.7]
        expected += [place.get((i, j + a, k + b), 0.0) for a, b in ((-1, 0), (1, 0), (0, -1), (0, 1))]
        assert out[e, 1:].tolist() == expected and np.isnan(out[e, 0])


def test_link_features_say_what_they_are_called() -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    values = drawn(0, edges)
    values["hmm both"] = values["hmm forward"] * values["hmm backward"]
    features = LinkFeatures(edges, values, known(edges, frequent=2))
    names, x = features.names, features.rows()
    theta = np.random.default_rng(1).normal(size=len(names))
    np.testing.assert_allclose(features.scores(theta), x @ theta)
    assert len(names) == len(set(names)) == x.shape[1] and np.isfinite(x).all()
    column = {name: x[:, c] for c, name in enumerate(names)}
    np.testing.assert_array_equal(column["link"], 1.0)
    v = values["hmm forward"]
    np.testing.assert_array_equal(column["hmm forward > 0.3"], v > 0.3)
    for e, i, j, k in everywhere(edges):
        row = [v[f] for f, *place in everywhere(edges) if place[0] == i and place[1] == j and f != e]
        assert column["hmm forward above the rest of its row"][e] == v[e] - max(row, default=0.0)
        source, target = PAIRS_OF_WORDS[i][0][j], PAIRS_OF_WORDS[i][1][k]
        assert column["the – la"][e] == (source == "the" and target == "la")
        assert column["one frequent, the other not"][e] == ((source in ("the", "of")) != (target in ("la", "oui")))
        apart = abs((j + 0.5) / len(PAIRS_OF_WORDS[i][0]) - (k + 0.5) / len(PAIRS_OF_WORDS[i][1]))
        assert column["distance of relative places"][e] == pytest.approx(apart)
        assert column["same word"][e] == (source == target)


def test_frequencies_are_counted_once() -> None:
    plain, cached = (COUNTS, (WordCounts(COUNTS[0]), WordCounts(COUNTS[1])))
    edges = Edges.of(PAIRS_OF_WORDS)
    first, second = (LinkFeatures(edges, {}, known(edges, counts)) for counts in (plain, cached))
    assert first.names == second.names
    np.testing.assert_array_equal(first.rows(), second.rows())
    assert WordCounts.of(cached[0]) is cached[0] and dict(cached[0]) == COUNTS[0] and len(cached[0]) == 4


@pytest.mark.parametrize("model", ["L", "M+F", "M+F+Q"])
def test_features_of_a_block_are_those_of_its_pairs_alone(model: str) -> None:
    """Words are looked up once for a whole text, of which blocks are read; sources of pairs see the pairs alone."""

    def source(pairs: Any) -> dict[str, Any]:
        drawn = np.random.default_rng(len(pairs)).random
        return {f"x {side}": [drawn((len(a), len(b))) for a, b in pairs] for side in ("forward", "backward")}

    counted = GoldLexicon.of(PAIRS_OF_WORDS, [GoldLinks.of([(0, 0), (1, 2)]), GoldLinks.of([]), GoldLinks.of([])])
    text = [*PAIRS_OF_WORDS, (["The", "Québec"], ["quebec", "LA", "la"]), PAIRS_OF_WORDS[0]]
    maker = FeatureMap(model, (source,), COUNTS, (["the", "la"], ["oui"]), 4, gold=counted)
    for start, stop in ((0, 5), (1, 3), (3, 5), (2, 2)):
        for form in (text, Bitext.from_pairs(text)):
            block, alone = maker.reader(form)(start, stop), maker(text[start:stop])
            theta = np.random.default_rng(0).normal(size=alone.features.dim)
            assert block.names == alone.names
            found = maker.reader(form).scores(start, stop, theta)
            batch = Batch(found.space)
            for i in range(stop - start):
                np.testing.assert_array_equal(block.features.scores(i, theta), alone.features.scores(i, theta))
                np.testing.assert_allclose(batch.of(i, found.scores), alone.features.scores(i, theta), atol=1e-12)


def test_no_pairs_make_no_rows() -> None:
    features = LinkFeatures(Edges.of([]), {}, known(Edges.of([])))
    assert features.rows().shape == (0, len(features.names))
    assert features.scores(np.ones(len(features.names))).shape == (0,)


def test_orthography() -> None:
    source, target = ["Québec", "12", "nation", "!", ""], ["Quebec", "13", "national", ".", ""]
    a, b = (index.ravel() for index in np.meshgrid(range(5), range(5), indexing="ij"))
    table = orthographic_features(source, target, a, b).reshape(5, 5, -1)
    found = {name: table[..., c] for c, name in enumerate(ORTHOGRAPHY)}
    assert found["same word"].sum() == 0 and found["same letters without accents"][0, 0] == 1
    assert found["both are numbers but not the same"].sum() == found["both are numbers but not the same"][1, 1] == 1
    assert found["common prefix / longer word"][2, 2] == 6 / 8
    assert found["longest common subsequence / longer word"][0, 2] == 0.0  # q u e b e c, n a t i o n a l
    assert found["longest common subsequence / longer word"][2, 0] == 0.0
    assert found["one is punctuation, the other not"][3].tolist() == [1, 1, 1, 0, 0]
    assert found["both are punctuation but not the same"][3, 3] == 1
    np.testing.assert_array_equal(found["one has a digit, the other not"][1], [1, 0, 1, 1, 1])


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=60))
def test_words_met_before_are_found(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, np.int64).reshape(-1, 2).T
    first, number = np.empty((2, len(pairs)), np.int64)
    n = first_alike(np.ascontiguousarray(a), np.ascontiguousarray(b), first, number)
    assert n == len(set(pairs)) and first[number].tolist() == [pairs.index(pair) for pair in pairs]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_fertility_features_are_penalties_that_do_not_fall(seed: int, max_fertility: int) -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    values = drawn(seed, edges)
    lexicon = (["the", "of"], ["oui"])
    names, offsets, rows = fertility_features(edges, values, known(edges, fertile=lexicon), max_fertility)
    levels = max_fertility - 1
    assert rows.shape == (offsets[-1], len(names)) and len(set(names)) == len(names)
    np.testing.assert_array_equal(np.diff(offsets), edges.lengths.sum(axis=1) * levels)
    table = rows.reshape(-1, levels, len(names))
    assert (table <= 0).all()  # with weights ≥ 0: 0 ≥ s_2 ≥ s_3 ≥ …
    assert (np.diff(table, axis=1) <= 1e-12).all()
    weights = np.random.default_rng(seed).random(len(names))
    assert (np.diff(table @ weights, axis=1) <= 1e-12).all()


def test_fertility_features_are_in_the_order_of_the_parts() -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    names, offsets, rows = fertility_features(edges, {}, known(edges, fertile=(["the"], ["oui"])), 3)
    the, oui = names.index("source: … of 'the'"), names.index("target: … of 'oui'")
    for i, (source, target) in enumerate(PAIRS_OF_WORDS):
        words = [("source", w) for w in source] + [("target", w) for w in target]
        here = rows[offsets[i] : offsets[i + 1]].reshape(len(words), 2, -1)
        for place, (side, word) in enumerate(words):
            assert (here[place, :, the] == -float(side == "source" and word == "the")).all()
            assert (here[place, :, oui] == -float(side == "target" and word == "oui")).all()
            assert here[place, 0, names.index(f"{side}: more than 2 links")] == 0
            assert here[place, 1, names.index(f"{side}: more than 2 links")] == -1


def test_pair_features_are_bonuses() -> None:
    assert list(PATTERNS)[:2] == list(PAIRS)[:2]  # the map counts on it
    maker = FeatureMap("M+F+Q", (lambda pairs: {"x forward": ones(pairs), "x backward": ones(pairs)},), COUNTS)
    parts = maker(PAIRS_OF_WORDS)
    space: Any = parts.space
    assert parts.nonnegative[parts.names.index("monotone") :].all()
    for i in range(len(space)):
        table = space.pair_links(i)
        theta = np.zeros(parts.features.dim)
        for name, number in zip(PATTERNS, range(4), strict=True):
            theta[parts.names.index(name)] = number + 1
        scores = parts.features.scores(i, theta)[parts.space.n_parts(i) - len(table) :]
        for (_, j, k, row, column), score in zip(table, scores, strict=True):
            step = (row - j, column - k)
            assert score == list(PATTERNS.values()).index(step) + 1
    edges = Edges.of(PAIRS_OF_WORDS[:1])
    values = {"x both": np.linspace(0.0, 1.0, len(edges))}
    names, f = pair_features(edges, values, np.array([0, 4]), np.array([4, 8]), np.array([0, 0]))
    assert (f >= 0).all() and f[1, names.index("monotone, both by x both")] == np.sqrt(0.5)
    assert f[1, names.index("monotone, either by x both")] == 1.0 and not f[:, names.index("inverted")].any()


def ones(pairs: Any) -> list[Any]:
    return [np.ones((len(source), len(target))) for source, target in pairs]


def test_candidates_keep_what_is_believed_and_what_is_gold() -> None:
    def source(pairs: Any) -> dict[str, Any]:
        return {"x": [np.eye(len(a), len(b)) for a, b in pairs]}

    maker = FeatureMap("M+Q", (source,), COUNTS, candidates=0.5)
    space: Any = maker(PAIRS_OF_WORDS[:1], keep=[np.array([[0, 2]])]).space
    assert space.allows(0, space.encode(0, [(0, 0), (1, 1)])) and space.allows(0, space.encode(0, [(0, 2)]))
    assert not space.allows(0, space.encode(0, [(0, 1)]))
    free: Any = FeatureMap("M+Q", (source,), COUNTS, candidates=0.0)(PAIRS_OF_WORDS[:1]).space
    assert free.allows(0, free.encode(0, [(0, 1)]))


@pytest.mark.parametrize("model", ["M", "M+F", "M+Q", "M+F+Q"])
def test_the_map_scores_the_parts_of_its_structure(model: str) -> None:
    parts = FeatureMap(model, (lambda pairs: {"x": ones(pairs)},), COUNTS, (["the"], []))(PAIRS_OF_WORDS)
    np.testing.assert_array_equal(parts.features.instance_sizes(3), [parts.space.n_parts(i) for i in range(3)])
    assert len(parts.names) == len(set(parts.names)) == parts.features.dim == len(parts.nonnegative)
    assert not parts.nonnegative[0] and parts.nonnegative.any() == (model != "M")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"x": []}, "x has 0 matrices for 3 pairs"),
        (
            {"x": [np.ones((3, 3)), np.ones((2, 3)), np.ones((3, 4))]},
            r"x of pair 1 has shape \(2, 3\); expected \(1, 3\)",
        ),
        ({"x": [np.ones((3, 3)), np.ones((1, 3)), np.full((3, 4), np.nan)]}, "x of pair 2 is not finite"),
    ],
)
def test_sources_are_checked(source: Any, message: str) -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    with pytest.raises(InputError, match=message):
        source_values(PAIRS_OF_WORDS, edges, [lambda pairs: source])


def test_names_of_sources_must_differ() -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    twice = [lambda pairs: {"x": ones(pairs)}] * 2
    with pytest.raises(InputError, match="two sources call a matrix 'x'"):
        source_values(PAIRS_OF_WORDS, edges, twice)
    with pytest.raises(InputError, match="two features of links are called 'link'"):
        LinkFeatures(edges, {"link": np.ones(len(edges))}, known(edges)).rows()


def test_both_directions_are_multiplied() -> None:
    edges = Edges.of(PAIRS_OF_WORDS)
    drawn_values = drawn(3, edges)
    matrices = {
        name: [
            v[a:b].reshape(shape) for a, b, shape in zip(edges.offsets, edges.offsets[1:], edges.lengths, strict=False)
        ]
        for name, v in drawn_values.items()
    }
    found = source_values(PAIRS_OF_WORDS, edges, [lambda pairs: matrices])
    np.testing.assert_array_equal(found["hmm both"], drawn_values["hmm forward"] * drawn_values["hmm backward"])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([("a b", ["c"])], "the source side of pair 0 is a string"),
        ([(["a"], ["b"]), (["a"], [])], "the target sentence of pair 1 is empty"),
        ([["a", "b", "c"]], r"pair 0 must be \(source words, target words\)"),
        (["ab"], r"pair 0 must be \(source words, target words\)"),
    ],
)
def test_bad_pairs(pairs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_pairs(pairs)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([[(0, 0)]], "X has 2 pairs but y has 1 gold alignments"),
        (
            [[(0, 0)], [(0, 3)]],
            "pair 1: link 0-3 is out of range: there are 1 source and 2 target words, counted from 0",
        ),
        ([[(0, 0)], [(-1, 0)]], "pair 1: link -1-0 is out of range"),
        ([[(0, 0)], ([(0, 0)], [(1, 1)])], "pair 1: link 1-1 is out of range"),
        ([[(0.5, 0)], []], r"pair 0: \(0.5, 0\) is not a link"),
        ([["0-0"], []], "pair 0: '0-0' is not a link"),
        ([[(0, 0, 1)], []], r"pair 0: \(0, 0, 1\) is not a link"),
        ([None, []], "pair 0: None is not a collection of links"),
        (["0-0", []], "pair 0: '0-0' is not a collection of links"),
        ([[], [3]], "pair 1: 3 is not a link"),
        ([[], (0, 1)], "pair 1: 0 is not a link"),
    ],
)
def test_bad_gold(y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        gold_links([(["a"], ["b"]), (["a"], ["b", "c"])], y)


def test_forms_of_gold() -> None:
    X = [(["a", "b"], ["c", "d"])]
    sure = frozenset({(0, 0), (1, 1)})
    same: list[Any] = [
        [(0, 0), (1, 1)],
        ((0, 0), (1, 1)),
        {(0, 0), (1, 1)},
        np.array([[0, 0], [1, 1]]),
        GoldLinks.of(sure),
    ]
    for y in same:
        assert gold_links(X, [y]) == [GoldLinks(sure, sure)]
    assert gold_links(X, [([(0, 0)], {(1, 1)})]) == [GoldLinks(frozenset({(0, 0)}), sure)]
    assert gold_links(X, [()]) == gold_links(X, [([], [])]) == [GoldLinks(frozenset(), frozenset())]


@pytest.mark.parametrize(
    ("model", "bound"), [("M", 0), ("M+F", 1), ("M+F", 0), ("M+F+Q", 1), ("M", 1.5), ("M+F", True)]
)
def test_fertility_bounds(model: str, bound: Any) -> None:
    least = 2 if "F" in model else 1
    with pytest.raises(ParameterError, match=re.escape(f"an integer of at least {least} where the model is {model!r}")):
        FeatureMap(model, (), COUNTS, max_fertility=bound)
