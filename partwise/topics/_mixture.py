"""Kernels of the default class posterior: an optimal bridge from a normalised mixture to the posterior of θ_d.

With z_d summed out, the constant of class c is an integral over L proportions,

    Z_c = p(w_d | y = c) = ∫ q_c(θ) dθ,   q_c(θ) = Dir(θ; α) Π_n (Φ^c θ)_{w_n}

Given z_d, θ_d is Dir(α + n(z_d)), so the posterior of θ_d is a mixture of such Dirichlets over z_d. A few of them make
a density that is normalised and close to it (chapter 4, appendix 4.B, "other links": a bridge from a q_0 with Z_0 = 1):

    q_0(θ) = 1/(M + 1) [Dir(θ; α) + Σ_i Dir(θ; α + n(z^{(i)})/2)],   z^{(i)} from Gibbs chains run for this alone

(halved counts: a component then is about as wide as its share of the posterior, which M components cannot tile with
the widths of z given). Meng & Wong's bridge from q_0, whose samples are independent, to q_c, sampled by other chains,
estimates every Z_c by itself. Nothing asks the topics of two classes to match, as the bridge (4.33) from one
class to another does: topic l of class a and topic l of class b have nothing in common but their number.
"""

from __future__ import annotations

import math

import numpy as np

from partwise._compile import kernel
from partwise._random import GOLDEN, stream, uniform

from ._bridge import combine, log_mean_exp, optimal_log_ratio, posterior_from, softplus
from ._chains import distinct_words, inlined, lanes_for, lay_out, start_lanes, sweep_lanes

__all__ = ["mixture_documents"]

BATCHES = 32  # chains on the posterior's side, and groups of samples on the mixture's: their spread gives the errors
GUIDES = 16  # chains whose samples are the centres of the mixture
CENTRES = 200  # components of the mixture, at most
WIDENING = 0.5  # what the counts of a component are multiplied with
BLOCK = 32  # samples whose densities are computed side by side
FACTORS = 6  # probabilities multiplied before a logarithm: six of the smallest float32 stay above the smallest float64
PILOT_CHAINS, PILOT_BURN_IN, PILOT_SWEEPS = 8, 5, 2


@kernel
def sample_counts(class_topics, c, words, alpha, n_chains, burn_in, n_sweeps, start):  # type: ignore[no-untyped-def]
    """n(z) of ``n_chains`` Gibbs chains of class c after each of ``n_sweeps`` sweeps: (chains, sweeps, L) float64."""
    n_prior = alpha.size
    width = lanes_for(1, n_chains)
    tokens, _, likelihood, _ = lay_out(class_topics, np.array([c]), words, width)
    state, pending = np.empty(4 * width, np.uint32), np.empty(width, np.int32)
    topics = np.empty(words.size * width, np.int32)
    counts, cumulative = np.empty(n_prior * width, np.float32), np.empty(n_prior * width, np.float32)
    start_lanes(tokens, likelihood, alpha, state, start, topics, counts, cumulative, pending)
    for _ in range(burn_in):
        sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
    found = np.zeros((n_chains, n_sweeps, n_prior))
    for s in range(n_sweeps):
        sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
        for i in range(words.size):  # whole numbers: counts in float32 are off by their rounding
            for j in range(n_chains):
                found[j, s, topics[i * width + j]] += 1.0
    return found


@kernel
def log_gamma_draw(shape, position):  # type: ignore[no-untyped-def]
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


@kernel
def log_beta(shapes):  # type: ignore[no-untyped-def]
    """log B(shapes) = Σ_l log Γ(shapes_l) − log Γ(Σ_l shapes_l), the normaliser of a Dirichlet."""
    total, value = 0.0, 0.0
    for shape in shapes:
        total += shape
        value += math.lgamma(shape)
    return value - math.lgamma(total)


@kernel
def log_weights(shapes, topics, times, alpha, centres, shares, position, weights):  # type: ignore[no-untyped-def]
    """weights[s] = log q_c(θ_s)/q_0(θ_s) at θ_s ~ Dir(shapes[s]); returns the new position of the stream.

    shapes: (S, L); topics: (U, L), Φ^c of the document's distinct words; times: (U,), their counts;
    centres: (M, L), what the components of q_0 add to α; shares: (M,). O(S·L·(U + M)).
    """
    n_prior, n_centres = alpha.size, centres.shape[0]
    prior = log_beta(alpha)
    normalizers = np.empty(n_centres)
    for m in range(n_centres):
        normalizers[m] = prior - log_beta(alpha + centres[m]) + math.log(shares[m])
    logs, theta = np.empty((n_prior, BLOCK)), np.empty((n_prior, BLOCK))
    density, product, fit = np.empty((n_centres, BLOCK)), np.empty(BLOCK), np.empty(BLOCK)
    probability = np.empty(BLOCK)
    for begin in range(0, shapes.shape[0], BLOCK):
        size = min(BLOCK, shapes.shape[0] - begin)
        for s in range(BLOCK):
            if s >= size:  # a short last block: copies, whose weights nobody reads
                logs[:, s] = logs[:, 0]
                theta[:, s] = theta[:, 0]
                continue
            for ell in range(n_prior):
                logs[ell, s], position = log_gamma_draw(shapes[begin + s, ell], position)
            top = logs[:, s].max()
            total = 0.0
            for ell in range(n_prior):
                total += math.exp(logs[ell, s] - top)
            for ell in range(n_prior):
                logs[ell, s] -= top + math.log(total)
                theta[ell, s] = math.exp(logs[ell, s])
        fit[:] = 0.0
        product[:] = 1.0
        factors = 0
        for u in range(times.size):
            probability[:] = 0.0
            for ell in range(n_prior):
                for s in range(BLOCK):
                    probability[s] += topics[u, ell] * theta[ell, s]
            for _ in range(times[u]):
                product *= probability
                factors += 1
                if factors == FACTORS:
                    for s in range(size):
                        fit[s] += math.log(product[s])
                    product[:] = 1.0
                    factors = 0
        for m in range(n_centres):  # Dir(θ; α + a)/Dir(θ; α) = B(α)/B(α + a) Π_l θ_l^{a_l}
            density[m] = normalizers[m]
            for ell in range(n_prior):
                if centres[m, ell] > 0.0:
                    for s in range(BLOCK):
                        density[m, s] += centres[m, ell] * logs[ell, s]
        for s in range(size):
            top = density[0, s]
            for m in range(n_centres):
                top = max(top, density[m, s])
            total = 0.0
            for m in range(n_centres):
                if density[m, s] > top - 36.0:  # less than 1e-15 of the largest
                    total += math.exp(density[m, s] - top)
            weights[begin + s] = fit[s] + math.log(product[s]) - top - math.log(total)
    return position


@inlined
def batch_means(values, means):  # type: ignore[no-untyped-def]
    """means[b] = log mean exp of the b-th of equally long runs of ``values``."""
    size = values.size // means.size
    for b in range(means.size):
        means[b] = log_mean_exp(values[b * size : (b + 1) * size])


@kernel
def centres_from(counts, first):  # type: ignore[no-untyped-def]
    """Widened counts of at most CENTRES samples of the chains from ``first`` on, and a row of zeros: (M, L) and shares.

    Short documents repeat themselves: equal samples become one component with their joint share of the mixture.
    """
    n_chains, n_sweeps, n_prior = counts.shape[0] - first, counts.shape[1], counts.shape[2]
    kept = max(1, min(n_sweeps, CENTRES // n_chains))
    centres, times = np.zeros((n_chains * kept + 1, n_prior)), np.zeros(n_chains * kept + 1)
    times[0] = 1.0  # the zeros: the prior
    size = 1
    for j in range(n_chains):
        for k in range(kept):
            sample = counts[first + j, (2 * k + 1) * n_sweeps // (2 * kept)]
            m = 0
            while m < size:
                ell = 0
                while ell < n_prior and centres[m, ell] == WIDENING * sample[ell]:
                    ell += 1
                if ell == n_prior:
                    break
                m += 1
            if m == size:
                centres[m] = WIDENING * sample
                size += 1
            times[m] += 1.0
    return centres[:size], times[:size] / times.sum()


@kernel
def propose(centres, shares, alpha, size, position, shapes):  # type: ignore[no-untyped-def]
    """Shapes of BATCHES × size samples of q_0, components dealt evenly within a batch; returns the new position."""
    for b in range(BATCHES):
        m, reached = 0, shares[0]
        for s in range(size):
            position += GOLDEN
            while m < shares.size - 1 and reached <= (s + uniform(position)) / size:
                m += 1
                reached += shares[m]
            shapes[b * size + s] = alpha + centres[m]
    return position


@kernel
def class_evidence(  # type: ignore[no-untyped-def]
    class_topics, c, words, distinct, times, alpha, burn_in, size, pilot, start, numerators, denominators, means
):
    """Estimate log Z_c from ``size`` samples a batch: fill its batch means, mean topic counts, return its shift.

    log Z_c = shift + log mean_b exp(numerators) − log mean_b exp(denominators). A batch of the posterior's samples is
    a chain of its own, so that spread between batches is spread between independent runs. With ``pilot``
    only q_0 is sampled, from fewer and shorter chains (importance sampling: cheaper, and heavier in its tails).
    """
    narrow = alpha.astype(np.float32)
    topics = class_topics[c][distinct].astype(np.float64)
    chains, sweeps, burn = BATCHES + GUIDES, size, burn_in
    if pilot:
        chains, sweeps, burn = PILOT_CHAINS, PILOT_SWEEPS, PILOT_BURN_IN
    counts = sample_counts(class_topics, c, words, narrow, chains, burn, sweeps, stream(start, c, 0))
    for ell in range(alpha.size):
        means[ell] = counts[:, :, ell].mean()
    centres, shares = centres_from(counts, 0 if pilot else BATCHES)
    position = stream(start, c, 1)
    shapes, zero = np.empty((BATCHES * size, alpha.size)), np.empty(BATCHES * size)
    position = propose(centres, shares, alpha, size, position, shapes)
    position = log_weights(shapes, topics, times, alpha, centres, shares, position, zero)
    if pilot:
        batch_means(zero, numerators)
        denominators[:] = 0.0
        return 0.0
    for b in range(BATCHES):
        for s in range(size):
            shapes[b * size + s] = alpha + counts[b, s]
    one = np.empty(BATCHES * size)
    log_weights(shapes, topics, times, alpha, centres, shares, position, one)
    # The fixed point from two starts would be the same: it is unique. Medians are close to it.
    shift = optimal_log_ratio(zero, one, 0.5 * (np.median(zero) + np.median(one)), 1e-7, 500)
    for i in range(zero.size):
        zero[i] = -softplus(shift - zero[i])
        one[i] = -softplus(one[i] - shift)
    batch_means(zero, numerators)
    batch_means(one, denominators)
    return shift


@kernel
def mixture_documents(  # type: ignore[no-untyped-def]
    documents,
    offsets,
    words,
    class_topics,
    log_prior,
    alpha,
    burn_in,
    n_samples,
    pilot,
    screen,
    seed,
    probabilities,
    errors,
    log_ratios,
    ratio_errors,
    means,
):
    """Class posterior of each document in ``documents``; results by document.

    With ``screen`` > 0 and more than two classes a pilot of about ``pilot`` samples a class sets aside those whose
    posterior it puts below ``screen``: they keep its estimate and its error.
    """
    n_classes = log_prior.size
    numerators, denominators = np.zeros((n_classes, BATCHES)), np.zeros((n_classes, BATCHES))
    shifts = np.zeros(n_classes)
    size, pilot_size = -(-n_samples // BATCHES), -(-pilot // BATCHES)
    for d in documents:
        text = words[offsets[d] : offsets[d + 1]]
        numerators[:] = 0.0
        denominators[:] = 0.0
        shifts[:] = 0.0  # a document without words keeps the prior
        means[d] = 0.0
        if text.size > 0:
            tokens, distinct = np.empty(text.size, np.int64), np.empty(text.size, np.int64)
            distinct = distinct[: distinct_words(text, tokens, distinct)]
            times = np.bincount(tokens)
            left = np.arange(n_classes)
            if screen > 0.0 and n_classes > 2:
                for c in range(n_classes):
                    shifts[c] = class_evidence(
                        class_topics, c, text, distinct, times, alpha, burn_in, pilot_size, True, stream(seed, d, 1),
                        numerators[c], denominators[c], means[d, c],
                    )  # fmt: skip
                posterior_from(log_prior, numerators, denominators, shifts, -1, log_ratios[d], probabilities[d])
                left = np.flatnonzero(probabilities[d] >= screen)
            for c in left:
                shifts[c] = class_evidence(
                    class_topics, c, text, distinct, times, alpha, burn_in, size, False, stream(seed, d, 2),
                    numerators[c], denominators[c], means[d, c],
                )  # fmt: skip
        combine(
            log_prior,
            numerators,
            denominators,
            shifts,
            log_ratios[d],
            ratio_errors[d],
            probabilities[d],
            errors[d],
        )
