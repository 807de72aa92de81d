"""The conformance suite: every oracle of a structure against enumeration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from partwise.structures.base import ORACLES, Structure
from partwise.testing import _oracle_checks as oracle
from partwise.testing import _polytope_checks as polytope
from partwise.testing import _space_checks as space
from partwise.testing.cases import SCORES, Case, Check, draw_scores
from partwise.testing.enumeration import enumerated

__all__ = ["CHECKS", "check_structure", "checks_of"]

#: Oracle → what is checked of it; "" holds for every structure.
CHECKS: dict[str, list[Check]] = {
    "argmax": [oracle.check_argmax, oracle.check_argmax_of_nothing, oracle.check_bound],
    "bound": [],
    "marginals": [
        oracle.check_marginals, oracle.check_marginals_of_nothing, oracle.check_entropy, oracle.check_gradient,
    ],
    "kbest": [oracle.check_kbest],
    "sample": [oracle.check_sample],
    "project": [polytope.check_project],
    "marginal_entropy": [polytope.check_marginal_entropy],
    "slack": [polytope.check_slack],
    "support": [polytope.check_support],
    "gibbs": [polytope.check_gibbs],
    "polytope": [polytope.check_polytope],
    "": [space.check_round_trip, space.check_constraints, space.check_encode_all, space.check_missing_oracles],
}  # fmt: skip


def checks_of(oracles: Iterable[str]) -> list[Check]:
    """The checks of these oracles, then those of every structure."""
    able = set(oracles) | {""}
    return [check for name in [*ORACLES, ""] if name in able for check in CHECKS[name]]


def check_structure(
    structure: Structure | Case, outputs: Sequence[Iterable[Any]] | None = None, *, rounds: int = 3, seed: int = 0
) -> None:
    """Check every oracle that a structure has against all outputs of its instances; raises AssertionError.

    Parameters
    ----------
    structure : Structure or Case
        A space of a few small instances.
    outputs : one list of all outputs per instance
        Listed by you, independently of the structure. Not needed with a :class:`Case`.
    rounds : int
        How often each kind of scores is drawn (normal, tied, huge, −inf, …).

    Examples
    --------
    >>> from itertools import product
    >>> from partwise import Chain
    >>> check_structure(Chain([2], n_labels=2), [list(product(range(2), repeat=2))], rounds=1)
    """
    if isinstance(structure, Case):
        case = structure
    else:
        if outputs is None or len(outputs) != len(structure):
            raise AssertionError(f"expected the outputs of {len(structure)} instances")
        case = Case(structure, [enumerated(structure, i, listed) for i, listed in enumerate(outputs)])
    rng = np.random.default_rng(seed)
    for check in checks_of(case.structure.oracles):
        for kind in SCORES:
            for _ in range(rounds):
                for i in range(len(case.instances)):
                    try:
                        check(case, i, draw_scores(kind, case, i, rng), rng)
                    except AssertionError as error:
                        name = f"{type(case.structure).__name__}, {check.__name__}, instance {i}, {kind} scores"
                        raise AssertionError(f"{name}: {error}") from error
