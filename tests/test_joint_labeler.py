"""JointLabeler: tags and chunk tags at once; the constraint, the contexts against plain Python, mistakes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from partwise import load_model
from partwise.data.columns import Columns, encode
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.learners.laso._beam import decode
from partwise.sequences.sample import load_sample
from partwise.sequences.segmentation.dictionary import TagDictionary
from partwise.sequences.segmentation.guesses import FirstGuesses
from partwise.sequences.segmentation.joint import JointLabeler


@pytest.fixture(scope="module")
def data() -> Any:
    return load_sample("english", split="train")


@pytest.fixture(scope="module")
def model(data: Any) -> JointLabeler:
    settings: dict[str, Any] = {"frequent": 2, "hash_bits": 10, "beam": 3, "max_passes": 4}
    return JointLabeler(**settings).fit(data.column("word"), (data.column("pos"), data.column("chunk")))


def test_it_learns_and_obeys_the_constraint(data: Any, model: JointLabeler) -> None:
    tags, _ = model.predict(data.column("word"))
    assert (
        np.mean([a == b for x, y in zip(tags, data.column("pos"), strict=True) for a, b in zip(x, y, strict=True)])
        > 0.95
    )
    test = load_sample("english", split="test")
    for row in model.predict(test.column("word"))[1]:
        for before, tag in pairwise(["O", *row]):
            assert not tag.startswith("I-") or before[1:] == tag[1:]
    assert model.result_.trace[-1].extra["largest_norm"] <= 1.0 + 1e-9


def test_scores_of_the_search_are_sums_of_features(data: Any, model: JointLabeler) -> None:
    """wᵀΦ of the best output, by the features of its actions, is the score that the search gave it."""
    from partwise.learners.laso.packed import action_features

    model = model.unfitted()
    problem = model.training(data.column("word")[:6], (data.column("pos")[:6], data.column("chunk")[:6]))
    theta = np.random.default_rng(0).normal(size=problem.dim)
    for layout in model.layouts_:  # weights that do not exist are 0
        theta[layout.base : layout.base + len(layout.mask)] *= layout.mask
    for i in range(3):
        arena, queue = decode(problem.pack, i, theta, 4)
        node = int(queue[0])
        value, total = float(arena.score[node]), 0.0
        while arena.parent[node] >= 0:
            before = int(arena.parent[node])
            delta, touched = np.zeros(problem.dim), np.zeros(problem.pack.most, np.int64)
            action_features(problem.pack, i, arena.state[before], int(arena.action[node]), 1.0, delta, touched, 0)
            total += float(theta @ delta)
            node = before
        np.testing.assert_allclose(total, value, rtol=1e-9)


def test_mistakes(data: Any) -> None:
    words, tags, chunks = (data.column(name)[:3] for name in ("word", "pos", "chunk"))
    with pytest.raises(InputError, match="the number of chunk tags differs from the number of words in some sentence"):
        JointLabeler().fit(words, (tags, [row[:-1] for row in chunks]))
    for settings, expected in [
        ({"frequent": 0}, "at least 1"),
        ({"closed": 0}, "'closed' parameter of JointLabeler must be at least 1"),
        ({"folds": 1}, "at least 2"),
        ({"hash_bits": 30}, "from 4 to 24"),
    ]:
        with pytest.raises(ParameterError, match=expected):
            JointLabeler(**settings).fit(words, (tags, chunks))


def test_it_is_stored(data: Any, model: JointLabeler, tmp_path: Any) -> None:
    model.save(tmp_path / "joint.pw")
    again = load_model(tmp_path / "joint.pw")
    np.testing.assert_array_equal(again.theta_, model.theta_)
    assert (tmp_path / "joint.pw").stat().st_size < 4 * len(model.theta_)  # half of what all weights would need
    words = load_sample("english", split="test").column("word")
    assert again.predict(words) == model.predict(words)
    assert again.get_params() == {**model.get_params(), "n_jobs": 1, "verbose": 0}


def test_the_dictionary() -> None:
    words = encode([["The", "run", "run", "run"], ["walking", "run"]])
    tags = np.array([0, 1, 1, 2, 3, 1])  # DT NN NN VB VBG NN
    book = TagDictionary.learn(words, tags, frequent=3)
    names = ["DT", "NN", "VB", "VBG"]
    assert book.known() == ["run"] and book.rare == [0, 3]
    assert [book.tag_class(word, names) for word in ("run", "The", "new")] == ["NN|VB", "DT~", "?"]
    # unknown words have the tag of their ending among rare words
    assert [book.usual(word) for word in ("run", "jumping", "Jumping", "zzz")] == [1, 3, -1, -1]
    state = book.to_state()
    assert TagDictionary.from_state(state, 3, 4).counts == book.counts
    with pytest.raises(StorageError, match="'The' has tags that the model does not know"):
        TagDictionary.from_state({**state, "tags": [[9], *state["tags"][1:]]}, 3, 4)
    with pytest.raises(StorageError, match="not equally many"):
        TagDictionary.from_state({**state, "counts": state["counts"][:-1]}, 3, 4)


def test_which_tags_a_word_may_have() -> None:
    """Frequent words that are not seen often enough may have the tags that words with one of theirs have as well."""
    counts = {"run": {0: 3, 1: 2}, "walk": {0: 4}, "the": {2: 90}, "odd": {3: 1}}  # NN, VB, DT, JJ
    book = TagDictionary(counts, frequent=4)
    assert book.near == {0: {1}, 1: {0}, 2: set(), 3: set()}
    assert [book.allowed(word, closed=50) for word in ("run", "walk", "the", "odd", "new")] == [
        [0, 1], [0, 1], [2], [3], [3],
    ]  # fmt: skip
    assert book.allowed("walk", closed=4) == [0]


def test_what_known_words_say_of_others() -> None:
    names = ["NN", "NNS", "VB", "VBD", "JJ"]
    counts = {"boost": {2: 3, 0: 1}, "rise": {0: 2}, "quarters": {1: 1}, "boosted": {3: 2}, "happy": {4: 1}}
    book = TagDictionary(counts, frequent=2)
    words = ("boosts", "Boosts", "rising", "third-quarters", "one-way", "unhappy", "zebra", "boost")
    assert [book.stem(word, names) for word in words] == [
        "VB+s", "VB+s", "NN+ing", "-NNS", "-?", "un+JJ", "-", "-",
    ]  # fmt: skip
    assert [book.forms(word, names) for word in ("boost", "Boost", "quarter", "rise")] == ["VBD", "VBD", "NNS", "-"]


def test_training_words_are_looked_up_in_the_other_folds() -> None:
    """A word that only one fold has is as unknown there as a new one; later it is known."""
    X = [["the", "cat"], ["the", "dog"]]
    model = JointLabeler(folds=2, frequent=1, hash_bits=6, guesses=False)
    model.training(X, ([["DT", "NN"], ["DT", "NN"]], [["B-NP", "I-NP"], ["B-NP", "I-NP"]]))
    words = encode(X)
    both = np.array([0, 1, 0, 1]), np.array([0, 1, 0, 1])
    training = model._columns(words, model._other_folds(words, both, np.array([0, 1])))
    assert training.column("seen") == [["DT", "?"], ["DT", "?"]]
    assert training.column("role") == [["B-NP", "?"], ["B-NP", "?"]]
    later = model._columns(words, [(slice(None), model.dictionary_, model.roles_)])
    assert later.column("seen") == [["DT", "NN"], ["DT", "NN"]]


def test_guesses_come_from_the_other_folds() -> None:
    """A fold is guessed by chains that have not seen it: the one sentence with another labelling does not know it."""
    sentences = [["a", "b"], ["a", "b"], ["a", "b"]]
    columns = Columns.from_sentences({"word": sentences})
    tags, chunks = [["X", "Y"]] * 2 + [["Y", "X"]], [["B-P", "I-P"]] * 2 + [["B-Q", "O"]]
    guesses = FirstGuesses(("word[0]", "word[0]\npos[0]"))
    found = guesses.fit(columns, (encode(tags), encode(chunks)), np.array([0, 0, 1]))
    assert found.column("pos")[2] == ["X", "Y"] and found.column("chunk")[2] == ["B-P", "I-P"]
    assert found.column("pos")[0] == ["Y", "X"]
    new = guesses.add(columns)
    assert new.column("pos")[2] == ["X", "Y"] and set(new.column("pos_odds")[0]) == {"X|Y", "Y|X"}
    headers, arrays = guesses.to_state()
    again = FirstGuesses.from_state(headers, arrays, guesses.templates).add(columns)
    assert again.column("chunk_odds") == new.column("chunk_odds")
    alone = guesses.fit(columns.subset([0]), (encode(tags[:1]), encode(chunks[:1])), np.array([0]))
    assert alone.column("pos") == [["?", "?"]]
