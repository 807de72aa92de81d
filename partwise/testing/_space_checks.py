"""What every structure must keep to, whatever oracles it has."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import CapabilityError
from partwise.structures.base import ORACLES
from partwise.testing._helpers import raises
from partwise.testing.cases import Case

Floats = NDArray[np.float64]


def check_round_trip(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    structure, instance = case.structure, case.instances[i]
    assert len(structure) == len(case.instances)
    assert structure.n_parts(i) == instance.parts.shape[1] >= structure.n_atoms(i)
    for y, parts in zip(instance.outputs, instance.parts, strict=True):
        np.testing.assert_array_equal(structure.encode(i, y), parts)
        np.testing.assert_array_equal(structure.decode(i, parts), y)
        assert structure.allows(i, parts)


def check_constraints(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    assert case.structure.constrained or not case.instances[i].forbidden
    for y in case.instances[i].forbidden:
        parts = case.structure.encode(i, y)
        assert not case.structure.allows(i, parts)
        assert "forbidden by the constraints" in case.structure.forbidden_part(i, parts)


def check_encode_all(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    ys = [instance.outputs[rng.integers(len(instance.outputs))] for instance in case.instances]
    offsets, numbers, values = case.structure.encode_all(ys)
    assert offsets.dtype == np.int64 and numbers.dtype == np.int32 and values.dtype == np.float64
    for j, y in enumerate(ys):
        span = slice(offsets[j], offsets[j + 1])
        parts = np.zeros(case.structure.n_parts(j))
        np.add.at(parts, numbers[span], values[span])
        np.testing.assert_array_equal(parts, case.structure.encode(j, y))


def check_missing_oracles(case: Case, i: int, scores: Floats, rng: np.random.Generator) -> None:
    """What is not declared fails by name, and nothing stands in for it."""
    arguments = {"kbest": (1,), "sample": (1, rng), "slack": (scores,), "support": (scores,)}
    for oracle in ORACLES.keys() - case.structure.oracles - {"bound"}:  # every exact argmax has one
        given = () if oracle == "polytope" else (scores, *arguments.get(oracle, ()))
        with raises(CapabilityError, f"{type(case.structure).__name__} has no {oracle}"):
            getattr(case.structure, oracle)(i, *given)
