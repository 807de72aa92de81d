"""Learning T by ascent of Σ_d log p(y_d | w_d, T, Φ): step 3 of Table 4.1, for any engine and any C."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .corpus import Corpus
from .engines import Engine
from .transforms import log_domain_gradient, softmax_columns

__all__ = ["LearningState", "learn_transformation", "split_validation"]


def split_validation(labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(training, validation) document ids: ``fraction`` of every class; MISSING stays in training."""
    generator = np.random.default_rng([seed, 21])
    held: list[np.ndarray] = []
    for y in range(labels.max() + 1):
        members = generator.permutation(np.flatnonzero(labels == y))
        held.append(members[: max(1, round(fraction * members.size))])
    validation = np.sort(np.concatenate(held))
    return np.setdiff1d(np.arange(labels.size), validation), validation


@dataclass
class LearningState:
    """The state of the ascent: enough to resume from, and the best point so far."""

    parameters: np.ndarray  # t, (C, K, L)
    phi: np.ndarray  # (V, K)
    best_parameters: np.ndarray
    best_phi: np.ndarray
    best_score: tuple[float, float]  # validation error, then mean −log p: ties are broken by the second
    n_rounds: int = 0
    stale: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def _score(
    engine: Engine, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, parameters: np.ndarray
) -> tuple[float, float]:
    probabilities = engine.posterior(corpus, phi, softmax_columns(parameters)).probabilities
    chosen = probabilities[np.arange(labels.size), labels]
    error = float((probabilities.argmax(axis=1) != labels).mean())
    return error, float(-np.log(np.maximum(chosen, 1e-300)).mean())


def start_learning(
    engine: Engine, corpus: Corpus, labels: np.ndarray, phi: np.ndarray, parameters: np.ndarray
) -> LearningState:
    """The state before the first round, scored on the validation documents."""
    score = _score(engine, corpus, labels, phi, parameters)
    state = LearningState(parameters, phi, parameters, phi, score)
    state.history.append({"round": 0, "error": score[0], "loss": score[1]})
    return state


def learn_transformation(
    engine: Engine,
    train: tuple[Corpus, np.ndarray],
    validation: tuple[Corpus, np.ndarray],
    state: LearningState,
    step_size: float,
    gradient_steps: int,
    n_rounds: int,
    patience: int,
    progress: Callable[[LearningState], Any] | None = None,
) -> LearningState:
    """Repeat rounds of N_g gradient steps (4.7) and one local update of Φ; keep the best on validation.

    t ← t + (η/D) Σ_d ∂ log p(y_d | w_d, T, Φ) / ∂t   (the mean, so that η does not depend on D)

    Stops after ``n_rounds``, or ``patience`` rounds without a better validation error (then loss).
    """
    corpus, labels = train
    while state.n_rounds < n_rounds and state.stale < patience:
        for inner in range(gradient_steps):
            transformation = softmax_columns(state.parameters)
            step = state.n_rounds * gradient_steps + inner
            slope, posterior = engine.gradient(corpus, labels, state.phi, transformation, step)
            ascent = log_domain_gradient(slope, transformation) / max(1, int((labels >= 0).sum()))
            state.parameters = state.parameters + step_size * ascent
        transformation = softmax_columns(state.parameters)
        state.phi = engine.update_phi(corpus, labels, state.phi, transformation, state.n_rounds)
        state.n_rounds += 1
        score = _score(engine, *validation, state.phi, state.parameters)
        known = labels >= 0
        fitted = posterior[known, labels[known]]
        entry = {"round": state.n_rounds, "error": score[0], "loss": score[1]}
        entry["train_loss"] = float(-np.log(np.maximum(fitted, 1e-300)).mean())
        state.history.append(entry)
        if score < state.best_score:
            state.best_score, state.stale = score, 0
            state.best_parameters, state.best_phi = state.parameters, state.phi
        else:
            state.stale += 1
        if progress is not None and progress(state):
            break
    return state
