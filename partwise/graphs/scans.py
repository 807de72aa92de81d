"""Features of points of 3-D scans: spin images at two resolutions reduced by PCA, and the shape of neighbourhoods.

A **spin image** (Johnson and Hebert 1999) of a point with normal n counts its neighbours q by their distance from the
line along n, α = √(‖q − p‖² − β²), and along it, β = n·(q − p), in bins. Lacoste-Julien (2009) §2.6.1 takes 10 × 5
bins at two resolutions, scales the counts and keeps 45 principal components.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise._compile import kernel
from partwise.estimation.estimator import Estimator, check_is_fitted
from partwise.exceptions import InputError, ParameterError

__all__ = ["SHAPE_NAMES", "ScanFeatures", "shape_features", "spin_images"]

Floats = NDArray[np.float64]

#: What ``shape_features`` measures, in order.
SHAPE_NAMES = (
    "linear", "planar", "scattered", "vertical direction", "vertical normal", "height above the lowest nearby",
    "height below the highest nearby", "spread of heights", "log density",
)  # fmt: skip


def _cloud(points: ArrayLike) -> Floats:
    table = np.ascontiguousarray(points, float)
    if table.ndim != 2 or table.shape[1] != 3 or not len(table) or not np.isfinite(table).all():
        raise InputError(f"points have shape {table.shape}; expected a finite (N, 3) array with N ≥ 1")
    return table


@kernel
def fill_spins(points, normals, indptr, neighbors, n_across, n_along, radius, images):
    """images[j, bin] ← fraction of the neighbours of j in every (α, β) bin."""
    for j in range(points.shape[0]):
        count = 0
        for p in range(indptr[j], indptr[j + 1]):
            k = neighbors[p]
            if k == j:
                continue
            beta, square = 0.0, 0.0
            for d in range(3):
                step = points[k, d] - points[j, d]
                beta += normals[j, d] * step
                square += step * step
            alpha = np.sqrt(max(square - beta * beta, 0.0))
            across = min(int(alpha / radius * n_across), n_across - 1)
            along = min(max(int((beta / radius + 1.0) * 0.5 * n_along), 0), n_along - 1)
            images[j, across * n_along + along] += 1.0
            count += 1
        if count > 0:
            for b in range(images.shape[1]):
                images[j, b] /= count


def _nearby(points: Floats, radius: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Points within a radius of every point, as (indptr, numbers)."""
    from scipy.spatial import cKDTree

    found = cKDTree(points).query_ball_point(points, radius, return_sorted=True)
    indptr = np.append(0, np.cumsum([len(row) for row in found])).astype(np.int64)
    return indptr, np.concatenate([np.asarray(row, np.int64) for row in found])


def spin_images(points: ArrayLike, radius: float, *, bins: tuple[int, int] = (10, 5), normals: Any = None) -> Floats:
    """(N, across · along) spin images of all points: shares of the neighbours within ``radius`` per bin.

    Parameters
    ----------
    bins : (across, along)
        Numbers of bins of the distance from the normal's line and of that along it.
    normals : (N, 3), optional
        Unit vectors; by default the direction of least spread of the neighbours, pointing up.

    Examples
    --------
    A flat square of points: all neighbours lie in the plane, in the middle bin along the normal.

    >>> grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), axis=-1).reshape(-1, 2)
    >>> images = spin_images(np.c_[grid, np.zeros(25)], 2.0, bins=(2, 3))
    >>> images.reshape(25, 2, 3)[:, :, 1].sum(axis=1).round(6).min()
    np.float64(1.0)
    """
    cloud = _cloud(points)
    if not radius > 0:
        raise ParameterError("radius", "spin_images", "a positive number", radius)
    across, along = bins
    if across < 1 or along < 1:
        raise ParameterError("bins", "spin_images", "two positive numbers", bins)
    indptr, neighbors = _nearby(cloud, radius)
    directions = (
        _spreads(cloud, indptr, neighbors)[1][:, :, 0] if normals is None else np.ascontiguousarray(normals, float)
    )
    if directions.shape != cloud.shape:
        raise InputError(f"normals have shape {directions.shape}; expected {cloud.shape}")
    images = np.zeros((len(cloud), across * along))
    fill_spins(cloud, np.ascontiguousarray(directions), indptr, neighbors, across, along, float(radius), images)
    return images


@kernel
def fill_moments(points, indptr, neighbors, means, moments):
    """means[j] ← mean of the neighbours of j; moments[j] ← their covariance."""
    for j in range(points.shape[0]):
        n = indptr[j + 1] - indptr[j]
        for p in range(indptr[j], indptr[j + 1]):
            for d in range(3):
                means[j, d] += points[neighbors[p], d] / n
        for p in range(indptr[j], indptr[j + 1]):
            for d in range(3):
                for e in range(3):
                    a, b = points[neighbors[p], d] - means[j, d], points[neighbors[p], e] - means[j, e]
                    moments[j, d, e] += a * b / n


def _spreads(cloud: Floats, indptr: Any, neighbors: Any) -> tuple[Floats, Floats]:
    """(eigenvalues (N, 3) ascending, eigenvectors (N, 3, 3) in columns) of neighbourhoods; the normals point up."""
    means, moments = np.zeros((len(cloud), 3)), np.zeros((len(cloud), 3, 3))
    fill_moments(cloud, indptr, neighbors, means, moments)
    values, vectors = np.linalg.eigh(moments)
    vectors[vectors[:, 2, 0] < 0, :, 0] *= -1.0
    return np.maximum(values, 0.0), vectors


def shape_features(points: ArrayLike, radius: float) -> Floats:
    """(N, 9) shape of the neighbourhoods of all points; see ``SHAPE_NAMES``. The third coordinate is up.

    With the spreads σ₁ ≥ σ₂ ≥ σ₃ along the principal directions: (σ₁ − σ₂)/σ₁ linear, (σ₂ − σ₃)/σ₁ planar, σ₃/σ₁
    scattered; how vertical the first and the last direction are; heights relative to the neighbours.

    Examples
    --------
    >>> line = np.c_[np.arange(9.0), np.zeros(9), np.zeros(9)]
    >>> shape_features(line, 2.5)[4, :3].round(3).tolist()
    [1.0, 0.0, 0.0]
    """
    cloud = _cloud(points)
    if not radius > 0:
        raise ParameterError("radius", "shape_features", "a positive number", radius)
    indptr, neighbors = _nearby(cloud, radius)
    values, vectors = _spreads(cloud, indptr, neighbors)
    spread = np.sqrt(values[:, ::-1])
    top = np.maximum(spread[:, 0], 1e-12)
    heights = cloud[neighbors, 2]
    low = np.minimum.reduceat(heights, indptr[:-1])
    high = np.maximum.reduceat(heights, indptr[:-1])
    count = np.diff(indptr)
    mean = np.add.reduceat(heights, indptr[:-1]) / count
    spread_of_heights = np.sqrt(np.maximum(np.add.reduceat(heights**2, indptr[:-1]) / count - mean**2, 0.0))
    columns = [
        (spread[:, 0] - spread[:, 1]) / top,
        (spread[:, 1] - spread[:, 2]) / top,
        spread[:, 2] / top,
        np.abs(vectors[:, 2, 2]),
        np.abs(vectors[:, 2, 0]),
        cloud[:, 2] - low,
        high - cloud[:, 2],
        spread_of_heights,
        np.log(count),
    ]
    return np.stack(columns, axis=1)


class ScanFeatures(Estimator):
    """Node features of scans: spin images at several radii, scaled and reduced by PCA; optionally shapes beside them.

    ``fit`` takes a list of (N, 3) clouds and learns the scaling and the components, ``transform`` gives one (N, D)
    matrix per cloud.

    Parameters
    ----------
    radii : radii of the spin images; those of the shapes as well
    bins : (across, along)
    components : int
        Principal components to keep (45 in Lacoste-Julien 2009, §2.6.1).
    shapes : bool
        Add the features of :func:`shape_features`.

    Examples
    --------
    >>> clouds = [np.random.default_rng(s).random((60, 3)) for s in range(2)]
    >>> features = ScanFeatures(radii=(0.2, 0.4), components=5).fit(clouds).transform(clouds)
    >>> [table.shape for table in features]
    [(60, 5), (60, 5)]
    """

    def __init__(
        self,
        radii: tuple[float, ...] = (0.5, 1.5),
        *,
        bins: tuple[int, int] = (10, 5),
        components: int = 45,
        shapes: bool = False,
    ) -> None:
        self.radii, self.bins, self.components, self.shapes = radii, bins, components, shapes

    def _raw(self, cloud: ArrayLike) -> tuple[Floats, Floats]:
        spins = np.hstack([spin_images(cloud, radius, bins=self.bins) for radius in self.radii])
        shapes = np.hstack([shape_features(cloud, radius) for radius in self.radii]) if self.shapes else spins[:, :0]
        return spins, shapes

    def fit(self, clouds: list[ArrayLike]) -> Self:
        """Learn scale and components of the spin images, and scale of the shapes, from all points of the clouds."""
        raw = [self._raw(cloud) for cloud in clouds]
        spins, shapes = (np.concatenate(tables) for tables in zip(*raw, strict=True))
        if not 1 <= self.components <= min(spins.shape):
            expected = f"between 1 and {min(spins.shape)}"
            raise ParameterError("components", "ScanFeatures", expected, self.components)
        self.mean_, scale = spins.mean(axis=0), spins.std(axis=0)
        self.scale_ = np.where(scale > 1e-12, scale, 1.0)
        centred = (spins - self.mean_) / self.scale_
        values, vectors = np.linalg.eigh(centred.T @ centred / len(centred))
        top = np.argsort(values)[::-1][: self.components]
        self.components_ = vectors[:, top] / np.sqrt(np.maximum(values[top], 1e-12).mean())
        self.shape_mean_, spread = shapes.mean(axis=0), shapes.std(axis=0)
        self.shape_scale_ = np.where(spread > 1e-12, spread, 1.0)
        return self

    def transform(self, clouds: list[ArrayLike]) -> list[Floats]:
        """One (N, D) matrix per cloud."""
        check_is_fitted(self, "components_")
        found = []
        for cloud in clouds:
            spins, shapes = self._raw(cloud)
            reduced = ((spins - self.mean_) / self.scale_) @ self.components_
            shapes = (shapes - self.shape_mean_) / self.shape_scale_
            found.append(np.hstack([reduced, shapes]))
        return found
