"""The result of a training in a model's header: trace, certificate and status, without θ, which is an array."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import StorageError
from partwise.learners.base import Certificate, Record, Result

__all__ = ["result_from_json", "result_to_json"]


def result_to_json(result: Result) -> dict[str, Any]:
    """All but θ."""
    certificate = result.certificate
    return {
        "trace": [asdict(record) for record in result.trace],
        "certificate": None if certificate is None else asdict(certificate),
        "status": result.status,
        "best_step": result.best_step,
    }


def result_from_json(stored: dict[str, Any], theta: NDArray[Any]) -> Result:
    """The inverse; θ is checked to be a vector of finite numbers."""
    if theta.ndim != 1 or theta.dtype != np.float64 or not np.isfinite(theta).all():
        raise StorageError("theta is not a vector of finite float64 numbers")
    certificate = None if stored["certificate"] is None else Certificate(**stored["certificate"])
    trace = [Record(**record) for record in stored["trace"]]
    return Result(theta, trace, certificate, stored["status"], int(stored["best_step"]))
