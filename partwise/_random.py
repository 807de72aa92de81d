"""Counter-based random numbers: a stream is named by integers, so nothing has to be saved to resume.

``stream(seed, a, b)`` hashes three integers to the 64-bit start of a SplitMix64 sequence. A sweep, a
document or a chain names its own stream, so results depend neither on the order nor on the number of
threads that work through them.
"""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel

__all__ = ["GOLDEN", "fill_lanes", "mix", "named_stream", "stream", "uniform"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mix(value):
    """The finaliser of SplitMix64: a bijection of 64-bit integers whose outputs look random."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def stream(seed, first, second):
    """Start of the stream named (seed, first, second), as uint64."""
    start = mix(np.uint64(seed) + GOLDEN)
    start = mix(start ^ (np.uint64(first) + GOLDEN))
    return mix(start ^ (np.uint64(second) + GOLDEN * np.uint64(3)))


@kernel
def uniform(position):
    """Uniform float64 in [0, 1) at a position of a stream; positions advance by ``GOLDEN``."""
    return np.float64(mix(position) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def fill_lanes(state, start):
    """Seed the (4·W,) uint32 state of W xoshiro128+ generators from one stream position."""
    position = start
    for i in range(state.size):
        position += GOLDEN
        state[i] = np.uint32(mix(position) >> np.uint64(32)) | np.uint32(1)  # never all zeros


def named_stream(seed: int, first: int, second: int) -> np.uint64:
    """``stream`` for callers outside compiled code."""
    with np.errstate(over="ignore"):  # wrap-around is the arithmetic meant here
        return np.uint64(stream(np.uint64(seed), np.uint64(first), np.uint64(second)))
