"""
Image segmentation by a minimum cut
===================================

Pixels are labelled together: neighbours pay for disagreeing, and how much is learned. With two labels and such edges
the best labelling is a minimum cut, found exactly.
"""

# %%
# Discs in noise that is too strong for single pixels.

import matplotlib.pyplot as plt
import numpy as np

from partwise import GraphLabeler
from partwise.graphs import AttributedGraph, grid_edges

SIZE = 40
rng = np.random.default_rng(0)
rows, columns = np.mgrid[:SIZE, :SIZE]


def draw():
    """A noisy image and its truth."""
    row, column, radius = rng.integers(12, 28, 2).tolist() + [int(rng.integers(6, 12))]
    truth = ((rows - row) ** 2 + (columns - column) ** 2 < radius**2).astype(int)
    return truth + rng.normal(0, 0.5, truth.shape), truth


pairs = [draw() for _ in range(12)]
edges = grid_edges(SIZE, SIZE)
graphs = [AttributedGraph(image.reshape(-1, 1), edges) for image, _ in pairs]
labels = [truth.ravel() for _, truth in pairs]

# %%
# The same features, with edges and without:

cut = GraphLabeler(interaction="associative", C=0.003, max_passes=40).fit(graphs[:8], labels[:8])
alone = GraphLabeler(C=0.003, max_passes=40, interaction="none").fit(graphs[:8], labels[:8])
print(
    f"pixel accuracy: {cut.score(graphs[8:], labels[8:]):.3f} together, {alone.score(graphs[8:], labels[8:]):.3f} alone"
)

# %%
# Input, truth, pixels alone, pixels together:

figure, panels = plt.subplots(2, 4, figsize=(8, 4.2), layout="constrained")
for row, i in zip(panels, (8, 9), strict=True):
    found = [model.predict(graphs[i : i + 1])[0] for model in (alone, cut)]
    pictures = [pairs[i][0], labels[i], *found]
    for axes, picture in zip(row, pictures, strict=True):
        axes.imshow(np.asarray(picture, float).reshape(SIZE, SIZE), cmap="gray")
        axes.set_axis_off()
for axes, title in zip(panels[0], ("input", "truth", "alone", "together"), strict=True):
    axes.set_title(title)
plt.show()
