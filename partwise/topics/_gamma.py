"""Logarithms of Gamma draws, a block of samples at a time: most of the time the mixture bridge spends on its draws."""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, mix, uniform

__all__ = ["BLOCK", "log_gamma_draw", "log_gamma_lanes", "log_lanes"]

BLOCK = 32  # samples side by side

_MANTISSA, _ONE = np.int64(0x000FFFFFFFFFFFFF), np.int64(0x3FF0000000000000)
_SHIFTED = np.int64(0x4330000000000000)  # 2^52, whose low bits hold an integer
_SQUARES = tuple(2.0 / (2 * k + 1) for k in range(11))  # log m = 2 artanh f, f = (m − 1)/(m + 1)
_COSINE = tuple((-1.0) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(14))


@kernel
def log_gamma_draw(shape, position):
    """(log g, new position), g ~ Gamma(shape): Marsaglia & Tsang 2000.

    A shape below one is drawn one higher and scaled by u^{1/shape}, in logarithms, since g itself may underflow.
    """
    raised = shape + 1.0 if shape < 1.0 else shape
    d = raised - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        radius = math.sqrt(-2.0 * math.log(1.0 - uniform(position + GOLDEN)))
        x = radius * math.cos(2.0 * math.pi * uniform(position + GOLDEN * np.uint64(2)))
        u = 1.0 - uniform(position + GOLDEN * np.uint64(3))
        position += GOLDEN * np.uint64(3)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            break
    value = math.log(d * v)
    if shape < 1.0:
        position += GOLDEN
        value += math.log(1.0 - uniform(position)) / shape
    return value, position


@kernel(fastmath={"contract"})  # reassociation would undo the sum with 2^52
def log_lanes(x, n, scratch):
    """x[j] ← log x[j] for j < n, x positive, finite and not subnormal; vectorised, relative error below 1e-14.

    x = m·2^e with m in [√½, √2): the exponent comes from the bits, and log m from the series of 2 artanh.
    scratch: (n,) float64.
    """
    bits, exponents = x.view(np.int64), scratch.view(np.int64)
    for j in range(np.uintp(n)):
        above = np.int64(1) if (bits[j] & _MANTISSA) > np.int64(0x6A09E667F3BCD) else np.int64(0)  # m above √2
        exponents[j] = ((bits[j] >> np.int64(52)) + above) | _SHIFTED
        bits[j] = (bits[j] & _MANTISSA) | (_ONE - (above << np.int64(52)))
    for j in range(np.uintp(n)):
        f = (x[j] - 1.0) / (x[j] + 1.0)
        s = f * f
        p = _SQUARES[10]
        p = p * s + _SQUARES[9]
        p = p * s + _SQUARES[8]
        p = p * s + _SQUARES[7]
        p = p * s + _SQUARES[6]
        p = p * s + _SQUARES[5]
        p = p * s + _SQUARES[4]
        p = p * s + _SQUARES[3]
        p = p * s + _SQUARES[2]
        p = p * s + _SQUARES[1]
        p = p * s + _SQUARES[0]
        x[j] = (scratch[j] - 4503599627371519.0) * 0.6931471805599453 + f * p  # 2^52 + 1023


@kernel(fastmath={"contract"})
def log_gamma_lanes(shapes, position, out, at, work):
    """out[at + s] = log g_s, g_s ~ Gamma(shapes[s]), for BLOCK samples; returns the new position of the stream.

    ``log_gamma_draw`` with its first proposal made for all samples at once; the few whose proposal fails the squeeze
    test are looked at, and if need be drawn again, one by one. shapes: (BLOCK,); work: (8·BLOCK,) float64.
    """
    uniforms = work[: 4 * BLOCK]  # of (0, 1]: for the radius, the step below one, the test, the angle
    scratch, x, d = work[4 * BLOCK : 6 * BLOCK], work[6 * BLOCK : 7 * BLOCK], work[7 * BLOCK :]
    bits = uniforms.view(np.int64)
    for i in range(np.uintp(4 * BLOCK)):
        value = mix(position + GOLDEN * np.uint64(i + np.uintp(1)))
        bits[i] = np.int64(value >> np.uint64(12)) | _ONE
    for i in range(np.uintp(4 * BLOCK)):
        uniforms[i] = 2.0 - uniforms[i]
    position += GOLDEN * np.uint64(4 * BLOCK)
    log_lanes(uniforms, 2 * BLOCK, scratch)
    for s in range(np.uintp(BLOCK)):
        angle = uniforms[np.uintp(3 * BLOCK) + s] - 0.5
        t = angle * angle
        p = _COSINE[13]
        p = p * t + _COSINE[12]
        p = p * t + _COSINE[11]
        p = p * t + _COSINE[10]
        p = p * t + _COSINE[9]
        p = p * t + _COSINE[8]
        p = p * t + _COSINE[7]
        p = p * t + _COSINE[6]
        p = p * t + _COSINE[5]
        p = p * t + _COSINE[4]
        p = p * t + _COSINE[3]
        p = p * t + _COSINE[2]
        p = p * t + _COSINE[1]
        p = p * t + _COSINE[0]
        x[s] = np.sqrt(-2.0 * uniforms[s]) * p
    cubes = uniforms[:BLOCK]  # the radius is used up
    for s in range(np.uintp(BLOCK)):
        d[s] = shapes[s] - 1.0 / 3.0 + (1.0 if shapes[s] < 1.0 else 0.0)
        v = 1.0 + x[s] / np.sqrt(9.0 * d[s])
        cubes[s] = v * v * v if v > 0.0 else 0.0
        scratch[s] = d[s] * cubes[s] if v > 0.0 else 1.0
    log_lanes(scratch[:BLOCK], BLOCK, scratch[BLOCK:])
    for s in range(np.uintp(BLOCK)):
        below = uniforms[np.uintp(BLOCK) + s] / shapes[s] if shapes[s] < 1.0 else 0.0
        out[np.uintp(at) + s] = scratch[s] + below
    for s in range(np.uintp(BLOCK)):
        u = uniforms[np.uintp(2 * BLOCK) + s]
        square = x[s] * x[s]
        if cubes[s] > 0.0 and u < 1.0 - 0.0331 * square * square:
            continue
        if cubes[s] == 0.0 or math.log(u) >= 0.5 * square + d[s] * (1.0 - cubes[s] + math.log(cubes[s])):
            out[np.uintp(at) + s], position = log_gamma_draw(shapes[s], position)
    return position
