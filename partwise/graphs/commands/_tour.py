"""The segmentation stop of ``partwise demo``: figure and ground in noise, by a minimum cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partwise.cli.tour import Outcome, Stop

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIZE, TRAIN, TEST = 40, 8, 4


def discs(n: int = TRAIN + TEST) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Noisy images of discs, each with its truth."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    made = []
    for _ in range(n):
        (row, column), radius = rng.integers(12, 28, 2), rng.integers(6, 12)
        truth = ((rows - row) ** 2 + (columns - column) ** 2 < radius**2).astype(np.int64)
        made.append((truth + rng.normal(0, 0.5, truth.shape), truth))
    return made


def train() -> Any:
    """Train a labeller of pixels with edges between neighbours, and one without."""
    from partwise import GraphLabeler
    from partwise.graphs import AttributedGraph, grid_edges

    images = discs()  # noise that is too strong for single pixels
    edges = grid_edges(SIZE, SIZE)
    graphs = [AttributedGraph(image.reshape(-1, 1), edges) for image, _ in images]
    labels = [truth.ravel() for _, truth in images]
    cut = GraphLabeler(interaction="associative", C=0.003, max_passes=40).fit(graphs[:TRAIN], labels[:TRAIN])
    alone = GraphLabeler(C=0.003, max_passes=40, interaction="none").fit(graphs[:TRAIN], labels[:TRAIN])
    return cut, alone, images, graphs, labels


def show(trained: Any, folder: str) -> Outcome:
    import numpy as np

    from partwise.report.page import figure, side_by_side
    from partwise.report.pictures import picture

    cut, alone, images, graphs, labels = trained
    scores = {
        "pixel accuracy, cut": cut.score(graphs[TRAIN:], labels[TRAIN:]),
        "pixel accuracy, alone": alone.score(graphs[TRAIN:], labels[TRAIN:]),
    }
    shown = []
    for i in range(TRAIN, TRAIN + 2):
        single, joint = (np.asarray(model.predict(graphs[i : i + 1])[0]) for model in (alone, cut))
        views = [
            ("input", (images[i][0] + 1.0) / 3.0),
            ("truth", labels[i]),
            ("pixels alone", single),
            ("minimum cut", joint),
        ]
        pictures = [figure(picture(colours(pixels), name), name) for name, pixels in views]
        shown.append(side_by_side(*pictures, class_="small"))
    right = " and ".join(f"{100 * value:.1f}% ({name.split(', ')[1]})" for name, value in scores.items())
    return Outcome(scores, [f"pixels labelled correctly: {right}"], shown)


def colours(pixels: Any, enlarge: int = 4) -> NDArray[np.uint8]:
    """A grey picture of values 0 … 1, each pixel ``enlarge`` wide."""
    import numpy as np

    grey = (255 * np.clip(np.asarray(pixels, float).reshape(SIZE, SIZE), 0, 1)).astype(np.uint8)
    return np.repeat(np.kron(grey, np.ones((enlarge, enlarge), np.uint8))[:, :, None], 3, axis=2)


STOP = Stop(
    "segmentation",
    "Segmentation",
    "pixels that disagree with their neighbours pay a learned penalty; the best labelling is a minimum cut.",
    train,
    show,
    rank=3,
)
