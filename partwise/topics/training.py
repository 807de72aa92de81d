"""One DiscLDA training run: phase 1 fits Φ for a given T, phase 2 learns T; either can be resumed.

``Training`` holds everything that changes while training, can be written to a (header, arrays) checkpoint
after any sweep or round, and continues from one as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.exceptions import InputError

from ._state import State
from .corpus import MISSING, Corpus
from .engines import GibbsEngine, JointChain, VariationalEngine, phi_from_counts
from .hyper import document_topic_counts, log_joint
from .learning import LearningState, learn_transformation, split_validation, start_learning
from .transforms import block_transformation, smoothed_start, softmax_columns

__all__ = ["Plan", "Training"]


@dataclass
class Plan:
    """What a training run is to do: the estimator's settings, checked."""

    n_classes: int
    class_topics: int
    shared_topics: int
    learned: bool
    n_iterations: int
    n_phi: int
    phi_lag: int
    impute_every: int
    step_sizes: tuple[float, ...]
    gradient_steps: int
    n_rounds: int
    patience: int
    validation_fraction: float
    refit: bool
    sharpness: float
    seed: int


class Training:
    """Table 4.1 on one corpus. ``phis`` and ``transformation`` hold the result after ``run``."""

    def __init__(self, plan: Plan, engine: GibbsEngine | VariationalEngine, corpus: Corpus, labels: np.ndarray) -> None:
        self.plan, self.engine = plan, engine
        self.everything = (corpus, labels)
        block = block_transformation(plan.n_classes, plan.class_topics, plan.shared_topics)
        if plan.learned:
            self.start = smoothed_start(block, plan.sharpness)
            self.transformation = softmax_columns(self.start)
            kept, held = split_validation(labels, plan.validation_fraction, plan.seed)
            self.train = (corpus.take(kept), labels[kept])
            self.validation = (corpus.take(held), labels[held])
        else:
            self.transformation = block
            self.train = self.everything
        self.phis: list[np.ndarray] = []
        self.stopped = False
        self.n_iterations = 0
        self.candidate = 0
        self.learning: LearningState | None = None
        self.winner: LearningState | None = None
        self.winners: list[dict[str, Any]] = []
        self.chain: JointChain | None = None
        if isinstance(engine, GibbsEngine):
            self.chain = JointChain(*self.train, self.transformation, engine.alpha, engine.beta, plan.seed)
        else:
            self.phi = self._random_phi()

    def _random_phi(self) -> np.ndarray:
        """Start of the mean-field route: the word frequencies, perturbed a topic at a time."""
        corpus = self.train[0]
        generator = np.random.default_rng([self.plan.seed, 31])
        frequency = np.bincount(corpus.words, minlength=corpus.n_words) + self.engine.beta
        noise = generator.gamma(1.0, size=(corpus.n_words, self.transformation.shape[1]))
        return phi_from_counts(frequency[:, None] * noise, self.engine.beta)

    # ------------------------------------------------------------------ running

    def run(self, progress: Callable[[int], Any]) -> None:
        """Both phases; ``progress(number of sweeps and rounds so far)`` may return True to stop."""
        plan = self.plan
        needed = plan.n_iterations + (plan.n_phi - 1) * plan.phi_lag
        while self.n_iterations < needed:
            self._iterate()
            past = self.n_iterations - plan.n_iterations
            if past >= 0 and past % plan.phi_lag == 0:
                self.phis.append(self.current_phi)
            if progress(self.n_iterations):
                self.stopped = True
                break
        if not self.phis:
            self.phis.append(self.current_phi)
        if plan.learned and not self.stopped:  # stopped before it was learned, T stays at its start
            self._learn(progress)

    @property
    def current_phi(self) -> np.ndarray:
        return self.phi if self.chain is None else self.chain.phi

    def log_likelihood(self) -> float | None:
        """log p(w, u, z | y) of the current sample with Φ and θ integrated out; None for mean field."""
        if self.chain is None:
            return None
        chain = self.chain
        kept = chain.labels != MISSING
        tokens = np.repeat(kept, chain.corpus.lengths)
        offsets = np.concatenate([[0], np.cumsum(chain.corpus.lengths[kept])])
        counts = document_topic_counts(offsets, chain.z[tokens], self.transformation.shape[2])
        chosen = self.transformation[
            np.repeat(chain.labels, chain.corpus.lengths)[tokens], chain.u[tokens], chain.z[tokens]
        ]
        return log_joint(counts, chain.table, chain.alpha, chain.beta) + float(np.log(chosen).sum())

    def _iterate(self) -> None:
        """One sweep of the sampler, or one round of variational EM."""
        corpus, labels = self.train
        if self.chain is None:
            # Documents without a label join once the topics of the classes have formed.
            early = self.n_iterations < self.plan.n_iterations // 2
            known = np.flatnonzero(labels != MISSING) if early else np.arange(labels.size)
            part = (corpus, labels) if known.size == labels.size else (corpus.take(known), labels[known])
            self.phi = self.engine.update_phi(*part, self.phi, self.transformation, self.n_iterations)
        else:
            unlabelled = np.flatnonzero(labels == MISSING)
            late = self.n_iterations >= self.plan.n_iterations // 2
            if unlabelled.size and late and self.n_iterations % self.plan.impute_every == 0:
                assert isinstance(self.engine, GibbsEngine)
                self.chain.impute(unlabelled, self.engine)
            self.chain.sweep()
        self.n_iterations += 1

    def _learn(self, progress: Callable[[int], Any]) -> None:
        """Phase 2 once for every step size; the best on validation wins (Table 4.1)."""
        plan = self.plan

        def report(state: LearningState) -> Any:
            self.learning = state
            self.stopped = bool(progress(self.n_iterations + self.candidate * plan.n_rounds + state.n_rounds))
            return self.stopped

        while self.candidate < len(plan.step_sizes) and not self.stopped:
            if self.learning is None:
                self.learning = start_learning(self.engine, *self.validation, self.phis[0], self.start)
            settings = (plan.step_sizes[self.candidate], plan.gradient_steps, plan.n_rounds, plan.patience)
            state = learn_transformation(self.engine, self.train, self.validation, self.learning, *settings, report)
            summary = {"step_size": plan.step_sizes[self.candidate], "history": state.history}
            self.winners.append(summary)
            if self.winner is None or state.best_score < self.winner.best_score:
                self.winner = state
            self.candidate += 1
            self.learning = None
        assert self.winner is not None
        self.transformation = softmax_columns(self.winner.best_parameters)
        phi = self.winner.best_phi
        if plan.refit:  # the validation documents' words too: one more local update, on everything
            phi = self.engine.update_phi(*self.everything, phi, self.transformation, 10**6)
        self.phis = [phi]

    # ------------------------------------------------------------------ checkpoints

    def checkpoint(self) -> State:
        """Everything that has changed since the start, as (header, arrays)."""
        header: dict[str, Any] = {
            "tokens": self.everything[0].n_tokens,
            "n_iterations": self.n_iterations,
            "candidate": self.candidate,
            "winners": self.winners,
        }
        arrays = {f"phi_{i}": phi for i, phi in enumerate(self.phis)}
        if self.chain is None:
            arrays["phi"] = self.phi
        else:
            arrays |= {"z": self.chain.z, "u": self.chain.u, "labels": self.chain.labels}
        for name, state in (("learning", self.learning), ("winner", self.winner)):
            if state is not None:
                scalars = ("best_score", "n_rounds", "stale", "history")
                header[name] = {key: getattr(state, key) for key in scalars}
                for key in ("parameters", "phi", "best_parameters", "best_phi"):
                    arrays[f"{name}_{key}"] = getattr(state, key)
        return header, {key: array.copy() for key, array in arrays.items()}

    def restore(self, checkpoint: State) -> None:
        """Continue where ``checkpoint`` was taken."""
        header, arrays = checkpoint
        if header["tokens"] != self.everything[0].n_tokens:
            raise InputError(
                f"the checkpoint is of {header['tokens']} tokens, the data have {self.everything[0].n_tokens}"
            )
        self.n_iterations, self.candidate = header["n_iterations"], header["candidate"]
        self.winners = list(header["winners"])
        self.phis = [arrays[f"phi_{i}"] for i in range(sum(key[4:].isdigit() for key in arrays if key[:4] == "phi_"))]
        if self.chain is None:
            self.phi = arrays["phi"]
        else:
            self.chain.z, self.chain.u = arrays["z"].astype(np.int32), arrays["u"].astype(np.int32)
            self.chain.labels = arrays["labels"].astype(np.int64)
            self.chain.n_sweeps = self.n_iterations
            self.chain._count()
        for name in ("learning", "winner"):
            if name in header:
                keys = ("parameters", "phi", "best_parameters", "best_phi")
                values = {key: arrays[f"{name}_{key}"] for key in keys} | header[name]
                values["best_score"] = tuple(values["best_score"])
                setattr(self, name, LearningState(**values))
