"""``bartlett2004-ner``: SMO against exponentiated gradient, Figure 4 of Bartlett et al. (2004).

The hinge's dual on the first 1,000 training sentences of CoNLL-2003, nine tags, a first-order chain with features of
the words on its nodes and on its edges: the dual objective after every pass, (a) for several learning rates η of
online EG and (b) for one η from several starts, with the hybrid that §5 of the paper proposes; also an η that adapts
itself. "Start K" is α¹(y) ∝ exp(−K ℓ(y)): 0 is uniform, a large K begins near the gold outputs. The scale of a good η
goes with 1/C² and with the features. The paper gives no C and few details of its features, so that its η = 1 is not
ours; whether SMO or EG is ahead depends on C, hence two of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from partwise.data import load_sample, read_columns
from partwise.data.columns import Columns
from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.features import ChainFeatures, RowLayout, RowMatrix
from partwise.learners import SMO, HybridEG, Learner, OnlineEG
from partwise.problem import Problem
from partwise.sequences.encoders import make_encoder
from partwise.sequences.tags import convert_all, repair_report
from partwise.structures import Chain

__all__ = ["cells", "draw", "run", "table"]

ORIGIN = "the CoNLL-2003 shared task, English (Tjong Kim Sang and De Meulder 2003); the text is Reuters', for research"
SENTENCES = 1000
GRID, HARD = 0.1, 1.0  # C of the whole grid, and of a few runs with hardly any regularisation
ETA, START = 10.0, 10.0  # what panel (b) holds fixed while the starts vary, and panel (a) while η does
PASSES, QUICK_PASSES = 100, 6
SHOWN = (1, 2, 5, 10, 20, 50, 100)

# "the word itself, its capitalization and morphological features, etc., as well as the previous and consecutive
# words and their features. Likewise, ... each edge ... the two words and their features as well as surrounding words"
NODES = """\
bias
word[-1..1]
lower(word)[-1..1]
short_shape(word)[-1..1]
is_title(word)[-1..1]
prefix(word,1..3)[0]
suffix(word,1..3)[0]
"""
EDGES = """\
bias
word[-2..1]
short_shape(word)[-2..1]
"""


def cells(context: Context) -> list[dict[str, Any]]:
    passes = QUICK_PASSES if context.quick else PASSES
    rates = (ETA, 30.0) if context.quick else (1.0, 3.0, ETA, 30.0, 100.0)
    starts = (0.0,) if context.quick else (0.0, 5.0, 20.0)
    found: list[dict[str, Any]] = [{"learner": "smo"}]
    found += [{"learner": "eg", "eta": eta, "start": START} for eta in (*rates, "adaptive")]
    found += [{"learner": "eg", "eta": ETA, "start": start} for start in starts]
    found += [{"learner": "hybrid", "eta": eta, "smo": 3} for eta in (ETA, "adaptive")]
    hard = [one for one in found if one.get("eta", "adaptive") == "adaptive"]
    both = [{**one, "C": GRID} for one in found] + [{**one, "C": HARD} for one in hard]
    return [{**one, "passes": passes} for one in both]


@cache
def problem(data: Any, quick: bool) -> Problem:
    """The sentences as an untied chain, whose parts at every position are what SMO moves mass between."""
    if quick:
        columns: Columns = load_sample("news", split="train").subset(slice(60))
        tags = columns.coded("ner")
    else:
        columns = read_columns(data / "conll2003/eng.train", columns=("word", "pos", "chunk", "ner"))
        columns = columns.subset(slice(SENTENCES))
        tags = convert_all(repair_report(columns.coded("ner"), "IOB1").repaired, "IOB1", "IOB2")
    offsets, n = columns.offsets, len(tags.vocab)
    nodes = _rows(columns, NODES)
    first = np.zeros(len(tags.codes), bool)
    first[offsets[:-1]] = True
    edges = _rows(columns, EDGES, keep=~first)
    codes = tags.codes.astype(np.int64)
    pairs = (codes[np.flatnonzero(~first) - 1] * n + codes[~first]).astype(np.int64)
    node_layout = RowLayout.observed(nodes, codes, n)
    edge_layout = RowLayout.observed(edges, pairs, n * n)
    edge_layout.base = node_layout.dim  # their weights follow those of the nodes
    features = ChainFeatures(
        node_layout.pack(nodes), node_layout.dim, n, edges=(edge_layout.pack(edges), edge_layout.dim)
    )
    gold = np.split(codes, offsets[1:-1])
    return Problem(Chain(np.diff(offsets), n, tied=False), features, gold, "svm")


def _rows(columns: Columns, templates: str, keep: Any = None) -> RowMatrix:
    """The attributes of every token, or of those to keep."""
    matrix = make_encoder(columns, templates, None, 1, None).fit_transform(columns).matrix
    assert matrix is not None
    if keep is None:
        return matrix
    shape = (matrix.n_rows, matrix.n_attributes)
    whole = scipy.sparse.csr_array((np.ones(len(matrix.attributes)), matrix.attributes, matrix.indptr), shape=shape)
    offsets = np.concatenate([[0], np.cumsum(keep)])[matrix.offsets]
    return RowMatrix.from_csr(whole[np.flatnonzero(keep)], offsets.astype(np.int64))


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Dual, primal and seconds after every pass."""
    common = {"C": settings["C"], "max_passes": settings["passes"], "tolerance": 0.0}
    learner: Learner
    if settings["learner"] == "smo":
        learner = SMO(**common)
    elif settings["learner"] == "hybrid":
        learner = HybridEG(**common, eta=settings["eta"], smo_passes=settings["smo"])
    else:
        learner = OnlineEG(**common, eta=settings["eta"], head_start=settings["start"])
    made = problem(context.data, context.quick)
    result = learner.fit(made)
    return {
        "dual": [record.dual for record in result.trace],
        "primal": [record.objective for record in result.trace],
        "seconds": [record.seconds for record in result.trace],
        "sentences": made.m,
        "tokens": int(made.space.lengths.sum()),  # type: ignore[attr-defined]
        "weights": made.dim,
    }


def name_of(settings: dict[str, Any]) -> str:
    """A line of the table and of the legend."""
    if settings["learner"] == "smo":
        return "SMO"
    eta = settings["eta"] if isinstance(settings["eta"], str) else f"η = {settings['eta']:g}"
    if settings["learner"] == "hybrid":
        return f"SMO × {settings['smo']}, then EG, {eta}"
    return f"EG, {eta}, start {settings['start']:g}"


def panels(cells: list[Cell]) -> tuple[list[Cell], list[Cell]]:
    """(a) SMO and EG by η from one start; (b) SMO, EG with one η by start, hybrids."""
    cells = [c for c in cells if c.settings["C"] == GRID]
    smo = [c for c in cells if c.settings["learner"] == "smo"]
    rates = [c for c in cells if c.settings.get("start") == START]
    starts = [c for c in cells if c.settings["learner"] == "hybrid" or c.settings.get("eta") == ETA]
    return smo + rates, smo + starts


def table(cells: list[Cell], context: Context) -> str:
    parts = [part for C in (GRID, HARD) for part in tables_of([c for c in cells if c.settings["C"] == C], C)]
    parts += [
        "The paper reads off Figure 4 that SMO starts quickly and slows down in a suboptimal region, and that EG lags, "
        "overtakes it and ends more than 10% higher.",
    ]
    if context.quick:
        parts.insert(0, "Quick variant: a few passes over a small embedded sample; the paper's data are others.")
    return "\n\n".join(parts)


def tables_of(cells: list[Cell], C: float) -> list[str]:
    """The duals of one C by pass, and when each learner overtakes SMO for good."""
    size = cells[0].result
    least = min(min(cell.result["primal"]) for cell in cells)
    highest = max(max(cell.result["dual"]) for cell in cells)
    shown = [step for step in SHOWN if step <= len(size["dual"])]
    rows: list[list[Any]] = []
    for cell in cells:
        duals, primals = cell.result["dual"], cell.result["primal"]
        gap = min(primals) - max(duals)
        rows.append(
            [name_of(cell.settings), *(f"{duals[step - 1]:.4f}" for step in shown),
             f"{100 * max(duals) / highest:.1f}", f"{100 * gap / min(primals):.2f}",
             f"{cell.result['seconds'][-1] / len(duals):.3f}"]
        )  # fmt: skip
    head = ["learner", *(f"dual, pass {step}" for step in shown), "% of the best dual", "gap, %", "s per pass"]
    smo = next(c for c in cells if c.settings["learner"] == "smo").result["dual"]
    overtakes = []
    for cell in cells:
        ahead = [step + 1 for step, (a, b) in enumerate(zip(cell.result["dual"], smo, strict=True)) if a > b]
        lasting = [step for step in ahead if all(later in ahead for later in range(step, len(smo) + 1))]
        if cell.settings["learner"] != "smo":
            overtakes.append([name_of(cell.settings), lasting[0] if lasting else "never"])
    return [
        f"## C = {C:g}",
        f"{size['sentences']} sentences, {size['tokens']} tokens, {size['weights']} weights. The optimum "
        f"lies between {highest:.4f} and {least:.4f}: the best dual and the best primal of all runs.",
        markdown_table(head, rows),
        markdown_table(["learner", "above SMO's dual from pass"], overtakes),
    ]


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    highest = max(max(cell.result["dual"]) for cell in cells if cell.settings["C"] == GRID)
    titles = (f"(a) learning rates, C = {GRID:g}", f"(b) starts, hybrids, C = {GRID:g}")
    axes = figure.subplots(1, 2, sharey=True)
    for axis, chosen, title in zip(axes, panels(cells), titles, strict=True):
        for cell in chosen:
            duals = cell.result["dual"]
            style = {"color": "black", "linewidth": 2} if cell.settings["learner"] == "smo" else {}
            axis.plot(range(1, len(duals) + 1), duals, label=name_of(cell.settings), **style)
        axis.set(title=title, xlabel="passes over the training data", ylim=(-0.1 * highest, 1.05 * highest))
        axis.set_xscale("log")
        axis.legend(fontsize="x-small", loc="lower right")
    axes[0].set_ylabel("dual objective / m")


register(
    "bartlett2004-ner",
    run,
    description="SMO and exponentiated gradient on the max-margin dual of 1,000 CoNLL-2003 sentences, pass by pass",
    paper="Bartlett, Collins, Taskar and McAllester (2004), Exponentiated Gradient Algorithms for Large-margin "
    "Structured Classification: Figure 4.",
    cells=cells,
    needs=[Needs("conll2003/eng.train", ORIGIN)],
    table=table,
    draw=draw,
)
