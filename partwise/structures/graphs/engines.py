"""The inference engines of factor graphs: what each answers, how good that is, and the arrays it works on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from partwise.exceptions import ParameterError, unknown_name
from partwise.structures.graphs import belief, junction, mean_field, relaxed
from partwise.structures.graphs.ad3 import Ad3Settings
from partwise.structures.graphs.forests import Forests
from partwise.structures.graphs.junction_tree import Tree
from partwise.structures.graphs.messages import Schedule
from partwise.structures.graphs.pack import GraphSpace

__all__ = ["ENGINES", "Engine", "check_settings", "make_pack"]

SWEEPS = 100  # of sequential messages before AD³, at most
SHARE = 0.1  # of the largest residual: factors with less wait for a later sweep


class Engine(NamedTuple):
    """What an inference engine answers, and how good its answers are."""

    guarantees: Mapping[str, str]  # of oracles that are not exact
    words: str


#: The engines by name.
ENGINES = {
    "junction_tree": Engine({}, "exact, for graphs of small treewidth"),
    "loopy_bp": Engine({"argmax": "none", "marginals": "none"}, "belief propagation; exact on trees"),
    "trw": Engine({"argmax": "outer", "marginals": "outer"}, "log Z and the best score are never below the truth"),
    "mean_field": Engine({"argmax": "inner", "marginals": "inner"}, "log Z is never above the truth"),
    "branch_and_bound": Engine({}, "the best output by branch and bound on AD³"),
    "ad3": Engine({"argmax": "outer"}, "the linear relaxation, certified where it is tight"),
}


def check_settings(inference: str, max_table: int, max_iter: int | None, numbers: Mapping[str, float]) -> None:
    """Errors for settings that no engine can use."""
    if inference != "auto" and inference not in ENGINES:
        raise unknown_name("inference", inference, ["auto", *ENGINES])
    if max_table < 2:
        raise ParameterError("max_table", "FactorGraph", "at least 2", max_table)
    if max_iter is not None and max_iter < 1:
        raise ParameterError("max_iter", "FactorGraph", "at least 1", max_iter)
    if not numbers["tolerance"] > 0:
        raise ParameterError("tolerance", "FactorGraph", "a positive number", numbers["tolerance"])
    if not numbers["gap"] >= 0:
        raise ParameterError("gap", "FactorGraph", "a number ≥ 0", numbers["gap"])
    if not 0 <= numbers["damping"] < 1:
        raise ParameterError("damping", "FactorGraph", "in [0, 1)", numbers["damping"])
    if numbers["n_trees"] < 1:
        raise ParameterError("n_trees", "FactorGraph", "at least 1", numbers["n_trees"])
    if not numbers["time_limit"] > 0:
        raise ParameterError("time_limit", "FactorGraph", "a positive number of seconds", numbers["time_limit"])


def make_pack(
    graph: GraphSpace,
    inference: str,
    tree: Tree | None,
    forests: Forests | None,
    *,
    max_iter: int | None,
    tolerance: float,
    gap: float,
    damping: float,
    warm_start: bool,
) -> Any:
    """The arrays that the oracles of an engine work on."""
    if tree is not None:
        return junction.JunctionSpace(graph, tree)
    n = len(graph.node_start) - 1
    length, log = len(graph.edge_bit) if warm_start else 0, np.zeros((n, relaxed.LOGGED))
    sweeps, steps = (max_iter, max_iter) if max_iter is not None else (200, 1000)
    schedule = Schedule(sweeps, tolerance, damping, SHARE)
    settings = Ad3Settings(steps, tolerance, gap, 5, SWEEPS)
    if inference == "mean_field":
        return mean_field.MeanFieldSpace(graph, schedule, log)
    search = relaxed.RelaxedSpace(graph, settings, np.zeros(length), log)
    if inference in ("ad3", "branch_and_bound"):
        return search
    assert forests is not None
    weighted = inference == "trw"
    sums = belief.MessageSpace(graph, forests, schedule, weighted, np.zeros(length), np.zeros_like(log))
    return relaxed.BoundsSpace(search, sums) if weighted else sums
