"""Scans for the segmentation experiment: the Oakland laser scans, thinned, and synthetic scenes of puppets among
clutter."""

from __future__ import annotations

import io
import tarfile
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from partwise.graphs import AttributedGraph, ScanFeatures, neighbor_edges

__all__ = ["ORIGIN", "Scans", "Split", "graphs_of", "oakland", "puppets", "rest_of", "thinned"]

Floats = NDArray[np.float64]

ORIGIN = "the Oakland 3-D point cloud data set of Munoz, Bagnell, Vandapel and Hebert (2009), as one tar file"
#: Labels of the figure: foliage, trunks, branches and shrubs. All else is background.
VEGETATION = (1300, 1302, 1303, 1304, 1305, 1306)
#: Numbers of the scans, in the order of their file names: every part of the city is in each set.
TRAIN, VALIDATION = (0, 3, 6, 9, 12), (1, 7, 13)


class Scans(NamedTuple):
    """Points, edges and labels of some scans."""

    points: list[Floats]
    edges: list[NDArray[np.int64]]
    labels: list[NDArray[np.int64]]


class Split(NamedTuple):
    """Graphs and labels of training, validation and test."""

    train: tuple[list[AttributedGraph], list[NDArray[np.int64]]]
    validation: tuple[list[AttributedGraph], list[NDArray[np.int64]]]
    test: tuple[list[AttributedGraph], list[NDArray[np.int64]]]


def thinned(points: Floats, n: int) -> NDArray[np.int64]:
    """Numbers of about n points, the first in each cell of a regular grid whose width is found by bisection."""

    def chosen(width: float) -> NDArray[np.int64]:
        cell = np.floor((points - points.min(axis=0)) / width).astype(np.int64)
        key = (cell[:, 0] * (1 << 20) + cell[:, 1]) * (1 << 20) + cell[:, 2]
        return np.unique(key, return_index=True)[1]

    low, high = 1e-3, 10.0
    for _ in range(25):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if len(chosen(middle)) > n else (low, middle)
    return np.sort(chosen(high))


def oakland(path: str, n: int, k: int = 4) -> Scans:
    """All scans with about n points each, in the order of their names; edges to the k nearest points."""
    points, labels, edges = [], [], []
    with tarfile.open(path) as archive:
        members = sorted((m for m in archive.getmembers() if m.name.endswith(".xyz_label_conf")), key=lambda m: m.name)
        for member in members:
            text = archive.extractfile(member)
            assert text is not None
            table = np.loadtxt(io.TextIOWrapper(text, "ascii"), comments="#")
            table = table[thinned(table[:, :3], n)]
            points.append(table[:, :3])
            labels.append(np.isin(table[:, 3].astype(int), VEGETATION).astype(np.int64))
            edges.append(neighbor_edges(points[-1], k))
    return Scans(points, edges, labels)


# Puppets: limbs are capsules on joints; ropes, sticks and rings stand around; one camera sees the nearest surface


def _tube(rng: np.random.Generator, path: Floats, radius: float, density: float) -> Floats:
    """Points on the surface of a tube around a polyline, about ``density`` per unit of area."""
    pieces = []
    for a, b in pairwise(path):
        length = float(np.linalg.norm(b - a))
        along = (b - a) / max(length, 1e-9)
        side = np.cross(along, [0.0, 0.0, 1.0] if abs(along[2]) < 0.9 else [1.0, 0.0, 0.0])
        side /= np.linalg.norm(side)
        other = np.cross(along, side)
        n = max(int(density * 2 * np.pi * radius * (length + radius)), 4)
        t, angle = rng.uniform(-0.5 * radius, length + 0.5 * radius, n), rng.uniform(0, 2 * np.pi, n)
        ring = np.cos(angle)[:, None] * side + np.sin(angle)[:, None] * other
        pieces.append(a + t[:, None] * along + radius * ring)
    return np.concatenate(pieces)


def _limb(rng: np.random.Generator, start: Floats, lengths: tuple[float, ...], lean: float) -> Floats:
    """A polyline of segments that hang down, each turned at random."""
    joints = [start]
    for length in lengths:
        turn = rng.normal(0.0, lean, 3)
        direction = np.array([turn[0], turn[1], -1.0 + 0.5 * turn[2]])
        joints.append(joints[-1] + length * direction / np.linalg.norm(direction))
    return np.array(joints)


def _puppet(rng: np.random.Generator, density: float) -> Floats:
    size, foot = rng.uniform(0.7, 1.3), np.array([*rng.uniform(-2.2, 2.2, 2), rng.uniform(1.6, 2.4)])
    chest, hip = foot + [0, 0, 0.75 * size], foot
    turn = rng.uniform(0, np.pi)
    across = 0.28 * size * np.array([np.cos(turn), np.sin(turn), 0.0])
    parts = [_tube(rng, np.array([hip, chest]), 0.22 * size, density)]
    head = chest + np.array([0, 0, 0.42 * size])
    sphere = rng.normal(size=(int(density * 4 * np.pi * (0.2 * size) ** 2), 3))
    parts.append(head + 0.2 * size * sphere / np.linalg.norm(sphere, axis=1, keepdims=True))
    for side in (-1.0, 1.0):
        arm = _limb(rng, chest + side * across, (0.45 * size, 0.4 * size), 0.8)
        leg = _limb(rng, hip + 0.6 * side * across, (0.55 * size, 0.5 * size), 0.4)
        parts += [_tube(rng, arm, 0.08 * size, density), _tube(rng, leg, 0.1 * size, density)]
    return np.concatenate(parts)


def _clutter(rng: np.random.Generator, density: float) -> list[Floats]:
    found = []
    for _ in range(rng.integers(6, 10)):  # sticks as thick as limbs
        a = np.array([*rng.uniform(-3, 3, 2), rng.uniform(0, 3)])
        found.append(_tube(rng, np.array([a, a + rng.normal(0, 0.8, 3)]), rng.uniform(0.05, 0.14), density))
    for _ in range(rng.integers(2, 4)):  # ropes
        steps = np.cumsum(rng.normal(0, 0.22, (14, 3)), axis=0)
        found.append(_tube(rng, np.array([*rng.uniform(-2.5, 2.5, 2), 2.5]) + steps, 0.05, density))
    for _ in range(rng.integers(3, 6)):  # rings
        angle = np.linspace(0, 2 * np.pi, 18)
        frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        ring = rng.uniform(0.25, 0.5) * (np.cos(angle)[:, None] * frame[0] + np.sin(angle)[:, None] * frame[1])
        centre = np.array([*rng.uniform(-2.5, 2.5, 2), rng.uniform(0.3, 3.0)])
        found.append(_tube(rng, centre + ring, rng.uniform(0.06, 0.12), density))
    for _ in range(2):  # boxes that hide things
        corner = np.array([*rng.uniform(-2.5, 2.0, 2), rng.uniform(0, 2.0)])
        faces = rng.random((int(density * 0.9), 3))
        flat = rng.integers(3, size=len(faces))
        faces[np.arange(len(faces)), flat] = rng.integers(2, size=len(faces))
        found.append(corner + faces * rng.uniform(0.3, 0.7, 3))
    return found


def _scene(seed: int, n: int) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """(points, edges, labels): the nearest surface in every pixel of one view; links between neighbouring pixels."""
    rng = np.random.default_rng(seed)
    density = 9000.0
    figures = [_puppet(rng, density) for _ in range(3)]
    others = _clutter(rng, density)
    cloud = np.concatenate([*figures, *others])
    label = np.repeat([1, 0], [sum(map(len, figures)), sum(map(len, others))])

    def seen(pixel: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(numbers of visible points, their pixels); the camera looks along the first axis."""
        place = np.floor((cloud[:, 1:] + 6.0) / pixel).astype(np.int64)
        key = place[:, 0] * 100_000 + place[:, 1]
        order = np.lexsort((cloud[:, 0], key))
        first = np.append(True, np.diff(key[order]) != 0)
        return order[first], place[order[first]]

    low, high = 0.01, 0.3
    for _ in range(20):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if len(seen(middle)[0]) > n else (low, middle)
    kept, place = seen(high)
    number = {(int(a), int(b)): j for j, (a, b) in enumerate(place)}
    depth = cloud[kept, 0]
    edges = []
    for (a, b), j in number.items():
        for near in ((a + 1, b), (a, b + 1), (a + 1, b + 1)):
            k = number.get(near)
            if k is not None and abs(depth[j] - depth[k]) < 3.0 * high:
                edges.append((j, k))
    points = cloud[kept] + rng.normal(0, 0.005, (len(kept), 3))
    return points, np.array(edges, np.int64).reshape(-1, 2), label[kept].astype(np.int64)


def puppets(count: int, n: int, seed: int = 0) -> Scans:
    """``count`` scenes of about n points: three puppets of different sizes among ropes, sticks, rings and boxes."""
    scenes = [_scene(seed + s, n) for s in range(count)]
    return Scans(*(list(column) for column in zip(*scenes, strict=True)))


def graphs_of(
    scans: Scans, radii: tuple[float, ...], components: int, train: tuple[int, ...], validation: tuple[int, ...]
) -> Split:
    """Graphs with principal components of spin images, learned from the training scans, and one constant edge
    feature."""
    features = ScanFeatures(radii, components=components).fit([scans.points[i] for i in train])
    rows: Any = features.transform(list(scans.points))
    graphs = [AttributedGraph(x, edges) for x, edges in zip(rows, scans.edges, strict=True)]
    sets = (train, validation, rest_of(scans, train, validation))
    return Split(*(([graphs[i] for i in part], [scans.labels[i] for i in part]) for part in sets))


def rest_of(scans: Scans, train: tuple[int, ...], validation: tuple[int, ...]) -> list[int]:
    """Numbers of the scans for testing."""
    return [i for i in range(len(scans.points)) if i not in (*train, *validation)]
