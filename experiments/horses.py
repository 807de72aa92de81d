"""``horses``: figure and ground of the Weizmann horses, superpixels in a graph against superpixels by themselves.

Nodes are superpixels with colour, texture and position features, edges join those that touch. The number of superpixels
and C of every method are chosen together on the last 40 of the training images; then all of them train. The test images
are looked at once.
"""

from __future__ import annotations

import base64
import io
import tarfile
import time
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise import GraphLabeler
from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.graphs.images import SuperpixelGraph, superpixel_graph

__all__ = ["cells", "draw", "run", "shown", "table"]

ORIGIN = "the Weizmann horse database of Borenstein and Ullman (2002), images and masks as PNG files in one tar file"
METHODS = ("node-only", "ave-perc", "max-margin")
HELD_OUT = 40
SEGMENTS = (300, 600, 1000, 1500)  # superpixels asked for; SLIC gives a few less
CANDIDATES = {
    "node-only": (1e-3, 1e-2, 1e-1, 1.0, 10.0),
    "max-margin": (1e-3, 1e-2, 3e-2, 1e-1, 3e-1),
    "ave-perc": (30, 100, 300),  # passes
}
SHOWN = 12


class Images(NamedTuple):
    """Images, masks and superpixels of a part of the data."""

    colours: list[NDArray[np.uint8]]
    masks: list[NDArray[np.int64]]
    graphs: list[SuperpixelGraph]

    @property
    def labels(self) -> list[NDArray[np.int64]]:
        """What most pixels of every superpixel are."""
        found = []
        for mask, graph in zip(self.masks, self.graphs, strict=True):
            share = np.bincount(graph.segments.ravel(), mask.ravel()) / graph.sizes
            found.append((share > 0.5).astype(np.int64))
        return found

    def part(self, which: slice) -> Images:
        return Images(self.colours[which], self.masks[which], self.graphs[which])


def cells(context: Context) -> list[dict[str, Any]]:
    return [{"method": method} for method in METHODS]


def made_up(count: int, seed: int) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.int64]]]:
    """Discs of one colour on grounds of another, with noise: the quick variant."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:40, :50]
    colours, masks = [], []
    for _ in range(count):
        disc = (x - rng.uniform(15, 35)) ** 2 + (y - rng.uniform(12, 28)) ** 2 < rng.uniform(8, 14) ** 2
        image = np.where(disc[:, :, None], [140, 90, 60], [110, 120, 90]) + rng.normal(0, 15, (40, 50, 3))
        colours.append(np.clip(image, 0, 255).astype(np.uint8))
        masks.append(disc.astype(np.int64))
    return colours, masks


def read(path: str, part: str) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.int64]]]:
    """Images and masks, in the order of their numbers."""
    from PIL import Image

    found: dict[str, dict[int, Any]] = {"images": {}, "masks": {}}
    with tarfile.open(path) as archive:
        for member in archive.getmembers():
            folders = member.name.split("/")
            if member.isfile() and part in folders and folders[-2] in found:
                number = int(folders[-1].rsplit("-", 1)[1].split(".")[0])
                file = archive.extractfile(member)
                assert file is not None
                found[folders[-2]][number] = Image.open(io.BytesIO(file.read()))
    numbers = sorted(found["images"])
    colours = [np.asarray(found["images"][n].convert("RGB")) for n in numbers]
    masks = [(np.asarray(found["masks"][n].convert("L")) > 127).astype(np.int64) for n in numbers]
    return colours, masks


@cache
def load(folder: Any, quick: bool, part: str, segments: int) -> Images:
    if quick:
        colours, masks = made_up(60 if part == "training" else 20, 0 if part == "training" else 1)
    else:
        colours, masks = read(str(folder / "weizmann_horses/weizmann_horses.tar"), part)
    graphs = [superpixel_graph(image, segments) for image in colours]
    return Images(colours, masks, graphs)


def fitted(method: str, setting: float, train: Images) -> Any:
    """A function from images to labels of their superpixels."""
    graphs, labels = [image.graph for image in train.graphs], train.labels
    weights = [image.sizes / image.sizes.mean() for image in train.graphs]
    if method == "node-only":
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = make_pipeline(StandardScaler(), LogisticRegression(C=setting, max_iter=1000))
        rows = np.concatenate([graph.nodes["node"] for graph in graphs])
        model.fit(rows, np.concatenate(labels), logisticregression__sample_weight=np.concatenate(weights))
        return lambda images: [model.predict(image.graph.nodes["node"]) for image in images.graphs]
    if method == "max-margin":
        labeler = GraphLabeler(C=setting, max_passes=200, n_jobs=2).fit(graphs, labels, node_weights=weights)
    else:
        labeler = averaged_perceptron(graphs, labels, int(setting))
    return lambda images: labeler.predict([image.graph for image in images.graphs])


def averaged_perceptron(graphs: list[Any], labels: list[Any], passes: int) -> GraphLabeler:
    """Updates image by image, edge weights kept ≥ 0; the average of all steps counts."""
    labeler = GraphLabeler(loss="perceptron")
    problem = labeler.problem(graphs, labels)
    theta, total, steps = np.zeros(problem.dim), np.zeros(problem.dim), 0
    rng = np.random.default_rng(0)
    for _ in range(passes):
        for i in rng.permutation(problem.m):
            _, wrong = problem.instance(int(i), theta)
            problem.features.accumulate(int(i), wrong, -1.0, theta)
            theta[problem.nonnegative] = np.maximum(theta[problem.nonnegative], 0.0)
            total += theta
            steps += 1
    labeler.theta_ = total / steps
    return labeler


def figures(images: Images, found: list[NDArray[np.int64]]) -> dict[str, float]:
    """Share of right pixels, and intersection over union of the horses, over all pixels of all images."""
    right = both = either = count = 0
    for mask, graph, labels in zip(images.masks, images.graphs, found, strict=True):
        guess = np.asarray(labels)[graph.segments]
        right += int((guess == mask).sum())
        both += int((guess & mask).sum())
        either += int((guess | mask).sum())
        count += mask.size
    return {"accuracy": right / count, "iou": both / max(either, 1)}


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """Choose the settings on held-out training images, train on all, test."""
    method, held = settings["method"], HELD_OUT if not context.quick else 20
    candidates = CANDIDATES[method][:2] if context.quick else CANDIDATES[method]
    begin = time.process_time()
    tried: dict[tuple[int, float], float] = {}
    for segments in (60, 100) if context.quick else SEGMENTS:
        train = load(context.data, context.quick, "training", segments)
        first, last = train.part(slice(None, -held)), train.part(slice(-held, None))
        for c in candidates:
            tried[segments, c] = figures(last, fitted(method, c, first)(last))["accuracy"]
    segments, setting = max(tried, key=lambda key: tried[key])
    test = load(context.data, context.quick, "test", segments)
    found = fitted(method, setting, load(context.data, context.quick, "training", segments))(test)
    chosen = np.linspace(0, len(found) - 1, SHOWN).astype(int)
    masks = [np.asarray(found[i])[test.graphs[i].segments].astype(np.uint8) for i in chosen]
    return {
        "segments": segments,
        "setting": setting,
        "held_out": [[*key, accuracy] for key, accuracy in tried.items()],
        **figures(test, found),
        "best_possible": figures(test, test.labels)["accuracy"],
        "cpu_seconds": time.process_time() - begin,
        "shown": [[int(i), *mask.shape, base64.b64encode(np.packbits(mask)).decode()]
                  for i, mask in zip(chosen, masks, strict=True)],
    }  # fmt: skip


def table(cells: list[Cell], context: Context) -> str:
    base = next(c.result for c in cells if c.settings["method"] == "node-only")
    rows = []
    for cell in cells:
        r = cell.result
        gain = 100 * (r["accuracy"] - base["accuracy"])
        rows.append(
            [cell.settings["method"], r["segments"], f"{r['setting']:g}",
             f"{100 * max(accuracy for *_, accuracy in r['held_out']):.2f}", f"{100 * r['accuracy']:.2f}",
             f"{gain:+.2f}", f"{100 * r['iou']:.2f}", f"{100 * r['best_possible']:.2f}", f"{r['cpu_seconds']:.0f}"]
        )  # fmt: skip
    head = ["method", "superpixels", "C (or passes)", "held-out accuracy, %", "pixel accuracy, %", "against node-only",
            "IoU, %", "best possible, %", "CPU s"]  # fmt: skip
    tried = [
        [cell.settings["method"], n, *(f"{100 * a:.2f}" for s, _, a in cell.result["held_out"] if s == n)]
        for cell in cells
        for n in dict.fromkeys(s for s, *_ in cell.result["held_out"])
    ]
    width = max(map(len, tried))
    tried = [row + [None] * (width - len(row)) for row in tried]
    choice = markdown_table(["method", "superpixels", *(f"setting {k}" for k in range(1, width - 1))], tried)
    return (
        f"{markdown_table(head, rows)}\n\nBest possible: every superpixel labelled as most of its pixels are. CPU s: "
        f"superpixels, choice and training, all in.\n\nHeld-out accuracy, %, of every number of superpixels and every "
        f"setting in the order of the candidates:\n\n{choice}"
    )


def shown(cells: list[Cell], context: Context) -> list[tuple[str, list[tuple[str, NDArray[np.uint8]]]]]:
    """Twelve test images: input, truth and what every method makes of it."""
    test = load(context.data, context.quick, "test", cells[-1].result["segments"])
    rows = []
    for masks in zip(*(cell.result["shown"] for cell in cells), strict=True):
        number = masks[0][0]
        row = [("image", test.colours[number]), ("truth", painted(test.colours[number], test.masks[number]))]
        for cell, (_, height, width, bits) in zip(cells, masks, strict=True):
            flat = np.unpackbits(np.frombuffer(base64.b64decode(bits), np.uint8))[: height * width]
            row.append((cell.settings["method"], painted(test.colours[number], flat.reshape(height, width))))
        rows.append((f"test image {number + 1}", row))
    return rows


def painted(colours: NDArray[np.uint8], mask: NDArray[Any]) -> NDArray[np.uint8]:
    """The image with the ground washed out."""
    return np.where(mask[:, :, None] != 0, colours, 170 + colours // 6).astype(np.uint8)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    """The pictures of the report in one."""
    rows = shown(cells, context)
    figure.set_size_inches(2 * (2 + len(cells)), 1.6 * len(rows))
    axes = figure.subplots(len(rows), 2 + len(cells))
    for line, (_, images) in zip(axes, rows, strict=True):
        for panel, (words, pixels) in zip(line, images, strict=True):
            panel.imshow(pixels)
            panel.set_axis_off()
            if line is axes[0]:
                panel.set_title(words)


register(
    "horses",
    run,
    description="Segmentation of horses: pixel accuracy and IoU of min-cuts on superpixels and of nodes alone",
    paper="Data of Borenstein and Ullman (2002).",
    cells=cells,
    needs=[Needs("weizmann_horses/weizmann_horses.tar", ORIGIN)],
    table=table,
    draw=draw,
    pictures=shown,
)
