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
from partwise._math import exp_shifted, rows_sum
from partwise._random import GOLDEN, stream, uniform

from ._bridge import combine, log_mean_exp, posterior_from, softplus
from ._chains import distinct_words, inlined, lanes_for, start_lanes, sweep_lanes
from ._gamma import BLOCK, log_gamma_lanes, log_lanes

__all__ = ["mixture_documents"]

BATCHES = 32  # chains on the posterior's side, and groups of samples on the mixture's: their spread gives the errors
GUIDES = 16  # chains whose samples are the centres of the mixture
CENTRES = 200  # components of the mixture, at most
WIDENING = 0.5  # what the counts of a component are multiplied with
FACTORS = 6  # probabilities multiplied before a logarithm: six of the smallest float32 stay above the smallest float64
PILOT_CHAINS, PILOT_BURN_IN, PILOT_SWEEPS = 8, 5, 2


@kernel
def sample_counts(topics, tokens, alpha, n_chains, burn_in, n_sweeps, start):
    """n(z) of ``n_chains`` Gibbs chains after each of ``n_sweeps`` sweeps: (chains, sweeps, L) float64.

    topics: (U·L,) float32, Φ^c of the document's distinct words; tokens: (N,) int64, their places among these.
    """
    n_prior = alpha.size
    width = lanes_for(1, n_chains)
    likelihood = np.empty(topics.size * width, np.float32)
    for i in range(topics.size):
        for j in range(np.uintp(width)):
            likelihood[np.uintp(i * width) + j] = topics[i]
    state, pending = np.empty(4 * width, np.uint32), np.empty(width, np.int32)
    chosen = np.empty(tokens.size * width, np.int32)
    counts, cumulative = np.empty(n_prior * width, np.float32), np.empty(n_prior * width, np.float32)
    start_lanes(tokens, likelihood, alpha, state, start, chosen, counts, cumulative, pending)
    for _ in range(burn_in):
        sweep_lanes(tokens, likelihood, n_prior, state, chosen, counts, cumulative, pending)
    found = np.empty((n_chains, n_sweeps, n_prior))
    for s in range(n_sweeps):
        sweep_lanes(tokens, likelihood, n_prior, state, chosen, counts, cumulative, pending)
        for j in range(n_chains):
            for ell in range(n_prior):  # whole numbers: counts in float32 are off by their rounding
                found[j, s, ell] = np.rint(counts[ell * width + j] - alpha[ell])
            found[j, s, pending[j]] += 1.0
    return found


@kernel
def mixture_logs(alpha, centres, shares):
    """log of shares[m]·B(α)/B(α + centres[m]), B(a) = Π_l Γ(a_l)/Γ(Σ_l a_l) the normaliser of a Dirichlet: (M,)."""
    total = alpha.sum()
    found, plain = np.empty(shares.size), np.empty(alpha.size)
    for ell in range(alpha.size):
        plain[ell] = math.lgamma(alpha[ell])
    for m in range(shares.size):
        added, value = 0.0, math.log(shares[m]) - math.lgamma(total)
        for ell in range(alpha.size):
            if centres[m, ell] > 0.0:
                added += centres[m, ell]
                value += plain[ell] - math.lgamma(alpha[ell] + centres[m, ell])
        found[m] = value + math.lgamma(total + added)
    return found


@kernel
def dirichlet_lanes(shapes, begin, position, logs, theta, total, work):
    """θ_s ~ Dir(shapes[begin + s]) and log θ_s for BLOCK samples, as (L·BLOCK,); returns the new position.

    The last block may be short: it is filled up with copies, whose weights nobody reads.
    """
    n_prior, size = shapes.shape[1], min(BLOCK, shapes.shape[0] - begin)
    row, top = np.empty(BLOCK), np.full(BLOCK, -np.inf)
    for ell in range(n_prior):
        for s in range(BLOCK):
            row[s] = shapes[begin + min(s, size - 1), ell]
        position = log_gamma_lanes(row, position, logs, ell * BLOCK, work)
        for s in range(np.uintp(BLOCK)):
            value = logs[np.uintp(ell * BLOCK) + s]
            top[s] = value if value > top[s] else top[s]
    total[:] = 0.0
    for ell in range(n_prior):
        for s in range(np.uintp(BLOCK)):
            logs[np.uintp(ell * BLOCK) + s] -= top[s]
    exp_shifted(logs, 0, n_prior * BLOCK, 1.0, 0.0, theta, 0)
    for ell in range(n_prior):
        for s in range(np.uintp(BLOCK)):
            total[s] += theta[np.uintp(ell * BLOCK) + s]
    for ell in range(n_prior):
        for s in range(np.uintp(BLOCK)):
            theta[np.uintp(ell * BLOCK) + s] /= total[s]
    log_lanes(total, BLOCK, row)
    for ell in range(n_prior):
        for s in range(np.uintp(BLOCK)):
            logs[np.uintp(ell * BLOCK) + s] -= total[s]
    return position


@kernel
def log_weights(shapes, topics, times, centres, mixture, position, weights):
    """weights[s] = log q_c(θ_s)/q_0(θ_s) at θ_s ~ Dir(shapes[s]); returns the new position of the stream.

    shapes: (S, L); topics: (U·L,), Φ^c of the document's distinct words; times: (U,), their counts;
    centres: (M·L,), what the components of q_0 add to α; mixture: (M,) of ``mixture_logs``. O(S·L·(U + M)).
    """
    n_prior, n_centres = shapes.shape[1], mixture.size
    logs, theta = np.empty(n_prior * BLOCK), np.empty(n_prior * BLOCK)
    density, terms = np.empty(n_centres * BLOCK), np.empty(n_centres * BLOCK)
    product, fit, probability, total = np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    work, top = np.empty(8 * BLOCK), np.empty(BLOCK)
    for begin in range(0, shapes.shape[0], BLOCK):
        position = dirichlet_lanes(shapes, begin, position, logs, theta, total, work)
        fit[:] = 0.0
        product[:] = 1.0
        factors = 0
        for u in range(times.size):
            rows_sum(probability, 0, topics, u * n_prior, 1, theta, 0, BLOCK, n_prior, BLOCK)
            for _ in range(times[u]):
                for s in range(np.uintp(BLOCK)):
                    product[s] *= probability[s]
                factors += 1
                if factors == FACTORS:
                    log_lanes(product, BLOCK, work)
                    for s in range(np.uintp(BLOCK)):
                        fit[s] += product[s]
                        product[s] = 1.0
                    factors = 0
        log_lanes(product, BLOCK, work)
        top[:] = -np.inf
        for m in range(n_centres):  # Dir(θ; α + a)/Dir(θ; α) = B(α)/B(α + a) Π_l θ_l^{a_l}
            rows_sum(density, m * BLOCK, centres, m * n_prior, 1, logs, 0, BLOCK, n_prior, BLOCK)
            for s in range(np.uintp(BLOCK)):
                value = density[np.uintp(m * BLOCK) + s] + mixture[m]
                density[np.uintp(m * BLOCK) + s] = value
                top[s] = value if value > top[s] else top[s]
        for m in range(n_centres):
            for s in range(np.uintp(BLOCK)):
                density[np.uintp(m * BLOCK) + s] -= top[s]
        exp_shifted(density, 0, n_centres * BLOCK, 1.0, 0.0, terms, 0)
        total[:] = 0.0
        for m in range(n_centres):
            for s in range(np.uintp(BLOCK)):
                total[s] += terms[np.uintp(m * BLOCK) + s]
        log_lanes(total, BLOCK, work)
        for s in range(min(BLOCK, shapes.shape[0] - begin)):
            weights[begin + s] = fit[s] + product[s] - top[s] - total[s]
    return position


@inlined
def batch_means(values, means):
    """means[b] = log mean exp of the b-th of equally long runs of ``values``."""
    size = values.size // means.size
    for b in range(means.size):
        means[b] = log_mean_exp(values[b * size : (b + 1) * size])


@kernel
def sigmoids(values, place, work, terms):
    """Σ_i σ(values_i − place) and Σ_i σ(1 − σ), the latter its negative derivative by ``place``."""
    for i in range(values.size):
        work[i] = min(max(place - values[i], -700.0), 700.0)
    exp_shifted(work, 0, values.size, 1.0, 0.0, terms, 0)
    total, slope = 0.0, 0.0
    for i in range(values.size):
        share = 1.0 / (1.0 + terms[i])
        total += share
        slope += share * (1.0 - share)
    return total, slope


@kernel
def bridge_log_ratio(zero, one):
    """Meng & Wong's optimal bridge: the log r = log Z_1/Z_0 at which

        Σ_i σ(zero_i − log r) = Σ_j σ(log r − one_j)

    zero and one hold log q_1/q_0 at equally many samples of p_0 and p_1. The left side falls with r and the right one
    grows: Newton's method between the least and the largest value, halving the interval where a step leaves it.
    """
    low, high = min(zero.min(), one.min()), max(zero.max(), one.max())
    work, terms = np.empty(zero.size), np.empty(zero.size)
    ratio = 0.5 * (zero.mean() + one.mean())
    for _ in range(200):
        above, first = sigmoids(zero, ratio, work, terms)
        below, second = sigmoids(one, ratio, work, terms)
        excess = above - (one.size - below)
        if excess > 0.0:
            low = ratio
        else:
            high = ratio
        step = excess / (first + second) if first + second > 0.0 else np.inf
        step = step if low < ratio + step < high else 0.5 * (low + high) - ratio
        ratio += step
        if abs(step) < 1e-9:
            break
    return ratio


@kernel
def centres_from(counts, first):
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
def propose(centres, shares, alpha, size, position, shapes):
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
def class_evidence(
    class_topics, c, tokens, distinct, times, alpha, burn_in, size, pilot, start, numerators, denominators, means
):
    """Estimate log Z_c from ``size`` samples per batch: fill its batch means, mean topic counts, return its shift.

    log Z_c = shift + log mean_b exp(numerators) − log mean_b exp(denominators). A batch of the posterior's samples is
    a chain of its own, so that spread between batches is spread between independent runs. With ``pilot``
    only q_0 is sampled, from fewer and shorter chains (importance sampling: cheaper, and heavier in its tails).
    """
    narrow = class_topics[c][distinct].ravel()
    topics = narrow.astype(np.float64)
    chains, sweeps, burn = BATCHES + GUIDES, size, burn_in
    if pilot:
        chains, sweeps, burn = PILOT_CHAINS, PILOT_SWEEPS, PILOT_BURN_IN
    counts = sample_counts(narrow, tokens, alpha.astype(np.float32), chains, burn, sweeps, stream(start, c, 0))
    for ell in range(alpha.size):
        means[ell] = counts[:, :, ell].mean()
    centres, shares = centres_from(counts, 0 if pilot else BATCHES)
    position = stream(start, c, 1)
    shapes, zero = np.empty((BATCHES * size, alpha.size)), np.empty(BATCHES * size)
    position = propose(centres, shares, alpha, size, position, shapes)
    mixture = mixture_logs(alpha, centres, shares)
    centres = centres.ravel()
    position = log_weights(shapes, topics, times, centres, mixture, position, zero)
    if pilot:
        batch_means(zero, numerators)
        denominators[:] = 0.0
        return 0.0
    for b in range(BATCHES):
        for s in range(size):
            shapes[b * size + s] = alpha + counts[b, s]
    one = np.empty(BATCHES * size)
    log_weights(shapes, topics, times, centres, mixture, position, one)
    shift = bridge_log_ratio(zero, one)
    for i in range(zero.size):
        zero[i] = -softplus(shift - zero[i])
        one[i] = -softplus(one[i] - shift)
    batch_means(zero, numerators)
    batch_means(one, denominators)
    return shift


@kernel
def mixture_documents(
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

    With ``screen`` > 0 and more than two classes a pilot of about ``pilot`` samples per class sets aside those whose
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
                        class_topics, c, tokens, distinct, times, alpha, burn_in, pilot_size, True, stream(seed, d, 1),
                        numerators[c], denominators[c], means[d, c],
                    )  # fmt: skip
                posterior_from(log_prior, numerators, denominators, shifts, -1, log_ratios[d], probabilities[d])
                left = np.flatnonzero(probabilities[d] >= screen)
            for c in left:
                shifts[c] = class_evidence(
                    class_topics, c, tokens, distinct, times, alpha, burn_in, size, False, stream(seed, d, 2),
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
