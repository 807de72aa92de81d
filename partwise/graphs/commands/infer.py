"""``partwise infer``: answers on a model in the UAI format."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from partwise.cli.console import tell
from partwise.cli.registry import Command
from partwise.exceptions import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from partwise.structures.factor_graph import FactorGraph

EXAMPLES = """
partwise infer model.uai --task MAP
partwise infer model.uai --evidence model.uai.evid --task MAR --output model.MAR
partwise infer grid.uai --task PR --engine trw
partwise infer hard.uai --task MAP --engine branch_and_bound --time-limit 60
"""

WORDS = {
    "exact": "exact",
    "outer": "an upper bound",
    "inner": "a lower bound, attained",
    "none": "an estimate without a guarantee",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model in the UAI format")
    parser.add_argument("--task", choices=["MAP", "MAR", "PR"], default="MAP",
                        help="the best states, marginals of variables, or log10 of the partition function")  # fmt: skip
    parser.add_argument("--evidence", metavar="FILE", help="known states of variables")
    parser.add_argument("--engine", metavar="NAME", default="auto",
                        help="inference engine (default: a junction tree; if it is too wide, branch_and_bound for "
                        "MAP and trw for the others)")  # fmt: skip
    parser.add_argument("--time-limit", metavar="S", type=float, help="time limit of branch_and_bound in seconds")
    parser.add_argument("--output", "-o", metavar="FILE", help="write the answer there (default: print it)")


def run(args: argparse.Namespace) -> None:
    from pathlib import Path

    from partwise.graphs.uai import format_answer, read_evidence, read_uai
    from partwise.structures.factor_graph import FactorGraph

    model = read_uai(args.model)
    for number, table in enumerate(model.tables):
        if not table.any():
            raise InputError(
                f"{args.model} gives every assignment probability zero: factor {number} is zero throughout"
            )
    graph, scores, constant = model.factor_graph()
    space = FactorGraph([graph], inference=args.engine, time_limit=args.time_limit)
    if args.engine == "auto" and args.task == "MAP" and space.inference != "junction_tree":
        space = FactorGraph([graph], inference="branch_and_bound", time_limit=args.time_limit)
    if args.evidence:
        space = space.given(0, read_evidence(args.evidence, model.states))
    if impossible(space, scores):
        known = f" that agrees with {args.evidence}" if args.evidence else ""
        raise InputError(f"{args.model} gives every assignment{known} probability zero")
    answer: Any
    if args.task == "MAP":
        solution = space.solve(0, scores)
        answer = space.decode(0, solution.parts)
        tell(f"{space.inference}: score {solution.value + constant:.6f}, bound {solution.bound + constant:.6f}, "
             f"{solution.status}")  # fmt: skip
    else:
        value, parts = space.marginals(0, scores)
        atoms = space.atoms(0)
        answer = [parts[: space.n_atoms(0)][atoms.node == v] for v in range(len(model.states))]
        if args.task == "PR":
            answer = value + constant
        status = space.convergence("marginals")[0, 2]
        ending = "" if status > 0 else "; messages did not converge"
        tell(f"{space.inference}: log Z {value + constant:.6f} is {WORDS[space.guarantee('marginals')]}{ending}")
    text = format_answer(args.task, answer)
    if args.output:
        Path(args.output).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)


def impossible(space: FactorGraph, scores: NDArray[np.float64]) -> bool:
    """Whether no output has a finite score, as far as that can be told at once: on a junction tree exactly."""
    import numpy as np

    from partwise.structures.graphs import domains

    if np.isfinite(scores).all():
        return False
    if space.inference == "junction_tree":
        try:
            space.argmax(0, scores)
        except InputError:
            return True
        return False
    open_atoms, reason = np.ones(space.n_atoms(0), np.uint8), np.full(space.n_atoms(0), -1, np.int64)
    domains.open_states(space.graph, 0, scores, open_atoms)
    return bool(domains.propagate(space.graph, 0, scores, open_atoms, reason) >= 0)


COMMAND = Command("infer", "answer queries on a graphical model in the UAI format", configure, run, EXAMPLES, rank=52)
