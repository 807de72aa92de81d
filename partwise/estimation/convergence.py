"""Warnings for training that stopped before it converged, with the gap and advice."""

from __future__ import annotations

import warnings
from typing import Any

from partwise.learners.base import Record, Result

__all__ = ["unconverged", "warn_unconverged"]

#: A bound that allows more than this share of the objective tells nothing.
VAGUE = 1.0


def unconverged(learner: Any, result: Result, judged: bool = False) -> str:
    """Why the result of a convergent learner is not yet the minimum, in a sentence or two; empty if it is.

    ``judged``: the pass to return was chosen by a held-out score, which asks for no minimum.
    """
    if judged or not getattr(learner, "converges", False) or not result.trace:
        return ""
    if result.status != "max_passes" and not (result.status == "stalled" and learner.certified):
        return ""
    certificate = result.certificate
    if certificate is not None and certificate.of == "problem" and learner.near(certificate.gap, certificate.primal):
        return ""  # whatever the passes say, the bound proves it
    if result.status == "stalled" and _solved_for_its_oracle(learner, result):
        return ""
    name, passes = type(learner).__name__, len(result.trace)
    known = [_gap(result), _fall(result.trace)]
    asked = getattr(learner, "tolerance", None)
    told = "; ".join(text for text in known if text)
    if asked is not None:
        told += f" (tolerance {asked:g})" if told else f"the tolerance is {asked:g}"
    told, after = f"; {told}" if told else "", f"{passes} pass" if passes == 1 else f"{passes} passes"
    if result.status == "stalled":
        reason = result.uncertified or "no step improves the objective at this precision"
        advice = "A larger tolerance would accept this; another learner may get further."
        return f"training has not converged: {name} stalled after {after}, {reason}{told}. {advice}"
    advice = f"Allow more passes (max_passes, now {learner.max_passes}), a larger tolerance, or take a smaller C."
    return f"training has not converged: {name} stopped after {after} (max_passes){told}. {advice}"


def _solved_for_its_oracle(learner: Any, result: Result) -> bool:
    """Whether an inner oracle sees nothing better: what it attained is near the dual; only its bound is loose."""
    certificate, best = result.certificate, result.trace[result.best_step - 1]
    attained = best.extra.get("attained_objective")
    if certificate is None or certificate.of != "problem" or attained is None or result.best_step == 0:
        return False
    return bool(attained - certificate.dual <= getattr(learner, "tolerance", 0.0) * abs(attained))


def _gap(result: Result) -> str:
    certificate = result.certificate
    if certificate is None or not certificate.relative_gap <= VAGUE:
        return ""
    share = 100 * certificate.relative_gap
    return f"the objective {certificate.primal:.5g} lies at most {certificate.gap:.2g} ({share:.2g}%) above its minimum"


def _fall(trace: list[Record]) -> str:
    """How much the objective fell recently."""
    last = trace[-1].objective
    before = trace[-11 if len(trace) > 10 else 0].objective
    if last is None or before is None or len(trace) < 2:
        return ""
    share = 100 * (before - last) / max(abs(before), 1e-300)
    return f"over the last {min(10, len(trace) - 1)} passes the objective fell by {max(share, 0.0):.2g}%"


def warn_unconverged(learner: Any, result: Result, judged: bool = False) -> None:
    """Issue scikit-learn's ConvergenceWarning if :func:`unconverged` returns a reason."""
    message = unconverged(learner, result, judged)
    if message:
        from sklearn.exceptions import ConvergenceWarning  # a training that converged does not pay for it

        warnings.warn(message, ConvergenceWarning, stacklevel=5)
