"""Search problems in plain Python: the queues of Figure 1, the updates of Figure 2, and the mistakes people make."""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from partwise.exceptions import InputError, ParameterError
from partwise.learners.laso.learner import LaSO
from partwise.learners.laso.plain import PlainSearch
from partwise.learners.laso.queues import AStar, Beam, BestFirst, DepthFirst, Greedy, Search
from partwise.learners.laso.spaces import SearchProblem
from partwise.search.predictor import SearchPredictor

WORDS = ["the", "cat", "sat", "on", "a", "mat", "dog", "ran", "to", "house", "and"]


class Cut(SearchProblem):
    """Cut a string into words: a state is the borders so far."""

    def initial(self, x: str) -> Any:
        return (0,)

    def operators(self, x: str, state: Any) -> Any:
        return [(*state, stop) for stop in range(state[-1] + 1, min(len(x), state[-1] + 6) + 1)]

    def goal(self, x: str, state: Any) -> bool:
        return bool(state[-1] == len(x))

    def good(self, x: str, y: Any, state: Any) -> bool:
        return bool(y[: len(state)] == state)

    def features(self, x: str, state: Any) -> Any:
        word = x[state[-2] : state[-1]]
        return [f"word={word}", f"length={len(word)}"]


def sentences(n: int, seed: int = 1) -> tuple[list[str], list[tuple[int, ...]]]:
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(WORDS, size=rng.integers(2, 6)).tolist() for _ in range(n)]
    return ["".join(words) for words in chosen], [
        (0, *np.cumsum([len(word) for word in words]).tolist()) for words in chosen
    ]


def predict(problem: SearchProblem, queue: Any, x: Any, names: list[str], theta: Any) -> Any:
    weight = dict(zip(names, theta, strict=True))
    return Search(problem, queue, x, lambda a: sum(weight.get(k, 0.0) * v for k, v in a.items())).run().node.state


@pytest.mark.parametrize("queue", [Greedy(), Beam(4), BestFirst(), AStar(), DepthFirst()])
@pytest.mark.parametrize("update", ["alma", "perceptron"])
def test_every_queue_learns_to_cut(queue: Any, update: str) -> None:
    X, Y = sentences(60)
    data = PlainSearch(Cut(), X[:40], Y[:40], queue)
    result = LaSO(update=update, max_passes=15).fit(data)
    assert result.status == "converged"
    right = [predict(Cut(), queue, x, data.names, result.theta) == y for x, y in zip(X[40:], Y[40:], strict=True)]
    assert np.mean(right) >= 0.6
    if update == "alma":
        assert result.trace[-1].extra["largest_norm"] <= 1.0 + 1e-12


@pytest.mark.parametrize("mode", ["early", "standard", "max_violation"])
def test_other_updates_learn_as_well(mode: str) -> None:
    X, Y = sentences(40)
    data = PlainSearch(Cut(), X, Y, Beam(4))
    result = LaSO(update="perceptron", mode=mode, max_passes=30, average=False).fit(data)
    assert result.status == "converged"
    assert all(predict(Cut(), Beam(4), x, data.names, result.theta) == y for x, y in zip(X, Y, strict=True))


def test_one_sibling_and_one_node_make_the_perceptron() -> None:
    """Eq. (2) with |sibs| = |nodes| = 1: Δ = Φ(x, y) − Φ(x, ŷ), by hand."""
    data = PlainSearch(Cut(), ["abc"], [(0, 2, 3)], Greedy())
    result = LaSO(update="perceptron", mode="standard", max_passes=1, average=False).fit(data)
    found = {name: value for name, value in zip(data.names, result.theta.tolist(), strict=True) if value}
    # all weights are 0, so the first goal wins the tie: abc as one word against ab|c
    assert found == {
        "word=ab": 1.0, "length=2": 1.0, "word=c": 1.0, "length=1": 1.0, "word=abc": -1.0, "length=3": -1.0
    }  # fmt: skip


def test_a_beam_shares_the_update_among_its_nodes() -> None:
    data = PlainSearch(Cut(), ["abcd"], [(0, 3, 4)], Beam(2))
    result = LaSO(update="perceptron", mode="early", max_passes=1, average=False).fit(data)
    found = dict(zip(data.names, result.theta.tolist(), strict=True))
    assert found["word=abc"] == 1.0
    assert found["word=a"] == found["word=ab"] == -0.5


class Grid(SearchProblem):
    """Walk from a corner of a grid of tolls to the other; cyclic, and every step costs."""

    def __init__(self, heuristic: bool = True) -> None:
        self.use = heuristic

    def initial(self, x: Any) -> Any:
        return (0, 0)

    def operators(self, x: Any, state: Any) -> Any:
        r, c = state
        near = [(r + 1, c), (r, c + 1), (r - 1, c), (r, c - 1)]
        return [(a, b) for a, b in near if 0 <= a < len(x) and 0 <= b < len(x[0])]

    def goal(self, x: Any, state: Any) -> bool:
        return bool(state == (len(x) - 1, len(x[0]) - 1))

    def features(self, x: Any, state: Any) -> Any:
        return {"toll": x[state[0]][state[1]]}

    def heuristic(self, x: Any, state: Any) -> float:
        """No step costs less than 1, so that many steps cost no less."""
        return -float(len(x) - 1 - state[0] + len(x[0]) - 1 - state[1]) if self.use else 0.0


def dijkstra(tolls: Any) -> float:
    best, heap = {(0, 0): 0.0}, [(0.0, (0, 0))]
    while heap:
        cost, (r, c) = heapq.heappop(heap)
        if (r, c) == (len(tolls) - 1, len(tolls[0]) - 1):
            return cost
        for a, b in ((r + 1, c), (r, c + 1), (r - 1, c), (r, c - 1)):
            if 0 <= a < len(tolls) and 0 <= b < len(tolls[0]) and cost + tolls[a][b] < best.get((a, b), np.inf):
                best[a, b] = cost + tolls[a][b]
                heapq.heappush(heap, (best[a, b], (a, b)))
    raise AssertionError


def test_a_star_is_optimal_and_expands_no_more_than_best_first() -> None:
    saved = []
    for seed in range(6):
        tolls = np.random.default_rng(seed).uniform(1.0, 9.0, size=(7, 6)).tolist()

        def score(active: dict[str, float]) -> float:
            return -active["toll"]

        found = Search(Grid(), AStar(), tolls, score).run()
        blind = Search(Grid(heuristic=False), BestFirst(), tolls, score).run()
        np.testing.assert_allclose([-found.node.g, -blind.node.g], dijkstra(tolls), rtol=1e-12)
        saved.append(blind.expanded - found.expanded)
    assert min(saved) >= 0 and sum(saved) > 0  # a heuristic that is not looked at would save nothing


@pytest.mark.parametrize("queue", [Greedy(), Beam(3), DepthFirst(), BestFirst()])
def test_cyclic_spaces_end(queue: Any) -> None:
    tolls = np.ones((4, 4)).tolist()
    found = Search(Grid(), queue, tolls, lambda active: -active["toll"]).run()
    assert found.node.path()[-1] == (3, 3)
    assert found.expanded <= 64


def test_progress_must_rise() -> None:
    class Stuck(Cut):
        def progress(self, x: str, state: Any) -> float:
            return 1.0

    with pytest.raises(InputError, match=r"progress at \(0, 1\) is 1, no more than 1 at the step before"):
        Search(Stuck(), Beam(2), "abc", lambda active: 0.0).run()


def test_a_beam_that_is_never_full_is_exact() -> None:
    """Goals of different depths: the best of all segmentations, by enumeration."""
    rng = np.random.default_rng(5)
    weight = {f"word={x[a:b]}": rng.normal() for x in ["thecatsat"] for a in range(9) for b in range(a + 1, 10)}

    def score(active: dict[str, float]) -> float:
        return sum(weight.get(name, 0.0) for name in active)

    def covers(start: int) -> list[tuple[int, ...]]:
        if start == 9:
            return [(9,)]
        return [(start, *rest) for stop in range(start + 1, min(start + 6, 9) + 1) for rest in covers(stop)]

    def total(borders: tuple[int, ...]) -> float:
        return sum(weight[f"word={'thecatsat'[a:b]}"] for a, b in pairwise(borders))

    found = Search(Cut(), Beam(10_000), "thecatsat", score).run()
    np.testing.assert_allclose(found.node.g, max(map(total, covers(0))), rtol=1e-12)


class Broken(Cut):
    """Cut with one thing wrong."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def operators(self, x: str, state: Any) -> Any:
        if self.fault == "no list":
            return None
        return [] if self.fault == "nothing" and len(state) == 2 else super().operators(x, state)

    def good(self, x: str, y: Any, state: Any) -> Any:
        if self.fault in ("never", "silent"):
            return False if self.fault == "never" else None
        return super().good(x, y, state) and not (self.fault == "forgets" and len(state) == 2)

    def features(self, x: str, state: Any) -> Any:
        wrong = {"text": "word", "number": 3, "names": [1, 2], "value": {"word": "the"}, "nan": {"word": np.nan}}
        return wrong.get(self.fault, super().features(x, state))

    def key(self, state: Any) -> Any:
        return list(state) if self.fault == "list" else state


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nothing", r"input 0: the operators yield nothing at \(0, .\), and it is not a goal"),
        ("forgets", r"the y-good test contradicts itself: \(0,\) is y-good, none of its children is"),
        ("never", r"the initial state is not y-good: \(0,\) cannot lead to the given output"),
        ("text", r"features at \(0, 1\) must be a dict or a list of names, got 'word'"),
        ("number", r"features at \(0, 1\) must be a dict or a list of names, got 3"),
        ("no list", r"the operators at \(0,\) must be a list of states, got None"),
        ("silent", r"good at \(0,\) must be True or False, got None: is a return missing\?"),
        ("names", r"names of features at \(0, 1\) must be strings, got 1"),
        ("value", r"the feature 'word' at \(0, 1\) must be a finite number, got 'the'"),
        ("nan", r"the feature 'word' at \(0, 1\) must be a finite number, got nan"),
        ("list", r"states of Broken cannot be hashed \(list\): use tuples, or define key\(state\)"),
    ],
)
def test_mistakes_are_named(fault: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        LaSO(max_passes=2).fit(PlainSearch(Broken(fault), ["abc"], [(0, 1, 3)], Beam(2)))


def test_settings_and_data() -> None:
    for settings, words in [
        ({"beam": 0}, "'beam' parameter of LaSO must be at least 1, or None"),
        ({"update": "alam"}, "one of 'perceptron', 'alma'"),
        ({"mode": "late"}, "one of 'laso', 'early', 'standard', 'max_violation'"),
        ({"alpha": 0.0}, "above 0 and at most 1"),
        ({"step_scale": -1.0}, "'step_scale' parameter of LaSO must be a positive number"),
    ]:
        with pytest.raises(ParameterError, match=words):
            LaSO(**settings)
    for size in (0, -1, 2.5, "3", True):
        with pytest.raises(ParameterError, match="'size' parameter of Beam must be an integer of at least 1"):
            Beam(size)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"'mode' parameter of LaSO must be one of .* after an error"):
        LaSO(mode="explore").fit(PlainSearch(Cut(), ["a"], [(0, 1)], Beam()))
    with pytest.raises(InputError, match="X has 1 inputs but y has 0"):
        PlainSearch(Cut(), ["a"], [], Beam())
    with pytest.raises(InputError, match="at least one input"):
        PlainSearch(Cut(), [], [], Beam())
    with pytest.raises(InputError, match="LaSO trains search problems, not list"):
        LaSO().fit([])  # type: ignore[arg-type]


class Circle(SearchProblem):
    """Five places on a circle; y-good are the three of the way back from 0 to 3."""

    def __init__(self, goal: int) -> None:
        self.end = goal

    def initial(self, x: int) -> int:
        return 0

    def operators(self, x: int, state: int) -> list[int]:
        return [(state + 1) % 5, (state - 1) % 5]

    def goal(self, x: int, state: int) -> bool:
        return state == self.end

    def good(self, x: int, y: int, state: int) -> bool:
        return state in (0, 4, 3)

    def features(self, x: int, state: int) -> list[str]:
        return [f"place {state}"]


@pytest.mark.parametrize("queue", [Greedy(), Beam(2), BestFirst(), AStar(), DepthFirst()])
def test_circles_that_gain_at_every_turn_end(queue: Any) -> None:
    """A path round the circle scores better and better: it must not be followed for ever, nor an empty queue read."""
    model = SearchPredictor(Circle(3), queue=queue, max_passes=5, limit=100).fit([1, 2], [3, 3])
    assert model.predict([5]) == [3]
    with pytest.raises(InputError, match=r"input 0: (the search from 0 ran out of states|no goal was found)"):
        SearchPredictor(Circle(99), queue=queue, random_state=0, max_passes=5, limit=100).fit([1], [3])


def test_endless_spaces_stop_with_a_message() -> None:
    class Endless(Cut):
        def goal(self, x: str, state: Any) -> bool:
            return False

        def operators(self, x: str, state: Any) -> Any:
            return [(*state, len(state))]

    with pytest.raises(InputError, match="no goal was found within 50 expanded nodes"):
        Search(Endless(), Beam(1), "a", lambda active: 0.0, limit=50).run()
    with pytest.raises(InputError, match="input 0: no goal was found within 50 expanded nodes"):
        SearchPredictor(Endless(), queue=Beam(1), limit=50).fit(["a"], [tuple(range(100))])


def test_a_resumed_run_ends_with_the_same_weights(tmp_path: Any) -> None:
    from partwise.storage import Checkpoint

    X, Y = sentences(30)
    whole = LaSO(max_passes=4, beam=3)
    straight, halves = PlainSearch(Cut(), X, Y, Beam(3)), PlainSearch(Cut(), X, Y, Beam(3))
    expected = whole.fit(straight)
    keep = Checkpoint(tmp_path / "run")
    LaSO(max_passes=1, beam=3).fit(halves, checkpoint=keep)
    resumed = whole.fit(PlainSearch(Cut(), X, Y, Beam(3)), checkpoint=keep)
    np.testing.assert_array_equal(resumed.theta, expected.theta)


def test_the_estimator(tmp_path: Any) -> None:

    X, Y = sentences(60)
    model = SearchPredictor(Cut(), queue=Beam(4)).fit(X[:40], Y[:40])
    assert model.score(X[40:], Y[40:]) >= 0.6
    assert model.search(X[0]).node.path()[0] == (0,)
    model.save(tmp_path / "cut.pw")
    loaded = SearchPredictor.load(tmp_path / "cut.pw", Cut(), queue=Beam(4))
    assert loaded.predict(X) == model.predict(X)
    for settings, words in [
        ({"problem": Cut}, "an object, not the class"),
        ({"queue": "beam"}, "a queue such as Beam"),
    ]:
        with pytest.raises(ParameterError, match=words):
            SearchPredictor(**{"problem": Cut(), **settings}).fit(X, Y)


def test_a_finished_checkpoint_gives_the_same_weights(tmp_path: Any) -> None:
    """The names of features are part of the state: a run that has nothing left to do must know them too."""
    X, y = [2, 3, 4], ["ab", "bba", "abab"]

    class Spell(SearchProblem):
        def initial(self, x: int) -> str:
            return ""

        def operators(self, x: int, state: str) -> list[str]:
            return [state + letter for letter in "ab"]

        def goal(self, x: int, state: str) -> bool:
            return len(state) == x

        def good(self, x: int, y: str, state: str) -> bool:
            return y.startswith(state)

        def features(self, x: int, state: str) -> list[str]:
            return [f"{state[-2:]} in {x}"]

    path = tmp_path / "run.ckpt"
    model = SearchPredictor(Spell(), queue=Beam(2)).fit(X, y, dev=(X, y), checkpoint=path)
    again = SearchPredictor(Spell(), queue=Beam(2)).fit(X, y, dev=(X, y), checkpoint=path)
    assert again.weights_ == model.weights_ and again.predict(X) == y
    with pytest.raises(InputError, match="belongs to another run"):
        SearchPredictor(Spell(), queue=Beam(2)).fit(X, y[::-1], dev=(X, y), checkpoint=path)
