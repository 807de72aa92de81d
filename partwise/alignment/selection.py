"""Model and C of a word aligner by cross-validation on its gold pairs, beside the generative aligner under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.alignment.link_files import GoldLinks, Link
from partwise.alignment.scores import AlignmentScores, alignment_scores
from partwise.learners.cutting_plane import NSlack

__all__ = ["AUTO", "FEW", "GRIDS", "Choice", "Selection", "difference_error", "select", "trials"]

Choice = tuple[str, float]  # model, C

GRIDS: dict[str, tuple[Choice, ...]] = {
    "L": (("L", 0.1), ("L", 1.0)),
    "M": (("M", 0.01), ("M", 0.1), ("M", 1.0)),
    "M+F": (("M+F", 0.01), ("M+F", 0.1), ("M+F", 1.0)),
}
AUTO: tuple[Choice, ...] = (("L", 1.0), ("L", 0.3), ("M", 0.1), ("M+F", 0.1))
FOLDS = 5
MOST = 200  # gold pairs that take part: more make the choice slower, and hardly better
SURE = 1.0  # standard errors by which a choice must beat the generative aligner, or a model those before it
ENOUGH, FAIR = 50, 0.25  # from so many gold pairs on, so many standard errors above the generative aligner
ROUGH = 0.01  # gap of the weights that are compared; those that are kept have the learner's own
FEW = 0.1  # C where there are fewer than two pairs, of which none could be held out


class Selection(NamedTuple):
    """Model and C, the alignment error rate of each choice on pairs it was not trained on, and the generative one's.

    ``standard_error`` is that of the difference between the choice and the generative aligner, over the gold pairs.
    ``dropped`` are choices that were given up before the last fold, with their error rates so far. ``n_pairs``: number
    of gold pairs that took part.
    """

    model: str
    C: float
    errors: dict[Choice, float]
    generative: float
    standard_error: float = 0.0
    dropped: dict[Choice, float] = {}  # noqa: RUF012
    n_pairs: int = 0

    @property
    def improves(self) -> bool:
        """Whether training on gold links improved on the generative aligner; if not, the latter's links are returned.

        A gain within one standard error may be chance; then the simpler of the two is kept, by the rule of Breiman et
        al. (1984, §3.4.3). From fifty gold pairs on, learning almost always helps more than cross-validation can
        show, and a quarter is enough.
        """
        needed = (FAIR if self.n_pairs >= ENOUGH else SURE) * self.standard_error
        return not self.errors or self.generative - self.errors[self.model, self.C] > needed

    def __str__(self) -> str:
        found, early = (
            ", ".join(f"{100 * error:.2f}% with {model}, C = {C:g}" for (model, C), error in errors.items())
            for errors in (self.errors, self.dropped)
        )
        below = f"{100 * self.generative:.2f}% by the generative aligner"
        return (
            f"cross-validated AER {found or 'unknown'}; {below}"
            + (f" (standard error of the difference {100 * self.standard_error:.2f})" if self.errors else "")
            + (f"; given up before the last fold, on fewer pairs: {early}" if early else "")
        )


def select(
    train: Callable[[list[int], list[int], Sequence[Choice]], list[list[list[Link]]]],
    gold: Sequence[GoldLinks],
    generative: Sequence[Any],
    seed: int,
    choices: Sequence[Choice] = GRIDS["M"],
) -> Selection:
    """The choice with the lowest AER of pairs aligned by weights learned from the other folds, the first of equal ones.

    Of several models, the first whose best choice is within one standard error of the least. A choice of another model
    that is more than a standard error worse than the first model after two folds, or later, is given up.

    Parameters
    ----------
    train : of (training pairs, held-out pairs, choices) → for each choice the links of the held-out pairs
    gold : gold links of all pairs; of more than 200, some 200 take part
    generative : links of all pairs by the generative aligner, which has seen no gold links
    """
    order = np.random.default_rng(seed).permutation(len(gold))[:MOST]
    places = np.sort(order).tolist()
    truth = [gold[i] for i in places]
    baseline = alignment_scores(truth, [generative[i] for i in places])
    folds = min(FOLDS, len(order))
    if folds < 2:
        return Selection(choices[0][0], FEW, {}, baseline.aer)
    links: dict[Choice, dict[int, Any]] = {choice: {} for choice in choices}
    alive, dropped = list(choices), dict[Choice, float]()
    for fold in range(folds):
        held = np.sort(order[fold::folds]).tolist()
        rest = np.setdiff1d(order, held).tolist()
        for choice, found in zip(alive, train(rest, held, alive), strict=True):
            links[choice].update(zip(held, found, strict=True))
        if 0 < fold < folds - 1:
            scores = _scores(alive, links, gold)
            best = _best(scores, [alive[0][0]])
            others = [choice for choice in alive if choice[0] != best[0]]
            behind = [choice for choice in others if not _close(scores[choice], scores[best])]
            dropped |= {choice: scores[choice].aer for choice in behind}
            alive = [choice for choice in alive if choice not in behind]
    scores = _scores(alive, links, gold)
    models = list(dict.fromkeys(model for model, _ in alive))
    least = _best(scores, models)
    bests = [_best(scores, [model]) for model in models]
    best = next(own for own in bests if _close(scores[own], scores[least]))
    error = difference_error(baseline.counts, scores[best].counts)
    errors = {choice: found.aer for choice, found in scores.items()}
    return Selection(*best, errors, baseline.aer, error, dropped, len(order))


def _scores(
    choices: Sequence[Choice], links: dict[Choice, dict[int, Any]], gold: Sequence[GoldLinks]
) -> dict[Choice, AlignmentScores]:
    """Of each choice, on the pairs aligned so far."""
    done = sorted(links[choices[0]])
    truth = [gold[i] for i in done]
    return {choice: alignment_scores(truth, [links[choice][i] for i in done]) for choice in choices}


def _best(scores: dict[Choice, AlignmentScores], models: Sequence[str]) -> Choice:
    """The choice with the lowest error among those of these models, the first of equal ones."""
    return min((choice for choice in scores if choice[0] in models), key=lambda choice: scores[choice].aer)


def _close(scores: AlignmentScores, least: AlignmentScores) -> bool:
    """Whether the error is at most a standard error above the least."""
    return scores.aer - least.aer <= SURE * difference_error(scores.counts, least.counts)


def trials(
    aligner: Any, X: Sequence[Any], gold: Sequence[GoldLinks]
) -> Callable[[list[int], list[int], Sequence[Choice]], list[list[list[Link]]]]:
    """What ``select`` calls: trains this aligner with each choice; choices of one model share its problem."""

    def train(rest: list[int], held: list[int], choices: Sequence[Choice]) -> list[list[list[Link]]]:
        found: list[list[list[Link]]] = []
        before, problem, unseen = "", None, None
        for model, C in choices:
            learner, loss = aligner.set_params(model=model, C=C)._settings()
            if isinstance(learner, NSlack) and aligner.learner is None and not aligner.learner_options:
                learner = replace(learner, tolerance=ROUGH)
            if model != before:
                problem = aligner._make_problem([X[i] for i in rest], [gold[i] for i in rest], learner, loss)
                unseen, before = aligner.map_([X[i] for i in held]), model
            result = learner.fit(problem)
            if result.status == "interrupted":
                raise KeyboardInterrupt
            found.append(aligner._decode(unseen, aligner._final(result.theta)))
        return found

    return train


def difference_error(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Standard error of AER(first) − AER(second) on the same n pairs, by the jackknife.

    √((n − 1)/n · Σ_i (d_i − d̄)²), d_i the difference without pair i; both hold (n, 4) counts of ``AlignmentScores``.

    Examples
    --------
    >>> a, b = np.array([[2, 2, 2, 2], [2, 2, 0, 0]]), np.array([[2, 2, 1, 1], [2, 2, 1, 1]])
    >>> difference_error(a, b)  # ∓ 1/2 without the one or the other
    0.5
    """
    without = []
    for counts in (first, second):
        linked, sure, both, possible = counts.sum(axis=0)[:, None] - counts.T
        without.append(1.0 - (both + possible) / np.maximum(linked + sure, 1))
    left_out = without[0] - without[1]
    return float(np.sqrt((len(left_out) - 1) * left_out.var()))
