"""Pictures of pixels and of points, as PNG inside the page; no library needed."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError
from partwise.report.markup import Html, tag

__all__ = ["picture", "png", "view_of_points"]


def png(colours: ArrayLike) -> bytes:
    """A PNG file of (height, width, 3) colours 0 … 255.

    Examples
    --------
    >>> png(np.zeros((2, 3, 3), np.uint8))[1:4]
    b'PNG'
    """
    table = np.ascontiguousarray(colours, np.uint8)
    if table.ndim != 3 or table.shape[2] != 3 or 0 in table.shape:
        raise InputError(f"a picture has shape {table.shape}; expected (height, width, 3)")
    height, width, _ = table.shape
    rows = np.hstack([np.zeros((height, 1), np.uint8), table.reshape(height, -1)])

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def picture(colours: ArrayLike, words: str, *, width: int = 200) -> Html:
    """An image element that holds the pixels; ``words`` describe it."""
    data = base64.b64encode(png(colours)).decode()
    return tag("img", src=f"data:image/png;base64,{data}", alt=words, title=words, width=width)


def view_of_points(
    points: NDArray[Any], colours: NDArray[np.uint8], *, size: int = 360, turn: float = 0.6, tilt: float = 0.5
) -> NDArray[np.uint8]:
    """(size, size, 3) picture of (N, 3) points with (N, 3) colours: seen from the side, near ones in front."""
    turned = points - points.mean(axis=0)
    c, s = np.cos(turn), np.sin(turn)
    turned = turned @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    across, depth, up = turned[:, 0], turned[:, 1], turned[:, 2]
    up, depth = up * np.cos(tilt) + depth * np.sin(tilt), depth * np.cos(tilt) - up * np.sin(tilt)
    scale = (size - 5) / max(np.ptp(across), np.ptp(up), 1e-9)
    x = ((across - across.min()) * scale).astype(int)
    y = size - 5 - ((up - up.min()) * scale).astype(int)
    canvas = np.full((size, size, 3), 255, np.uint8)
    order = np.argsort(-depth)
    for dx in range(3):
        for dy in range(3):
            canvas[np.clip(y[order] + dy, 0, size - 1), np.clip(x[order] + dx, 0, size - 1)] = colours[order]
    return canvas
