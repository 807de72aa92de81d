"""LaSO: learning as search optimisation (Daumé & Marcu 2005), for packed problems and for problems in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from partwise._digest import pack_digest
from partwise.exceptions import InputError, ParameterError
from partwise.learners.laso._learning import (
    AHEAD,
    ALL,
    ALMA,
    EARLY,
    ERRORS,
    EXPLORE,
    GENERATION,
    LARGEST,
    LASO,
    MASS,
    MAX_VIOLATION,
    NORM2,
    PERCEPTRON,
    SCALE,
    STANDARD,
    STEPS,
    UPDATES,
    Log,
    Rule,
    learn_pass,
    new_log,
)
from partwise.learners.loop import Callback, Certificate, CheckpointLike, Record, Result, State, run_passes
from partwise.objective import TrainingData

__all__ = ["LaSO", "PackedSearch", "SearchData"]

Floats = NDArray[np.float64]

UPDATE_RULES = {"perceptron": PERCEPTRON, "alma": ALMA}
MODES = {"laso": LASO, "early": EARLY, "standard": STANDARD, "max_violation": MAX_VIOLATION, "explore": EXPLORE}

RIVALS = {"all": ALL, "ahead": AHEAD}

#: A beam of this size is never full.
UNLIMITED = 1 << 40


class SearchData(Protocol):
    """Training data of a search problem."""

    m: int

    @property
    def dim(self) -> int: ...
    def run(self, order: NDArray[np.int64], rule: Rule, state: State) -> None: ...
    def recall(self, state: State) -> None: ...
    def digest(self) -> bytes: ...


class PackedSearch(TrainingData):
    """m inputs of a packed problem with ``dim`` weights; see :mod:`partwise.learners.laso.packed`.

    ``dynamic`` means that the problem's ``good_actions`` is defined for every state, y-good or not.
    """

    def __init__(self, pack: Any, dim: int, m: int, *, dynamic: bool = False) -> None:
        if m == 0:
            raise InputError("a problem needs at least one input")
        self.pack, self._dim, self.m, self.dynamic = pack, dim, m, dynamic
        self._delta = np.zeros(dim)

    @property
    def dim(self) -> int:
        return self._dim

    def run(self, order: NDArray[np.int64], rule: Rule, state: State) -> None:
        """One pass, in place."""
        self._run(order, rule, state, new_log())

    def _run(self, order: NDArray[np.int64], rule: Rule, state: State, log: Log) -> None:
        delta, self._delta = self._delta, np.zeros(0)  # not kept if Ctrl-C interrupts the pass
        if len(delta) != self.dim:
            delta = np.zeros(self.dim)
        learn_pass(self.pack, order, rule, state["numbers"], state["theta"], state["shift"], delta, log)
        self._delta = delta

    def recall(self, state: State) -> None:
        """A state holds nothing that the data should know."""

    def digest(self) -> bytes:
        """Of the inputs and their outputs."""
        return pack_digest(self.pack)


@dataclass(frozen=True)
class LaSO:
    """w ← w + Δ, or w ← ℘(w + C k^{−1/2} ℘(Δ)), whenever the search goes wrong.

    Daumé and Marcu (2005), Figure 2, eqs. (2) and (3).

    Δ = Σ_{n ∈ sibs} Φ(x, n)/|sibs| − Σ_{n ∈ nodes} Φ(x, n)/|nodes|. A search goes wrong when no y-good node is left in
    its queue, or when a goal that is not y-good comes to its head.

    Parameters
    ----------
    update : {"alma", "perceptron"}
        Eq. (3), which keeps ‖w‖ ≤ 1 and wants y-good nodes ahead by (1 − α)B k^{−1/2}, or eq. (2).
    mode : {"laso", "early", "standard", "max_violation", "explore"}
        What happens after an error: continue from the y-good siblings; stop there (Collins & Roark 2004); compare
        complete outputs only; update where the best node is furthest ahead of the y-good one (Huang et al. 2012); or
        continue from the wrong nodes (Goldberg & Nivre 2013), for data with a dynamic oracle.
    beam : int, optional
        How many nodes a queue keeps, in packed problems; None for all.
    rivals : {"all", "ahead"}
        Which nodes Δ subtracts at an error, in the modes "laso" and "early": all that are left in the queue, as in eq.
        (2), or only those that are ahead of the first y-good one. They differ where a wrong goal comes to the head of a
        queue that still has the right one: then most of a large beam is behind, and would be pushed down for nothing.
    alpha : float in (0, 1]
        The degree of approximation of the maximal margin.
    margin_scale : float, optional
        B; 1/α if absent.
    step_scale : float
        C of eq. (3).
    average : bool
        Whether the answer is the mean of w over all inputs of all passes.
    shuffle : bool
        Whether each pass visits the inputs in an order of its own.

    max_passes : int
    random_state : int
        Seed of the orders.

    Examples
    --------
    >>> LaSO(beam=0)
    Traceback (most recent call last):
        ...
    partwise.exceptions.ParameterError: The 'beam' parameter of LaSO must be at least 1, or None. Got 0 instead.
    """

    max_passes: int = 10
    update: str = "alma"
    mode: str = "laso"
    beam: int | None = 5
    rivals: str = "all"
    alpha: float = 0.9
    margin_scale: float | None = None
    step_scale: float = math.sqrt(2.0)
    average: bool = True
    shuffle: bool = True
    random_state: int = 0

    def __post_init__(self) -> None:
        if not self.max_passes >= 0:
            raise ParameterError("max_passes", "LaSO", "at least 0", self.max_passes)
        for name, known in (("update", UPDATE_RULES), ("mode", MODES), ("rivals", RIVALS)):
            if getattr(self, name) not in known:
                raise ParameterError(name, "LaSO", f"one of {', '.join(map(repr, known))}", getattr(self, name))
        if self.beam is not None and (isinstance(self.beam, bool) or not self.beam >= 1):
            raise ParameterError("beam", "LaSO", "at least 1, or None", self.beam)
        if not 0 < self.alpha <= 1:
            raise ParameterError("alpha", "LaSO", "above 0 and at most 1", self.alpha)
        for name in ("margin_scale", "step_scale"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ParameterError(name, "LaSO", "a positive number", value)

    @property
    def rule(self) -> Rule:
        """The settings as the kernels want them."""
        scale = 1.0 / self.alpha if self.margin_scale is None else float(self.margin_scale)
        size = UNLIMITED if self.beam is None else int(self.beam)
        rule, mode, rivals = UPDATE_RULES[self.update], MODES[self.mode], RIVALS[self.rivals]
        return Rule(rule, mode, size, float(self.alpha), scale, float(self.step_scale), rivals)

    def fit(
        self,
        data: SearchData,
        *,
        theta: Floats | None = None,
        score: Callable[[Floats], float] | None = None,
        patience: int | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: CheckpointLike | None = None,
    ) -> Result:
        """Run passes until one brings no update; as :meth:`partwise.learners.Learner.fit`."""
        if not hasattr(data, "run") or not hasattr(data, "dim"):
            raise InputError(f"LaSO trains search problems, not {type(data).__name__}")
        if self.mode == "explore" and not getattr(data, "dynamic", False):
            known = ", ".join(repr(mode) for mode in MODES if mode != "explore")
            raise ParameterError(
                "mode", "LaSO", f"one of {known} for problems without y-good actions after an error", self.mode
            )
        start = np.zeros(data.dim) if theta is None else np.array(theta, float)
        return run_passes(
            _Bound(self, data), max_passes=self.max_passes, theta=start, score=score, patience=patience,
            callbacks=callbacks, checkpoint=checkpoint,
        )  # fmt: skip

    def start(self, theta: Floats) -> State:
        """The state before the first pass."""
        numbers = np.zeros(8)
        numbers[GENERATION] = numbers[SCALE] = 1.0
        norm = float(np.sqrt(theta @ theta))
        if self.update == "alma" and norm > 1.0:
            theta = theta / norm
        numbers[NORM2] = float(theta @ theta)
        return {"theta": theta, "shift": np.zeros_like(theta), "numbers": numbers, "passes": 0}

    def advance(self, data: SearchData, state: State) -> dict[str, Any]:
        """One pass. Converged when it brings no update."""
        numbers: Floats = state["numbers"]
        before = numbers.copy()
        order = np.arange(data.m)
        if self.shuffle:
            order = np.random.default_rng([self.random_state, state["passes"]]).permutation(data.m)
        data.run(order, self.rule, state)
        state["passes"] += 1
        updates = float(numbers[UPDATES] - before[UPDATES])
        extra = {
            "updates": updates,
            "corrections": float(numbers[ERRORS]),
            "norm": float(np.sqrt(max(numbers[NORM2], 0.0))),
            "largest_norm": float(np.sqrt(numbers[LARGEST])),
        }
        return {"converged": updates == 0.0, "extra": extra}

    def weights(self, state: State) -> Floats:
        numbers, theta = state["numbers"], state["theta"]
        if not self.average or numbers[STEPS] == 0:
            return np.array(numbers[SCALE] * theta)
        return np.array((numbers[MASS] * theta + state["shift"]) / numbers[STEPS])


class _Bound:
    """LaSO with its data, as the loop wants it. There is no objective, and so no certificate."""

    certifies = "problem"

    def __init__(self, learner: LaSO, data: SearchData) -> None:
        self.learner, self.data = learner, data
        self.start, self.weights, self.resume = learner.start, learner.weights, data.recall

    def advance(self, state: State) -> dict[str, Any]:
        return self.learner.advance(self.data, state)

    def better(self, new: Record, best: Record) -> bool:
        return new.score is None or best.score is None or new.score > best.score

    def satisfied(self, certificate: Certificate | None) -> bool:
        return False

    def certify(self, known: dict[str, Any], theta: Floats, best_dual: float) -> str:
        return ""
