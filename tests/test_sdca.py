"""SDCA meets L-BFGS at the optimum of every smooth loss, with a certificate; entropies of given marginals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from problems import Memory, Tiny, tiny, tiny_multiclass

from partwise.data import load_sample
from partwise.estimators import SequenceLabeler
from partwise.exceptions import CapabilityError
from partwise.features import ChainFeatures, MatrixFeatures
from partwise.learners import LBFGS, SDCA
from partwise.losses import Loss
from partwise.problem import Problem
from partwise.structures.base import Structure
from partwise.structures.chain import Chain

Floats = NDArray[np.float64]


def untied(case: Tiny, loss: Loss | str, **constraints: object) -> Problem:
    """The same problem over parts of every position, with the same weights."""
    space = case.space
    assert isinstance(space, Chain)
    chain = Chain(space.lengths, space.n_labels, order=space.order, tied=False, **constraints)  # type: ignore[arg-type]
    rows = case.layout.pack(case.rows)
    features = ChainFeatures(rows, case.layout.dim, space.n_labels, space.order, tied=False)
    return Problem(chain, features, case.outputs, loss)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_repeated_weights_are_the_tied_ones(order: int) -> None:
    case = tiny(seed=5, order=order, n_labels=2, lengths=(3, 1, 5, 2))
    theta = case.theta(np.random.default_rng(0))
    tied, repeated = case.problem("crf"), untied(case, "crf")
    (a, b), (c, d) = tied.loss_and_gradient(theta), repeated.loss_and_gradient(theta)
    assert a == pytest.approx(c)
    np.testing.assert_allclose(b, d, atol=1e-12)


@pytest.mark.parametrize("loss", [Loss(1.0, 0.0), Loss(1.0, 1.0), Loss(4.0, 1.0)], ids=str)
@pytest.mark.parametrize("sampling", ["permutation", "gap"])
def test_meets_lbfgs(loss: Loss, sampling: str) -> None:
    case, C = tiny(seed=3), 1.0
    reference = LBFGS(C=C, max_passes=1000, tolerance=1e-9).fit(case.problem(loss)).theta
    best = case.objective(reference, loss, C)
    result = SDCA(C=C, tolerance=1e-7, sampling=sampling, max_passes=300).fit(untied(case, loss))
    assert result.status == "converged" and result.certificate is not None
    assert result.certificate.dual <= best + 1e-9 and abs(result.certificate.primal - best) <= 2e-7 * best
    np.testing.assert_allclose(result.theta, reference, atol=2e-3)
    duals = np.array([record.dual for record in result.trace], float)
    assert np.diff(duals).min() >= -1e-12 and duals[0] > 0


def test_the_dual_is_the_one_of_its_marginals() -> None:
    """Σ_i γℓ(μ_i) + H(μ_i)/β − ‖θ‖²/(2C), with θ, ℓ and H from the stored marginals and their definitions."""
    case, loss, C = tiny(seed=4), Loss(2.0, 1.0), 0.5
    problem = untied(case, loss)
    learner = SDCA(C=C, tolerance=0.0)
    state = learner.start(problem, np.zeros(problem.dim), None)
    for _ in range(3):
        known = learner.advance(problem, state)
    theta, total = np.zeros(problem.dim), 0.0
    for i in range(problem.m):
        mean = state["duals"][problem.part_offsets[i] : problem.part_offsets[i + 1]]
        gold = problem.space.encode(i, case.outputs[i])
        problem.features.accumulate(i, gold - mean, C, theta)
        atoms = problem.space.n_atoms(i)
        total += loss.gamma * (1 - mean[:atoms][gold[:atoms] == 1]).sum()
        total += problem.space.marginal_entropy(i, mean)[0] / loss.beta
    np.testing.assert_allclose(state["theta"], theta, atol=1e-10)
    np.testing.assert_allclose(known["dual"], (total - 0.5 * theta @ theta / C) / problem.m, rtol=1e-10)


def test_multiclass_and_constraints() -> None:
    case = tiny_multiclass()
    best = case.objective(LBFGS(C=2.0, tolerance=1e-9).fit(case.plain("crf")).theta, Loss.named("crf"), 2.0)
    labels = [y[0] for y in case.outputs]
    result = SDCA(C=2.0, tolerance=1e-8).fit(Problem(case.space, MatrixFeatures(case.matrices), labels, "crf"))
    assert result.certificate.primal == pytest.approx(best, rel=1e-7)  # type: ignore[union-attr]
    rules = {"transitions": [[True, True, False], [True, True, True], [False, True, True]], "start": [1, 1, 0]}
    limited = tiny(seed=6, **rules)
    reference = LBFGS(C=1.0, tolerance=1e-9, max_passes=500).fit(limited.problem("crf")).theta
    result = SDCA(C=1.0, tolerance=1e-6).fit(untied(limited, "crf", **rules))
    best = limited.objective(reference, Loss.named("crf"), 1.0)
    assert result.status == "converged" and result.certificate.primal == pytest.approx(best, rel=2e-6)  # type: ignore[union-attr]


def test_a_start_and_a_resumed_run() -> None:
    problem = untied(tiny(seed=3), "crf")
    learner = SDCA(C=1.0, tolerance=0.0, max_passes=8, sampling="gap")
    whole, memory = learner.fit(problem), Memory()
    SDCA(C=1.0, tolerance=0.0, max_passes=3, sampling="gap").fit(problem, checkpoint=memory)
    np.testing.assert_array_equal(learner.fit(problem, checkpoint=memory).theta, whole.theta)
    once = SDCA(C=1.0, max_passes=1)
    cold, warm = once.fit(problem), once.fit(problem, theta=whole.theta)
    assert warm.certificate.primal < cold.certificate.primal  # type: ignore[union-attr]


def test_plain_python_is_the_same() -> None:
    class Plain(Structure):
        """A compiled structure seen from outside."""

        def __init__(self, inner: Chain) -> None:
            self.inner = inner
            self.n_parts, self.n_atoms, self.encode = inner.n_parts, inner.n_atoms, inner.encode  # type: ignore[method-assign]
            self.marginals, self.marginal_entropy = inner.marginals, inner.marginal_entropy  # type: ignore[method-assign]

        def __len__(self) -> int:
            return len(self.inner)

        def n_parts(self, i: int) -> int:
            raise NotImplementedError

        def encode(self, i: int, y: object) -> Floats:
            raise NotImplementedError

    problem = untied(tiny(seed=3), "crf")
    assert isinstance(problem.space, Chain)
    plain = Problem(Plain(problem.space), problem.features, tiny(seed=3).outputs, "crf")
    assert not plain.compiled
    learner = SDCA(max_passes=4, tolerance=0.0)
    np.testing.assert_allclose(learner.fit(plain).theta, learner.fit(problem).theta, atol=1e-10)


def test_a_tied_chain_has_no_entropy_of_its_marginals() -> None:
    case = tiny(seed=3)
    assert "marginal_entropy" not in case.space.oracles
    assert "marginal_entropy" in Chain([2], 2, tied=False).oracles
    with pytest.raises(CapabilityError, match=r"Chain has no oracle 'marginal_entropy', which SDCA needs"):
        SDCA().fit(case.problem("crf"))
    with pytest.raises(CapabilityError, match="Chain has no marginal_entropy"):
        case.space.marginal_entropy(0, np.zeros(case.space.n_parts(0)))
    with pytest.raises(CapabilityError, match="convex losses with β < ∞, not svm"):
        SDCA().fit(untied(case, "svm"))


@pytest.mark.parametrize("order", [1, 2])
def test_labeler_trains_untied_and_predicts_tied(order: int) -> None:
    train = load_sample("english", split="train").subset(range(12))
    tags = train.column("chunk")
    model = SequenceLabeler("chunking", learner="sdca", C=0.5, order=order, learner_options={"tolerance": 1e-5})
    model.fit(train, tags)
    assert model.result_.status == "converged"
    other = SequenceLabeler("chunking", C=0.5, order=order, max_passes=300, learner_options={"tolerance": 1e-8})
    other.fit(train, tags)
    assert model.result_.certificate.primal == pytest.approx(other.result_.trace[-1].objective, rel=2e-5)
    np.testing.assert_allclose(model.theta_, other.theta_, atol=2e-2)
    assert model.predict(train) == other.predict(train)
