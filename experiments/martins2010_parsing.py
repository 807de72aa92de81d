"""``martins2010-parsing``: dependency parsing, Figure 4 and the second row of Table 1 of Martins et al. (2010).

Two kinds of cells on each treebank: learning curves of DCA and SGD with the CRF loss, first and second order (Figure 4;
the second order by loopy belief propagation, whose failures to converge are counted); and UAS for seven points (β, γ)
between the CRF and the SVM, arc-factored (Table 1), with bootstrap intervals of the difference from both ends.
Everything is chosen on the development files; the test files are only scored. The paper's data are other treebanks, and
larger: here the first 1,000 training sentences of each are used, unlabelled, so that all cells take about 20 minutes of
one core.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.parsing import (
    DependencyParser,
    DependencySentence,
    SecondOrderParser,
    attachment_scores,
    load_sample_treebank,
    read_conllu,
)

__all__ = ["cells", "draw", "run", "table"]

TREEBANKS = {
    "danish": ("ddt_danish/ddt_{}.conll", "the Danish Dependency Treebank"),
    "greek": ("ud_greek_gdt/el_gdt-ud-{}.conllu", "UD Greek-GDT, CC BY-NC-SA"),
    "english": ("ud_english_ewt/en_ewt-ud-{}.conllu", "UD English-EWT, CC BY-SA 4.0"),
}
# (β, γ): test UAS and best C in Table 1, English of CoNLL-2008.
PAPER: dict[tuple[float, float], tuple[float, float]] = {
    (1, 0): (90.76, 0.1),
    (1, 1): (90.95, 0.01),
    (1, 3): (91.04, 0.01),
    (1, 5): (91.01, 0.01),
    (3, 1): (90.94, 0.01),
    (5, 1): (90.91, 0.01),
    (math.inf, 1): (90.75, 0.1),
}
GRID = (0.01, 0.1)
SENTENCES = 1000
RESAMPLES = 1000


def cells(context: Context) -> list[dict[str, Any]]:
    banks, grid, passes, long = (["sample"], GRID[1:2], 2, 2) if context.quick else (list(TREEBANKS), GRID, 5, 5)
    found: list[dict[str, Any]] = []
    for bank in banks:
        for C in grid:
            found += [
                {"kind": "loss", "bank": bank, "beta": str(beta), "gamma": gamma, "C": C, "passes": passes}
                for beta, gamma in PAPER
            ]
        for learner in ("dca", "sgd"):
            for order in (1, 2):
                found.append(
                    {"kind": "curve", "bank": bank, "learner": learner, "order": order, "C": 0.1, "passes": long}
                )
    return found


@cache
def read(data: Any, bank: str) -> tuple[list[DependencySentence], ...]:
    """Train, dev and test of a treebank; the first training sentences, of at most 80 words as in the paper."""
    if bank == "sample":
        return tuple(map(load_sample_treebank, ("train", "dev", "test")))
    train, dev, test = (read_conllu(data / TREEBANKS[bank][0].format(part)) for part in ("train", "dev", "test"))
    return [sentence for sentence in train if len(sentence) <= 80][:SENTENCES], dev, test


def settings_of(context: Context, settings: dict[str, Any]) -> dict[str, Any]:
    size = {"arc_bits": 16, "row_bits": 8} if context.quick else {"arc_bits": 22}
    return {"labelled": False, "C": settings["C"], "max_passes": settings["passes"], **size}


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """One parser: right heads per sentence of dev and test, or its learning curve on dev."""
    train, dev, test = read(context.data, settings["bank"])
    shared = settings_of(context, settings)
    if settings["kind"] == "loss":
        loss = (float(settings["beta"]), float(settings["gamma"]))
        model = DependencyParser(loss=loss, **shared).fit(train)
        found = {}
        for name, part in (("dev", dev), ("test", test)):
            scores = attachment_scores(part, model.predict(part))
            found[name] = {
                "uas": scores.uas,
                "right": scores.word_uas.astype(int).tolist(),
                "words": scores.sizes.tolist(),
            }
        return found
    shared |= {"loss": "crf", "learner": settings["learner"]}
    if settings["learner"] == "sgd":
        shared["learner_options"] = {"candidates": (0.001, 0.01, 0.1, 1.0)}
    if settings["order"] == 1:
        model = DependencyParser(**shared).fit(train, dev=dev)
        return {"curve": [(r.step, r.seconds, r.score) for r in model.result_.trace]}
    second = SecondOrderParser(pruner_passes=min(settings["passes"], 5), **shared).fit(train, dev=dev)
    propagated, trace = second.predict_beliefs(dev)[1], second.result_.trace
    return {
        "curve": [(r.step, r.seconds, r.score) for r in trace],
        "unconverged": [r.extra["unconverged"] for r in trace],
        "negative_losses": [r.extra["negative_losses"] for r in trace if "negative_losses" in r.extra],
        "not_converged": float(1.0 - propagated.converged.mean()),
        "optimal": float(second.certificates(dev).optimal.mean()),
        "recall": second.pruning_recall(dev),
    }


def best_by_loss(cells: list[Cell], bank: str) -> dict[tuple[float, float], Cell]:
    """For each (β, γ) the cell whose C is best on dev."""
    best: dict[tuple[float, float], Cell] = {}
    for cell in cells:
        if cell.settings["kind"] == "loss" and cell.settings["bank"] == bank:
            point = (float(cell.settings["beta"]), float(cell.settings["gamma"]))
            if point not in best or cell.result["dev"]["uas"] > best[point].result["dev"]["uas"]:
                best[point] = cell
    return best


def interval(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[float, float]:
    """95% of the difference in UAS over sentences drawn with replacement."""
    words = np.array(ours["words"])
    gain = np.array(ours["right"]) - np.array(theirs["right"])
    draws = np.random.default_rng(0).integers(len(words), size=(RESAMPLES, len(words)))
    shares = 100.0 * gain[draws].sum(axis=1) / words[draws].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975]).tolist()
    return low, high


def banks_of(cells: list[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.settings["bank"] for cell in cells))


def losses_table(cells: list[Cell], bank: str) -> str:
    """Table 1: UAS by (β, γ), with intervals of the difference from both ends."""
    best = best_by_loss(cells, bank)
    crf, svm = best[1.0, 0.0].result["test"], best[math.inf, 1.0].result["test"]
    rows: list[list[Any]] = []
    for (beta, gamma), cell in best.items():
        ends = (None if end is cell.result["test"] else interval(cell.result["test"], end) for end in (crf, svm))
        gains = ["" if end is None else "{:+.2f} to {:+.2f}".format(*end) for end in ends]
        name, (paper, paper_c) = "∞" if math.isinf(beta) else f"{beta:g}", PAPER[beta, gamma]
        rows.append(
            [name, f"{gamma:g}", f"{cell.settings['C']:g}", f"{cell.result['dev']['uas']:.2f}",
             f"{cell.result['test']['uas']:.2f}", *gains, f"{paper:.2f}", f"{paper_c:g}"]
        )  # fmt: skip
    head = ["β", "γ", "C", "dev UAS", "test UAS", "above the CRF, 95%", "above the SVM, 95%", "paper UAS", "paper C"]
    return markdown_table(head, rows)


def curves_table(cells: list[Cell], bank: str) -> str:
    """Figure 4: UAS on dev by pass; of second order also how often propagation failed, in training and on dev."""
    curves = [c for c in cells if c.settings["kind"] == "curve" and c.settings["bank"] == bank]
    passes = max(len(cell.result["curve"]) for cell in curves)
    rows = []
    for cell in curves:
        found, chosen = cell.result, cell.settings
        scores = [f"{100 * score:.2f}" for _, _, score in found["curve"]]
        shares = (
            "" if found.get(k) is None else f"{100 * found[k]:.1f}%" for k in ("not_converged", "optimal", "recall")
        )
        counts = (" ".join(f"{n:g}" for n in found.get(k, [])) for k in ("unconverged", "negative_losses"))
        rows.append(
            [chosen["learner"].upper(), chosen["order"], *scores, *[""] * (passes - len(scores)),
             f"{found['curve'][-1][1]:.0f}", *counts, *shares]
        )  # fmt: skip
    head = ["learner", "order", *map(str, range(1, passes + 1)), "seconds", "BP not converged in training, by pass",
            "steps left out, by pass", "BP not converged on dev", "proved optimal", "recall of pruning"]  # fmt: skip
    return markdown_table(head, rows)


def table(cells: list[Cell], context: Context) -> str:
    parts = []
    for bank in banks_of(cells):
        parts += [f"## Table 1, {bank}: arc-factored, by DCA", losses_table(cells, bank)]
        parts += [f"## Figure 4, {bank}: the CRF loss, UAS on dev by pass", curves_table(cells, bank)]
    if context.quick:
        parts.insert(
            0, "Quick variant: two passes on a treebank from a grammar. The paper's figures are of other data."
        )
    return "\n\n".join(parts)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    banks = banks_of(cells)
    axes = np.atleast_1d(figure.subplots(1, len(banks)))
    for axis, bank in zip(axes, banks, strict=True):
        for cell in cells:
            chosen = cell.settings
            if chosen["kind"] == "curve" and chosen["bank"] == bank:
                style = {"color": {"dca": "tab:blue", "sgd": "tab:orange"}[chosen["learner"]]}
                steps, _, scores = zip(*cell.result["curve"], strict=True)
                name = f"{chosen['learner']}, order {chosen['order']}"
                axis.plot(steps, [100 * s for s in scores], "-" if chosen["order"] == 1 else "--", label=name, **style)
        axis.set(title=bank, xlabel="pass", ylabel="UAS on dev")
        axis.legend(fontsize="small")


register(
    "martins2010-parsing",
    run,
    description="Dependency trees: DCA and SGD by passes, first and second order; losses between CRF and SVM",
    paper="Martins et al. (2010), Learning Structured Classifiers with Dual Coordinate Descent: Figure 4, Table 1.",
    cells=cells,
    needs=[
        Needs(path.format(part), origin) for path, origin in TREEBANKS.values() for part in ("train", "dev", "test")
    ],
    table=table,
    draw=draw,
)
