"""Kernels of the class posterior: run the chains of a document, then estimate its normalising constants."""

from __future__ import annotations

import numpy as np

from partwise._compile import kernel
from partwise._random import stream

from ._chains import (
    accumulate_counts,
    class_sums,
    inlined,
    lane_sums,
    lanes_for,
    lay_out,
    relative_to,
    score_sweep,
    start_lanes,
    sweep_lanes,
)
from ._simd import LANES

__all__ = [
    "BATCHES",
    "GEOMETRIC",
    "HARMONIC",
    "OPTIMAL",
    "annealed_documents",
    "combine",
    "sampled_documents",
]

GEOMETRIC, OPTIMAL, HARMONIC = 0, 1, 2
BATCHES = 20  # groups of consecutive samples whose spread gives the standard errors


@kernel
def chains_for(n_classes, burn_in, n_samples):
    """Chains per class with the fewest draws: enough to fill whole vectors, few enough to repay their burn-in."""
    best, least = 1, np.inf
    for chains in range(1, LANES + 1):
        work = (burn_in + max(-(-n_samples // chains), BATCHES)) * lanes_for(n_classes, chains)
        if work < least:
            best, least = chains, work
    return best


@kernel
def sample_document(class_topics, classes, words, alpha, n_chains, burn_in, n_sweeps, reference, relative, start):
    """Run ``n_chains`` chains per class on one document and record what the estimators need.

    ``reference`` is a place in ``classes``, or −1 for the class that explains the words best after burn-in.
    Returns the reference; own: (S, W), log q_c/q_ref of each lane's sample under its own class c; across: (S, n_chains,
    C), that of the reference chains' samples under every class; means: (C, L), the expected topic counts n̂_l^{(d)}(y)
    of eq. 4.29. Without ``relative`` the logarithms are of q_c itself. O((burn_in + S)·N·L·W).
    """
    n_classes, n_prior = classes.size, alpha.size
    width = lanes_for(n_classes, n_chains)
    tokens, _, likelihood, table = lay_out(class_topics, classes, words, width)
    state = np.empty(4 * width, np.uint32)
    topics = np.empty(words.size * width, np.int32)
    counts = np.empty(n_prior * width, np.float32)
    cumulative = np.empty(n_prior * width, np.float32)
    pending = np.empty(width, np.int32)
    start_lanes(tokens, likelihood, alpha, state, start, topics, counts, cumulative, pending)
    for _ in range(burn_in):
        sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
    own = np.empty((n_sweeps, width))
    across = np.empty((n_sweeps, n_chains, n_classes))
    if reference < 0:
        lane_sums(tokens, table, n_prior, topics, own[0])
        reference = np.argmax(own[0, :n_classes])
    if relative:
        relative_to(reference, width, table)
    sums, scores = np.zeros(n_prior * width), np.empty(width, np.float32)
    for s in range(n_sweeps):
        score_sweep(tokens, likelihood, table, n_prior, state, topics, counts, cumulative, pending, scores, own[s])
        if relative:
            for r in range(n_chains):
                lane = r * n_classes + reference
                class_sums(tokens, table, n_prior, n_classes, width, topics, lane, across[s, r])
        accumulate_counts(alpha, counts, pending, sums)
    means = np.zeros((n_classes, n_prior))
    for ell in range(n_prior):
        for j in range(n_classes * n_chains):
            means[j % n_classes, ell] += sums[ell * width + j] / (n_sweeps * n_chains)
    return reference, own, across, means


@inlined
def log_mean_exp(values):
    top = values.max()
    total = 0.0
    for value in values:
        total += np.exp(value - top)
    return top + np.log(total / values.size)


@inlined
def softplus(value):
    return max(value, 0.0) + np.log1p(np.exp(-abs(value)))


@inlined
def optimal_log_ratio(zero, one, start, tolerance, limit):
    """Meng & Wong's fixed point for log r = log Z_1/Z_0 with the bridge q_b = (Z_0/q_0 + Z_1/q_1)^{−1}.

    r ← mean_0 [ρ/(ρ + r)] / mean_1 [1/(ρ + r)],  ρ = q_1/q_0; zero and one hold log ρ at the samples of
    p_0 and p_1 (equally many). The fixed point has the asymptotic error of the optimal bridge.
    """
    ratio = start
    upper = np.empty(zero.size)
    lower = np.empty(one.size)
    for _ in range(limit):
        for i in range(zero.size):
            upper[i] = -softplus(ratio - zero[i])
        for i in range(one.size):
            lower[i] = -softplus(one[i] - ratio)
        change = log_mean_exp(upper) - log_mean_exp(lower)
        ratio += change
        if abs(change) < tolerance:
            break
    return ratio


@inlined
def estimate(method, reference, own, across, numerators, denominators, shifts):
    """Fill the (C, BATCHES) logarithms of batch means whose ratio estimates Z_c/Z_reference, and (C,) shifts.

    log Z_c/Z_ref = shifts[c] + log mean_b exp(numerators[c]) − log mean_b exp(denominators[c])

    geometric (4.33): numerators √(q_c/q_ref) over the reference's samples, denominators √(q_ref/q_c) over
    those of c; optimal: Meng & Wong's at their fixed point; harmonic mean: 1/p(w|z) over those of c alone.
    own, across: as ``sample_document`` returns them.
    """
    n_sweeps, n_chains, n_classes = across.shape
    batches = numerators.shape[1]
    zero = np.empty(n_sweeps * n_chains)
    one = np.empty(n_sweeps * n_chains)
    for c in range(n_classes):
        shifts[c] = 0.0
        numerators[c] = 0.0
        denominators[c] = 0.0
        if c == reference and method != HARMONIC:
            continue
        for s in range(n_sweeps):
            for r in range(n_chains):
                lane = r * n_classes + c
                if method == HARMONIC:
                    one[s * n_chains + r] = -own[s, lane]
                else:
                    zero[s * n_chains + r] = across[s, r, c]
                    one[s * n_chains + r] = own[s, lane]
        if method == OPTIMAL:
            start = log_mean_exp(0.5 * zero) - log_mean_exp(-0.5 * one)
            ratio = optimal_log_ratio(zero, one, start, 1e-6, 200)
            shifts[c] = ratio
            for i in range(zero.size):
                zero[i] = -softplus(ratio - zero[i])
                one[i] = -softplus(one[i] - ratio)
        elif method == GEOMETRIC:
            zero *= 0.5
            one *= -0.5
        for b in range(batches):
            low, high = n_sweeps * b // batches * n_chains, n_sweeps * (b + 1) // batches * n_chains
            if method != HARMONIC:
                numerators[c, b] = log_mean_exp(zero[low:high])
            denominators[c, b] = log_mean_exp(one[low:high])


@inlined
def posterior_from(log_prior, numerators, denominators, shifts, left_out, log_ratios, probabilities):
    """p(y | w) ∝ π_y Z_y/Z_ref from batch means, without batch ``left_out`` (−1: with all)."""
    n_classes, batches = numerators.shape
    kept = np.empty(batches - (1 if left_out >= 0 else 0))
    for c in range(n_classes):
        log_ratios[c] = shifts[c]
        for side in range(2):
            i = 0
            for b in range(batches):
                if b != left_out:
                    kept[i] = numerators[c, b] if side == 0 else denominators[c, b]
                    i += 1
            log_ratios[c] += log_mean_exp(kept) if side == 0 else -log_mean_exp(kept)
    scores = log_prior + log_ratios
    top = scores.max()
    total = 0.0
    for c in range(n_classes):
        probabilities[c] = np.exp(scores[c] - top)
        total += probabilities[c]
    probabilities /= total


@inlined
def leave_one_out(values, found):
    """found[b] = log mean exp of ``values`` without the b-th: sums before it and after it, so that nothing cancels."""
    batches = values.size
    top = values.max()
    total = 0.0
    for b in range(batches):
        found[b] = total
        total += np.exp(values[b] - top)
    total = 0.0
    for b in range(batches - 1, -1, -1):
        found[b] = top + np.log(max(found[b] + total, 1e-300) / (batches - 1))
        total += np.exp(values[b] - top)


@kernel
def combine(log_prior, numerators, denominators, shifts, log_ratios, ratio_errors, probabilities, errors):
    """Posterior, log Z_c/Z_ref, and standard errors of both by the delete-one-batch jackknife; O(C·B)."""
    n_classes, batches = numerators.shape
    posterior_from(log_prior, numerators, denominators, shifts, -1, log_ratios, probabilities)
    ratios, posteriors = np.empty((n_classes, batches)), np.empty((n_classes, batches))
    above, below = np.empty(batches), np.empty(batches)
    for c in range(n_classes):
        leave_one_out(numerators[c], above)
        leave_one_out(denominators[c], below)
        for b in range(batches):
            ratios[c, b] = shifts[c] + above[b] - below[b]
    for b in range(batches):
        posteriors[:, b] = np.exp(log_prior + ratios[:, b] - (log_prior + ratios[:, b]).max())
        posteriors[:, b] /= posteriors[:, b].sum()
    for c in range(n_classes):
        ratio_errors[c] = np.sqrt((batches - 1) * np.var(ratios[c]))
        errors[c] = np.sqrt((batches - 1) * np.var(posteriors[c]))


@kernel
def sampled_documents(
    documents,
    offsets,
    words,
    class_topics,
    log_prior,
    alpha,
    method,
    n_chains,
    burn_in,
    n_samples,
    reference,
    pilot,
    screen,
    seed,
    probabilities,
    errors,
    log_ratios,
    ratio_errors,
    means,
):
    """Class posterior of each document in ``documents``, eq. 4.33 or its relatives; results by document.

    ``n_samples`` per class in all, from ``n_chains`` chains per class (0: as many as fill a vector).
    With ``screen`` > 0 a pilot run of ``pilot`` sweeps sets aside the classes whose posterior it puts
    below ``screen``; they keep the pilot's estimate and the long chains go to the others.
    """
    n_classes = log_prior.size
    numerators, denominators = np.zeros((n_classes, BATCHES)), np.zeros((n_classes, BATCHES))
    shifts = np.zeros(n_classes)
    everyone = np.arange(n_classes)
    relative = method != HARMONIC
    for d in documents:
        text = words[offsets[d] : offsets[d + 1]]
        numerators[:] = 0.0
        denominators[:] = 0.0
        shifts[:] = 0.0  # a document without words keeps the prior
        means[d] = 0.0
        running = text.size > 0
        classes = everyone
        piloting = screen > 0.0 and n_classes > 2
        while running:  # the pilot run where there is one, then the long run
            place, chains, burn, sweeps, name = -1, 1, pilot // 2, pilot, 1
            if not piloting:
                for i in range(classes.size):
                    if classes[i] == reference:
                        place = i
                chains = n_chains if n_chains > 0 else chains_for(classes.size, burn_in, n_samples)
                burn, sweeps, name = burn_in, max(-(-n_samples // chains), BATCHES), 2
            found, own, across, mean = sample_document(
                class_topics, classes, text, alpha, chains, burn, sweeps, place, relative, stream(seed, d, name)
            )
            part, other = np.empty((classes.size, BATCHES)), np.empty((classes.size, BATCHES))
            moved = np.empty(classes.size)
            estimate(method, found, own, across, part, other, moved)
            # Ratios to this run's reference go on the pilot's scale; harmonic means need no reference.
            anchor = shifts[classes[found]] if relative else 0.0
            for i in range(classes.size):
                c = classes[i]
                numerators[c], denominators[c] = part[i], other[i]
                shifts[c] = moved[i] + anchor
                means[d, c] = mean[i]
            if not piloting:
                running = False
            else:
                posterior_from(log_prior, numerators, denominators, shifts, -1, log_ratios[d], probabilities[d])
                classes = np.flatnonzero(probabilities[d] >= screen)
                shifts[:] = log_ratios[d]  # the pilot's estimate, as a constant
                numerators[:] = 0.0
                denominators[:] = 0.0
                piloting = False
                running = classes.size > 1
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


@kernel
def annealed_documents(
    documents,
    offsets,
    words,
    class_topics,
    log_prior,
    alpha,
    n_chains,
    n_steps,
    seed,
    probabilities,
    errors,
    log_ratios,
    ratio_errors,
    means,
):
    """Annealed importance sampling (Neal 2001; appendix 4.B) of Z_c = p(w_d | y = c), one run per lane.

    Runs start from an exact draw of p(z_d) and pass q_τ(z) ∝ p(z_d) Π_n (Φ^c)^τ, τ = 0..1 in ``n_steps``
    equal steps, one Gibbs sweep each; a run's weight is Π_t p(w|z_t)^{τ_{t+1} − τ_t} and Z_c their mean.
    """
    n_classes, n_prior = log_prior.size, alpha.size
    width = lanes_for(n_classes, n_chains)
    everyone = np.arange(n_classes)
    for d in documents:
        text = words[offsets[d] : offsets[d + 1]]
        numerators, denominators = np.zeros((n_classes, n_chains)), np.zeros((n_classes, n_chains))
        shifts = np.zeros(n_classes)
        means[d] = 0.0
        if text.size > 0:
            tokens, _, likelihood, log_likelihood = lay_out(class_topics, everyone, text, width)
            state, pending = np.empty(4 * width, np.uint32), np.empty(width, np.int32)
            topics = np.empty(text.size * width, np.int32)
            counts, cumulative = np.empty(n_prior * width, np.float32), np.empty(n_prior * width, np.float32)
            likelihood[:] = np.float32(1)
            start_lanes(tokens, likelihood, alpha, state, stream(seed, d, 3), topics, counts, cumulative, pending)
            own, weights = np.empty(width), np.zeros(width)
            for step in range(n_steps):
                lane_sums(tokens, log_likelihood, n_prior, topics, own)
                weights += own / n_steps
                power = np.float32((step + 1) / n_steps)
                for i in range(likelihood.size):
                    likelihood[i] = np.exp(power * log_likelihood[i])
                sweep_lanes(tokens, likelihood, n_prior, state, topics, counts, cumulative, pending)
            sums = np.zeros(n_prior * width)
            accumulate_counts(alpha, counts, pending, sums)
            for c in range(n_classes):
                top = weights[c : n_classes * n_chains : n_classes].max()
                total = 0.0
                for r in range(n_chains):
                    lane = r * n_classes + c
                    numerators[c, r] = weights[lane]
                    total += np.exp(weights[lane] - top)
                for r in range(n_chains):  # expected counts: the runs' ends, by their weights
                    lane = r * n_classes + c
                    for ell in range(n_prior):
                        means[d, c, ell] += np.exp(weights[lane] - top) / total * sums[ell * width + lane]
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
