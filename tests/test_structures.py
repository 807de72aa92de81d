"""Every structure against enumeration; long chains against themselves; messages for bad input."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import oracles
import pytest
from cases import REGISTRY
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import partwise.structures
from partwise.exceptions import InputError, ParameterError
from partwise.structures import base
from partwise.structures._chain_kernels import forward_backward, log_forward_backward
from partwise.structures.base import ORACLES, CompiledStructure, Structure, space_sizes
from partwise.structures.chain import Chain
from partwise.structures.multiclass import Multiclass
from partwise.structures.registry import STRUCTURES
from partwise.testing import CHECKS, SCORES, Case, Check, checks_of, draw_scores
from partwise.testing._oracle_checks import check_argmax

Floats = NDArray[np.float64]

EXAMPLES = [oracles.Interval([3]), *(make() for make in STRUCTURES.values())]


def oracles_of(kind: type[Structure]) -> frozenset[str]:
    """What some space of this kind has."""
    return frozenset().union(*(space.oracles for space in EXAMPLES if type(space) is kind))


PAIRS = [
    pytest.param(kind, check, id=f"{kind.__name__}-{check.__name__.removeprefix('check_')}")
    for kind in REGISTRY
    for check in checks_of(oracles_of(kind))
]


@pytest.mark.parametrize(("kind", "check"), PAIRS)
@given(data=st.data())
def test_conformance(kind: type[Structure], check: Check, data: st.DataObject) -> None:
    case = data.draw(REGISTRY[kind])
    i = data.draw(st.integers(0, len(case.instances) - 1))
    rng = np.random.default_rng(data.draw(st.integers(0, 9999)))
    check(case, i, draw_scores(data.draw(st.sampled_from(list(SCORES))), case, i, rng), rng)


def test_every_structure_and_oracle_is_checked() -> None:
    for module in pkgutil.iter_modules(partwise.structures.__path__):
        importlib.import_module(f"partwise.structures.{module.name}")
    waiting, kinds = [Structure], set()
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("partwise.") and kind not in (Structure, CompiledStructure):
            kinds.add(kind)
    assert kinds <= REGISTRY.keys()
    assert ORACLES.keys() <= CHECKS.keys()


def test_the_suite_sees_a_wrong_oracle() -> None:
    class Careless(oracles.Interval):
        def argmax(self, i: int, scores: Floats) -> Floats:
            return self.encode(i, (0, len(scores)))

    case = Case(Careless([3]), [oracles.enumerate_interval(3)])
    rng = np.random.default_rng(0)
    check_argmax(case, 0, np.ones(3), rng)
    with pytest.raises(AssertionError):
        check_argmax(case, 0, np.array([1.0, -1.0, -1.0]), rng)


# --------------------------------------------------------------------------------------------------
# Long chains: the scaled pass must agree with the log domain, or notice that it cannot


def both_passes(chain: Chain, scores: Floats) -> tuple[float, Floats]:
    """log Z and marginals by the scaled pass, which must be those of the log domain."""
    results = []
    for kernel in (forward_backward, log_forward_backward):
        parts, work = np.full(chain.n_parts(0), np.nan), np.full(base.work_size(chain.pack, 0), np.nan)
        results.append((kernel(chain.pack, 0, scores, work, parts), parts))
    (scaled, mean), (log, log_mean) = results
    np.testing.assert_allclose(scaled, log, rtol=1e-12)
    np.testing.assert_allclose(mean, log_mean, rtol=0, atol=1e-8)
    labels = mean[: chain.n_atoms(0)].reshape(-1, chain.n_labels)
    np.testing.assert_allclose(labels.sum(axis=1), 1.0, atol=1e-8)
    return log, mean


@pytest.mark.parametrize("scale", [1e-3, 1.0, 10.0, 50.0, 1e4, 1e6])
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("tied", [True, False])
def test_long_chain(scale: float, order: int, tied: bool) -> None:
    rng = np.random.default_rng(order)
    allowed = rng.random((500, 3)) < 0.8
    allowed[np.arange(500), rng.integers(3, size=500)] = True
    for mask in (None, allowed):
        chain = Chain([500], 3, order=order, tied=tied, allowed=mask)
        scores = scale * rng.normal(size=chain.n_parts(0))
        log_partition, _ = both_passes(chain, scores)
        best = base.score_of(scores, chain.argmax(0, scores))
        assert best - 1e-9 * abs(best) <= log_partition <= best + 500 * np.log(3) + 1e-9 * abs(best)


def test_marginals_do_not_drift_over_a_long_chain_of_huge_scores() -> None:
    """Rounding must not grow with the sum of all scores, here about 10^13."""
    chain = Chain([500], 4)
    scores = 1e10 * np.random.default_rng(0).normal(size=chain.n_parts(0))
    _, mean = chain.marginals(0, scores)
    np.testing.assert_allclose(mean, chain.argmax(0, scores), rtol=0, atol=1e-4)


LOYAL = np.eye(2, dtype=bool)  # a label is followed by itself


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    "penalties",
    [
        pytest.param({0: -500.0}, id="at once"),
        pytest.param({0: -1e4}, id="huge"),
        pytest.param(dict.fromkeys(range(400), -1.0), id="bit by bit"),
        pytest.param(dict.fromkeys(range(10), -150.0), id="within the spread"),
        pytest.param({t: -180.0 if t < 250 else 180.0 for t in range(499)}, id="and made good"),
    ],
)
def test_a_hopeless_label_that_is_forced_later(order: int, penalties: dict[int, float]) -> None:
    """Label 1 falls behind early, but the last position demands it and nothing leads there from label 0."""
    allowed = np.ones((500, 2), bool)
    allowed[-1, 0] = False
    chain = Chain([500], 2, order=order, allowed=allowed, transitions=LOYAL)
    scores = np.zeros(chain.n_parts(0))
    for t, penalty in penalties.items():
        scores[2 * t + 1] = penalty
    log_partition, mean = both_passes(chain, scores)
    np.testing.assert_allclose(log_partition, sum(penalties.values()), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(mean[:1000].reshape(500, 2), np.tile([0.0, 1.0], (500, 1)), atol=1e-9)
    np.testing.assert_array_equal(chain.decode(0, chain.argmax(0, scores)), np.ones(500))
    np.testing.assert_array_equal(chain.sample(0, scores, 3, np.random.default_rng(0)), [mean.round()] * 3)


@pytest.mark.parametrize("gain", [0.0, 4.0, 8.0])
@pytest.mark.parametrize("penalties", [{0: -1000.0}, dict.fromkeys(range(250), -4.0)], ids=["at once", "bit by bit"])
def test_a_hopeless_label_that_scores_rescue(gain: float, penalties: dict[int, float]) -> None:
    """Label 1 loses 1000 early and wins ``gain`` at each of the last 250 positions: behind, level, ahead.

    Only a change of label is forbidden, so a pass that lost label 1 on the way would still find an answer.
    """
    chain = Chain([500], 2, transitions=LOYAL)
    scores = np.zeros(chain.n_parts(0))
    for t, penalty in penalties.items():
        scores[2 * t + 1] = penalty
    scores[501:1000:2] = gain
    log_partition, mean = both_passes(chain, scores)
    lead = 250 * gain - 1000.0
    np.testing.assert_allclose(log_partition, np.logaddexp(0.0, lead), rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(mean[1:1000:2], np.exp(-np.logaddexp(0.0, -lead)), atol=1e-9)


def test_a_label_that_looks_best_but_cannot_be_reached() -> None:
    """Nothing leads to label 1, whose backward values therefore grow by e^150 a position."""
    chain = Chain([50], 2, transitions=LOYAL, start=[True, False])
    scores = np.zeros(chain.n_parts(0))
    scores[0:100:2] = -150.0
    log_partition, mean = both_passes(chain, scores)
    assert log_partition == pytest.approx(-150.0 * 50, rel=1e-12)
    np.testing.assert_array_equal(mean[:100], np.tile([1.0, 0.0], 50))


# --------------------------------------------------------------------------------------------------
# Bad input


def test_messages_of_chain() -> None:
    def chain(lengths: Any = (3, 2), n_labels: int = 2, **constraints: Any) -> Chain:
        return Chain(lengths, n_labels, **constraints)

    nothing = np.ones((5, 2), bool)
    nothing[4] = False
    pinned = np.ones((5, 2), bool)
    pinned[3:] = [[True, False], [False, True]]
    bad: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (InputError, "instance 1 is an empty sequence; expected at least one position", {"lengths": [3, 0]}),
        (ParameterError, "'lengths' parameter of Chain must be a sequence of integers", {"lengths": [2.5]}),
        (
            ParameterError,
            "'lengths' parameter of Chain must be a sequence of integers",
            {"lengths": [[2, 3]]},
        ),
        (ParameterError, "'n_labels' parameter of Chain must be at least 1. Got 0", {"n_labels": 0}),
        (ParameterError, "'order' parameter of Chain must be at least 1. Got 0", {"order": 0}),
        (ParameterError, r"'allowed' .* shape \(5, 2\). Got \(3, 2\)", {"allowed": np.ones((3, 2))}),
        (ParameterError, r"'transitions' .* shape \(2, 2\). Got \(3, 3\)", {"transitions": np.ones((3, 3))}),
        (ParameterError, r"'start' .* shape \(2,\). Got \(1,\)", {"start": [True]}),
        (ParameterError, r"'stop' .* shape \(2,\). Got \(3,\)", {"stop": [True] * 3}),
        (InputError, "allow no label at position 1 of instance 1", {"allowed": nothing}),
        (InputError, "allow no label at position 0 of instance 0", {"start": [False, False]}),
        (InputError, "allow no label sequence for instance 1", {"allowed": pinned, "transitions": LOYAL}),
    ]
    for error, message, arguments in bad:
        with pytest.raises(error, match=message):
            chain(**arguments)
    space = chain()
    with pytest.raises(InputError, match="instance 1 has 2 positions but 3 labels"):
        space.encode(1, [0, 1, 0])
    for labels in ([0, 2], [-1, 0], [0.0, 1.0], ["A", "B"]):
        with pytest.raises(InputError, match=r"labels of instance 1 must be integers in 0\.\.1"):
            space.encode_all([[0, 1, 0], labels])
    with pytest.raises(InputError, match="got 1 outputs for 2 instances"):
        space.encode_all([[0, 1, 0]])
    with pytest.raises(InputError, match=r"scores of instance 0 have shape \(3,\); expected \(10,\)"):
        space.argmax(0, np.zeros(3))


def test_forbidden_parts_of_chain_are_named() -> None:
    allowed = np.ones((4, 2), bool)
    allowed[1, 0] = False
    chain = Chain([4], 2, order=2, tied=False, allowed=allowed, transitions=[[True, True], [False, True]])
    message = chain.forbidden_part(0, chain.encode(0, [0, 0, 0, 0]))
    assert message == "label 0 at position 1 is forbidden by the constraints"
    message = chain.forbidden_part(0, chain.encode(0, [0, 1, 1, 0]))
    assert message == "label 0 after label 1 at position 3 is forbidden by the constraints"


def test_masks_may_be_counts() -> None:
    """A mask is true where it is not zero, whatever its type."""
    counts = [[2, 0], [2, 4]]
    assert not Chain([2], 2, allowed=counts, start=[3, 0]).marginals(0, np.zeros(8))[1][1]
    assert Multiclass(2, 2, allowed=counts).marginals(0, np.zeros(2))[1].tolist() == [1.0, 0.0]


def test_messages_of_multiclass() -> None:
    with pytest.raises(ParameterError, match=r"'n' parameter of Multiclass must be at least 0. Got -1"):
        Multiclass(-1, 2)
    with pytest.raises(ParameterError, match=r"'n_labels' parameter of Multiclass must be at least 1. Got 0"):
        Multiclass(1, 0)
    with pytest.raises(ParameterError, match=r"'allowed' .* shape \(2, 3\). Got \(3, 2\)"):
        Multiclass(2, 3, allowed=np.ones((3, 2)))
    with pytest.raises(InputError, match="the constraints allow no label of instance 1"):
        Multiclass(2, 3, allowed=[[1, 1, 1], [0, 0, 0]])
    space = Multiclass(2, 3, allowed=[[1, 1, 1], [1, 1, 0]])
    assert space.forbidden_part(1, space.encode(1, 2)) == "label 2 is forbidden by the constraints"
    with pytest.raises(InputError, match=r"the label of instance 1 must be in 0\.\.2; got 3"):
        space.encode_all([0, 3])
    with pytest.raises(InputError, match=r"the label of instance 1 must be in 0\.\.2; got -1"):
        space.encode(1, -1)
    with pytest.raises(InputError, match=r"labels must be integers in 0\.\.2; got float64 values"):
        space.encode(0, 1.0)
    with pytest.raises(InputError, match=r"instance 0 has one label; got an array of shape \(2,\)"):
        space.encode(0, [0, 1])
    with pytest.raises(InputError, match="got 3 outputs for 2 instances"):
        space.encode_all([0, 1, 2])
    with pytest.raises(InputError, match=r"scores of instance 0 have shape \(2,\); expected \(3,\)"):
        space.marginals(0, np.zeros(2))
    for point in ([0.0, np.nan, 0.0], [np.inf, 0.0, 0.0]):
        with pytest.raises(InputError, match=r"scores of instance 0 hold NaN or \+inf at part"):
            space.project(0, point)


@pytest.mark.parametrize("space", [Chain([], 3), Multiclass(0, 3)])
def test_no_instances_at_all(space: CompiledStructure) -> None:
    offsets, numbers, values = space.encode_all([])
    assert len(space) == 0 and offsets.tolist() == [0] and len(numbers) == len(values) == 0


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_sizes_in_closed_form(order: int, tied: bool) -> None:
    chain = Chain([1, 2, 3, 4, 7], 3, order=order, tied=tied)
    parts, work = np.zeros((2, len(chain)), np.int64)
    space_sizes(chain.pack, parts, work)
    assert [sizes.tolist() for sizes in chain.instance_sizes()] == [parts.tolist(), work.tolist()]
    assert parts.tolist() == [chain.n_parts(i) for i in range(len(chain))]
