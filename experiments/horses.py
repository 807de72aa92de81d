"""``horses``: figure and ground of the Weizmann horses, superpixels in a graph against superpixels by themselves.

Nodes are superpixels with colour, texture and position features, edges join those that touch. C of every method is
chosen on the last 40 of the training images; then all of them train. The test images are looked at once.
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

__all__ = ["cells", "draw", "run", "table"]

ORIGIN = "the Weizmann horse database of Borenstein and Ullman (2002), images and masks as PNG files in one tar file"
METHODS = ("node-only", "ave-perc", "max-margin")
HELD_OUT = 40
SEGMENTS = 600
CANDIDATES = {
    "node-only": (1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "max-margin": (3e-4, 1e-3, 3e-3, 1e-2, 3e-2),
    "ave-perc": (10, 30, 100),  # passes
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
def load(folder: Any, quick: bool, part: str) -> Images:
    if quick:
        colours, masks = made_up(60 if part == "training" else 20, 0 if part == "training" else 1)
    else:
        colours, masks = read(str(folder / "weizmann_horses/weizmann_horses.tar"), part)
    graphs = [superpixel_graph(image, 100 if quick else SEGMENTS) for image in colours]
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
    """Choose the setting on held-out training images, train on all, test."""
    method, train = settings["method"], load(context.data, context.quick, "training")
    held = HELD_OUT if not context.quick else 20
    first, last = train.part(slice(None, -held)), train.part(slice(-held, None))
    candidates = CANDIDATES[method][:2] if context.quick else CANDIDATES[method]
    begin = time.process_time()
    tried = {f"{c:g}": figures(last, fitted(method, c, first)(last))["accuracy"] for c in candidates}
    setting = float(max(tried, key=lambda key: tried[key]))
    test = load(context.data, context.quick, "test")
    found = fitted(method, setting, train)(test)
    chosen = np.linspace(0, len(found) - 1, SHOWN).astype(int)
    masks = [np.asarray(found[i])[test.graphs[i].segments].astype(np.uint8) for i in chosen]
    return {
        "setting": setting,
        "held_out": tried,
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
            [cell.settings["method"], f"{r['setting']:g}", f"{100 * max(r['held_out'].values()):.2f}",
             f"{100 * r['accuracy']:.2f}", f"{gain:+.2f}", f"{100 * r['iou']:.2f}", f"{r['cpu_seconds']:.0f}"]
        )  # fmt: skip
    head = [
        "method",
        "C (or passes)",
        "held-out accuracy, %",
        "pixel accuracy, %",
        "against node-only",
        "IoU, %",
        "CPU s",
    ]
    best = f"No labelling of the superpixels gets more than {100 * base['best_possible']:.2f} % of the pixels."
    return f"{markdown_table(head, rows)}\n\n{best} CPU s: choosing the setting and training, all in."


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    """Twelve test images: input, truth and what every method makes of it."""
    test = load(context.data, context.quick, "test")
    figure.set_size_inches(2 * (2 + len(cells)), 1.6 * SHOWN)
    axes = figure.subplots(SHOWN, 2 + len(cells))
    for row, shown in enumerate(zip(*(cell.result["shown"] for cell in cells), strict=True)):
        number = shown[0][0]
        axes[row, 0].imshow(test.colours[number])
        axes[row, 1].imshow(test.masks[number], cmap="gray", vmin=0, vmax=1)
        for column, (_, height, width, bits) in enumerate(shown, start=2):
            flat = np.unpackbits(np.frombuffer(base64.b64decode(bits), np.uint8))[: height * width]
            axes[row, column].imshow(flat.reshape(height, width), cmap="gray", vmin=0, vmax=1)
    for column, title in enumerate(["image", "truth", *(cell.settings["method"] for cell in cells)]):
        axes[0, column].set_title(title)
    for panel in axes.ravel():
        panel.set_axis_off()


register(
    "horses",
    run,
    description="Figure and ground of horses: pixel accuracy and IoU of min-cuts on superpixels and of nodes alone",
    paper="Data of Borenstein and Ullman (2002).",
    cells=cells,
    needs=[Needs("weizmann_horses/weizmann_horses.tar", ORIGIN)],
    table=table,
    draw=draw,
)
