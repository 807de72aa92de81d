"""Features of pixels and superpixels: colour, texture and position; contrast of edges."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.build import grid_edges, superpixel_edges

__all__ = ["SuperpixelGraph", "edge_contrast", "pixel_features", "pixel_graph", "superpixel_graph"]

Floats = NDArray[np.float64]


def _colours(image: ArrayLike) -> Floats:
    """(height, width, 3) colours in 0 … 1."""
    table = np.asarray(image)
    if table.ndim == 2:
        table = np.repeat(table[:, :, None], 3, axis=2)
    if table.ndim != 3 or table.shape[2] not in (3, 4) or 0 in table.shape:
        raise InputError(f"an image has shape {table.shape}; expected (height, width) or (height, width, 3)")
    colours = table[:, :, :3].astype(float) / (255.0 if table.dtype.kind in "iu" else 1.0)
    if not (np.isfinite(colours).all() and colours.min() >= 0 and colours.max() <= 1):
        raise InputError("colours must be integers 0 … 255 or floats 0 … 1")
    return colours


def _opponent(colours: Floats) -> Floats:
    """Lightness, red–green and yellow–blue."""
    red, green, blue = np.moveaxis(colours, 2, 0)
    return np.stack([(red + green + blue) / 3.0, red - green, 0.5 * (red + green) - blue], axis=2)


def pixel_features(image: ArrayLike, *, scales: tuple[float, ...] = (1.0, 2.0, 4.0), position: bool = True) -> Floats:
    """(height · width, D) features of all pixels: colours, smoothed colours, texture and position.

    Colours are lightness, red–green and yellow–blue. For every scale σ there are the three smoothed colours and, of the
    lightness, the size of the gradient, the Laplacian and the local deviation. Position is (x, y), their squares and
    product, and the distance from the middle, all in −1 … 1. Squares of the colours let a linear model prefer a middle.

    Examples
    --------
    >>> pixel_features(np.zeros((4, 5, 3)), scales=(1.0,)).shape
    (20, 18)
    """
    from scipy import ndimage

    colours = _opponent(_colours(image))
    height, width = colours.shape[:2]
    light = colours[:, :, 0]
    columns = [colours[:, :, c] for c in range(3)] + [colours[:, :, c] ** 2 for c in range(3)]
    for scale in scales:
        if not scale > 0:
            raise ParameterError("scales", "pixel_features", "positive numbers", scales)
        smooth = [ndimage.gaussian_filter(colours[:, :, c], scale) for c in range(3)]
        variance = ndimage.gaussian_filter(light**2, scale) - ndimage.gaussian_filter(light, scale) ** 2
        columns += smooth
        columns.append(scale * ndimage.gaussian_gradient_magnitude(light, scale))
        columns.append(scale**2 * ndimage.gaussian_laplace(light, scale))
        columns.append(np.sqrt(np.maximum(variance, 0.0)))
    if position:
        y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
        columns += [x, y, x**2, y**2, x * y, np.sqrt((x**2 + y**2) / 2.0)]
    return np.stack([column.ravel() for column in columns], axis=1)


def edge_contrast(features: Floats, edges: NDArray[np.int64], *, sharpness: ArrayLike = (2.0, 20.0)) -> Floats:
    """(E, 1 + S) features of edges: 1, and exp(−sharpness · ‖difference of the ends‖² / its mean) for every sharpness.

    All are ≥ 0, as a submodular model needs them: a weight ≥ 0 on the second kind makes a cut cheap where colours
    change.
    """
    difference = ((features[edges[:, 0]] - features[edges[:, 1]]) ** 2).sum(axis=1)
    mean = max(float(difference.mean()) if len(difference) else 0.0, 1e-12)
    falls = [np.exp(-s * difference / mean) for s in np.atleast_1d(np.asarray(sharpness, float))]
    return np.stack([np.ones(len(edges)), *falls], axis=1)


def pixel_graph(image: ArrayLike, *, connectivity: int = 4, **options: Any) -> AttributedGraph:
    """A pixel grid with the features of :func:`pixel_features` and the contrast of its edges."""
    colours = _opponent(_colours(image))
    edges = grid_edges(*colours.shape[:2], connectivity=connectivity)
    contrast = edge_contrast(colours.reshape(-1, 3), edges, sharpness=(0.1, 0.5))
    return AttributedGraph(pixel_features(image, **options), edges, contrast)


class SuperpixelGraph(NamedTuple):
    """Superpixels as a graph, with the map back to pixels."""

    graph: AttributedGraph
    segments: NDArray[np.int64]  # (height, width) number of the node that a pixel belongs to
    sizes: NDArray[np.int64]  # (N,) pixels per node


def superpixel_graph(
    image: ArrayLike, n_segments: int = 400, *, compactness: float = 10.0, **options: Any
) -> SuperpixelGraph:
    """Superpixels (SLIC of scikit-image, the extra ``images``) with mean and deviation of the features of their pixels.

    Edges join segments that touch; their features are ≥ 0: 1, the contrast of mean colours, and the share of the
    common border.
    """
    try:
        from skimage.segmentation import slic
    except ImportError as error:
        raise ImportError("superpixels need scikit-image: pip install 'partwise[images]'") from error
    colours = _colours(image)
    if n_segments < 1:
        raise ParameterError("n_segments", "superpixel_graph", "at least 1", n_segments)
    raw = slic(colours, n_segments=n_segments, compactness=compactness, start_label=0, channel_axis=2)
    _, segments = np.unique(raw, return_inverse=True)
    segments = segments.reshape(colours.shape[:2]).astype(np.int64)
    flat = segments.ravel()
    sizes = np.bincount(flat)
    pixels = pixel_features(image, **options)

    def mean(table: Floats) -> Floats:
        return np.stack([np.bincount(flat, column) for column in table.T], axis=1) / sizes[:, None]

    means = mean(pixels)
    deviation = np.sqrt(np.maximum(mean(pixels[:, :3] ** 2) - means[:, :3] ** 2, 0.0))
    edges, lengths = superpixel_edges(segments)
    contrast = edge_contrast(means[:, :3], edges, sharpness=(0.5, 2.0))
    border = lengths / np.sqrt(np.minimum(sizes[edges[:, 0]], sizes[edges[:, 1]]))
    nodes = np.hstack([means, deviation])
    return SuperpixelGraph(AttributedGraph(nodes, edges, np.hstack([contrast, border[:, None]])), segments, sizes)
