"""Which learner trains which structure with which loss: a table made from what the code declares.

``python -m partwise.capabilities > docs/capabilities.md`` writes it into the documentation, and a test compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import partwise.structures
from partwise.learners import LEARNERS, Learner
from partwise.losses import LOSSES, Loss
from partwise.structures import ORACLES, Structure
from partwise.structures.oracles import GUARANTEES
from partwise.structures.registry import STRUCTURES

__all__ = ["capability_table"]

HEAD = """\
# What trains what

*Made by `python -m partwise.capabilities` from what structures, losses and learners declare; a test keeps it true.*

A structure has oracles; a loss needs one of them, and a learner may need another. A cell lists the named losses with
which the learner of its column trains the structure of its row, or says what is missing. Losses between the
named ones, any L(β,γ), go with `crf` where β is finite and with `svm` where it is infinite. What is not in
the table fails before training, with a message that names the structure, the oracle and the learners that can.
"""


def _known_structures() -> dict[str, Structure]:
    """A small space of every structure that is registered; importing the public ones registers them."""
    for name in dir(partwise.structures):
        getattr(partwise.structures, name)
    return {name: example() for name, example in sorted(STRUCTURES.items())}


def _cell(learner: Learner, structure: Structure) -> str:
    """The losses that work, or the reason why none does: that of a loss which the learner itself would take."""
    obstacles = {name: learner.obstacle(structure, Loss.named(name)) for name in LOSSES}
    able = [f"`{name}`" for name, obstacle in obstacles.items() if obstacle is None]
    if able:
        return ", ".join(able)
    wanted = [name for name in LOSSES if learner.accepts(Loss.named(name))] or list(LOSSES)
    return f"— {obstacles[wanted[0]]}"


def _answer(space: Structure, oracle: str) -> str:
    """Whether a space has an oracle, and how good it is where it is not exact."""
    if oracle not in space.oracles:
        return "—"
    return "yes" if space.guarantee(oracle) == "exact" else space.guarantee(oracle)


def _rows(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    titles = list(header)
    return [f"| {' | '.join(cells)} |" for cells in (titles, ["---"] * len(titles), *rows)]


def capability_table(structures: Mapping[str, Structure] | None = None) -> str:
    """Markdown: structures × learners, then structures × oracles, then the losses and what each needs.

    Examples
    --------
    >>> from partwise.structures import Matching
    >>> table = capability_table({"Matching": Matching([(2, 2)])})
    >>> [line for line in table.splitlines() if line.startswith("| `Matching`")][1]
    '| `Matching` | yes | — | — | yes | — | yes | — | — | — | — | yes |'
    """
    spaces = dict(_known_structures() if structures is None else structures)
    learners = {name: kind() for name, kind in LEARNERS.items()}
    lines = HEAD.splitlines()
    lines += ["", "## Structures and learners", ""]
    lines += _rows(
        ["structure", *(f"`{name}`" for name in learners)],
        ([f"`{name}`", *(_cell(learner, space) for learner in learners.values())] for name, space in spaces.items()),
    )
    lines += ["", "## Structures and oracles", ""]
    lines += _rows(
        ["structure", *(f"`{name}`" for name in ORACLES)],
        ([f"`{name}`", *(_answer(space, oracle) for oracle in ORACLES)] for name, space in spaces.items()),
    )
    lines += ["", *(f"- `{name}`: {answer}" for name, answer in ORACLES.items())]
    lines += ["", "Where the table does not say *yes*, the answer is:", ""]
    lines += [f"- *{name}*: {meaning}" for name, meaning in GUARANTEES.items() if name != "exact"]
    lines += ["", "## Losses", ""]
    points = {name: Loss.named(name) for name in LOSSES}
    lines += _rows(
        ["loss", "β", "γ", "needs", "smooth", "convex"],
        (
            [
                f"`{name}`",
                "∞" if not loss.smooth else f"{loss.beta:g}",
                f"{loss.gamma:g}",
                f"`{loss.oracle}`",
                "yes" if loss.smooth else "no",
                "yes" if loss.convex else "no",
            ]
            for name, loss in points.items()
        ),
    )
    lines += ["", "## Learners", ""]
    lines += [
        f"- `{name}` minimises {learner.losses}"
        + (f" and needs {', '.join(f'`{oracle}`' for oracle in sorted(learner.needs))}" if learner.needs else "")
        for name, learner in learners.items()
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(capability_table(), end="")
