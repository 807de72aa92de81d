"""The samplers draw from the distributions they claim: enumeration and Geweke's joint test."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from partwise._random import named_stream
from partwise.topics._gibbs import count_topics, joint_sweep, lda_sweep, padded
from partwise.topics._simd import BLOCK, LANES, _xoshiro, draw_lanes, draw_topic, score_lanes
from partwise.topics.hyper import document_topic_counts, log_joint
from partwise.topics.transforms import block_transformation, smoothed_start, softmax_columns, support_of


def rising(a, n):
    return gammaln(a + n) - gammaln(a)


def lda_state(offsets, words, z, n_topics, n_words):
    width = padded(n_topics)
    table = np.zeros((n_words, width), np.float32)
    count_topics(words, z, table.reshape(-1), width)
    return table, table.sum(axis=0).astype(np.int64)


def sweep_lda(offsets, words, z, table, totals, alpha, beta, start):
    padded_alpha = np.zeros(table.shape[1], np.float32)
    padded_alpha[: alpha.size] = alpha
    documents = np.arange(offsets.size - 1)
    cells = (documents, offsets, offsets[:-1], offsets[1:], words, z)
    lda_sweep(*cells, table.reshape(-1), totals, padded_alpha, beta, alpha.size, start)


def batch_z_scores(indicators, expected, batches=40):
    """z-scores of means of correlated draws, with standard errors from batch means."""
    means = np.array([part.mean(axis=0) for part in np.array_split(indicators, batches)])
    errors = means.std(axis=0, ddof=1) / np.sqrt(batches)
    return (indicators.mean(axis=0) - expected) / np.maximum(errors, 1e-4)


def test_lda_marginals_match_enumeration():
    offsets, words = np.array([0, 3, 5]), np.array([0, 1, 1, 1, 2], np.int32)
    alpha, beta, n_words, n_topics = np.array([0.4, 0.9]), 0.3, 3, 2
    states = np.array(list(itertools.product(range(n_topics), repeat=5)))
    scores = []
    for z in states:
        words_topics = np.zeros((n_words, n_topics))
        np.add.at(words_topics, (words, z), 1)
        scores.append(log_joint(document_topic_counts(offsets, z, n_topics), words_topics, alpha, beta))
    probabilities = np.exp(np.array(scores) - logsumexp(scores))
    z = np.zeros(5, np.int32)
    table, totals = lda_state(offsets, words, z, n_topics, n_words)
    draws = []
    for s in range(30_000):
        sweep_lda(offsets, words, z, table, totals, alpha, beta, named_stream(3, s, 0))
        draws.append(z.copy())
    codes = np.array(draws) @ (2 ** np.arange(5)[::-1])
    indicators = codes[:, None] == np.arange(len(states))
    assert np.abs(batch_z_scores(indicators, probabilities)).max() < 4.5
    # and the counts are still those of the topics
    assert np.array_equal(table, lda_state(offsets, words, z, n_topics, n_words)[0])


def joint_log_probability(offsets, words, labels, z, u, transformation, alpha, beta, n_words):
    n_topics = transformation.shape[1]
    owner = np.repeat(labels, np.diff(offsets))
    with np.errstate(divide="ignore"):
        score = np.log(transformation[owner, u, z]).sum()
    counts = document_topic_counts(offsets, z, alpha.size)
    score += rising(alpha, counts).sum() - rising(alpha.sum(), counts.sum(axis=1)).sum()
    table = np.zeros((n_words, n_topics))
    np.add.at(table, (words, u), 1)
    return score + rising(beta, table).sum() - rising(n_words * beta, table.sum(axis=0)).sum()


@pytest.mark.parametrize("learned", [False, True])
def test_joint_marginals_match_enumeration(learned):
    """Eq. 4.25, drawn as u then z given u, has the enumerated p(u, z | y, w, T)."""
    offsets, words = np.array([0, 2, 3]), np.array([0, 1, 1], np.int32)
    labels, alpha, beta, n_words = np.array([0, 1]), np.array([0.5, 0.8]), 0.4, 2
    transformation = block_transformation(2, 1, 1)
    if learned:
        transformation = softmax_columns(smoothed_start(transformation))
    pairs = list(itertools.product(range(3), range(2)))
    states = np.array(list(itertools.product(range(6), repeat=3)))
    us, zs = np.array([p[0] for p in pairs])[states], np.array([p[1] for p in pairs])[states]
    scores = [
        joint_log_probability(offsets, words, labels, z, u, transformation, alpha, beta, n_words)
        for u, z in zip(us, zs, strict=True)
    ]
    probabilities = np.exp(np.array(scores) - logsumexp(scores))
    support = support_of(transformation)
    z = np.zeros(3, np.int32)
    u = transformation[labels[np.array([0, 0, 1])], :, 0].argmax(axis=1).astype(np.int32)
    table = np.zeros((n_words, 3), np.float32)
    count_topics(words, u, table.reshape(-1), 3)
    totals = np.bincount(u, minlength=3)
    codes = []
    for s in range(40_000):
        start = named_stream(5, s, 0)
        tokens = (np.arange(2), offsets, words, labels, z, u)
        joint_sweep(*tokens, table.reshape(-1), totals, alpha, beta, *support, start)
        codes.append((u * 2 + z) @ np.array([36, 6, 1]))
    indicators = np.array(codes)[:, None] == np.arange(216)
    scores = batch_z_scores(indicators, probabilities)
    assert np.abs(scores[probabilities > 1e-3]).max() < 4.5
    assert indicators.mean(axis=0)[probabilities < 1e-12].sum() == 0


def geweke(successive, independent):
    """z-scores between statistics of the two simulators; the successive one is correlated."""
    a, b = np.array(successive), np.array(independent)
    means = np.array([part.mean(axis=0) for part in np.array_split(a, 50)])
    error = np.sqrt(means.var(axis=0, ddof=1) / 50 + b.var(axis=0, ddof=1) / len(b))
    return (a.mean(axis=0) - b.mean(axis=0)) / np.maximum(error, 1e-6)


def draw_words(rng, groups, beta, n_words):
    """Words given their topics with Φ integrated out: a Pólya urn a topic."""
    words = np.empty(groups.size, np.int32)
    counts = np.zeros((groups.max() + 1, n_words))
    for i, k in enumerate(groups):
        weights = counts[k] + beta
        words[i] = rng.choice(n_words, p=weights / weights.sum())
        counts[k, words[i]] += 1
    return words


def draw_topics(rng, alpha, lengths):
    return np.concatenate([rng.choice(alpha.size, size=n, p=rng.dirichlet(alpha)) for n in lengths]).astype(np.int32)


def test_geweke_lda():
    rng = np.random.default_rng(0)
    lengths, alpha, beta, n_words = np.array([4, 3, 5]), np.array([0.3, 0.7, 1.1]), 0.5, 4
    offsets = np.concatenate([[0], np.cumsum(lengths)])

    def statistics(z, words):
        topics = np.bincount(z, minlength=3)
        together = sum(z[i] == z[j] and words[i] == words[j] for i, j in itertools.combinations(range(12), 2))
        first = document_topic_counts(offsets, z, 3)[0]
        return [
            topics[0],
            topics[1] ** 2,
            together,
            (first**2).sum(),
            np.bincount(words, minlength=4)[0] ** 2,
        ]

    independent = []
    for _ in range(6000):
        z = draw_topics(rng, alpha, lengths)
        independent.append(statistics(z, draw_words(rng, z, beta, n_words)))
    z = draw_topics(rng, alpha, lengths)
    words = draw_words(rng, z, beta, n_words)
    successive = []
    for s in range(12_000):
        table, totals = lda_state(offsets, words, z, 3, n_words)
        sweep_lda(offsets, words, z, table, totals, alpha, beta, named_stream(1, s, 0))
        words = draw_words(rng, z, beta, n_words)
        successive.append(statistics(z, words))
    assert np.abs(geweke(successive, independent)).max() < 4.0


def test_geweke_disclda():
    rng = np.random.default_rng(1)
    lengths, alpha, beta, n_words = np.array([4, 3, 4]), np.array([0.4, 0.9]), 0.5, 4
    labels = np.array([0, 1, 1])
    transformation = softmax_columns(smoothed_start(block_transformation(2, 1, 1)))
    support = support_of(transformation)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    owner = np.repeat(labels, lengths)

    def prior():
        z = draw_topics(rng, alpha, lengths)
        u = np.array([rng.choice(3, p=transformation[y, :, ell]) for y, ell in zip(owner, z, strict=True)], np.int32)
        return z, u

    def statistics(z, u, words):
        counts = np.bincount(u, minlength=3)
        together = sum(u[i] == u[j] and words[i] == words[j] for i, j in itertools.combinations(range(11), 2))
        agree = ((z == 0) & (u == owner)).sum()
        return [counts[0], counts[2] ** 2, together, agree, (np.bincount(z[:4], minlength=2) ** 2).sum()]

    independent = []
    for _ in range(5000):
        z, u = prior()
        independent.append(statistics(z, u, draw_words(rng, u, beta, n_words)))
    z, u = prior()
    words = draw_words(rng, u, beta, n_words)
    successive = []
    for s in range(10_000):
        table = np.zeros((n_words, 3), np.float32)
        count_topics(words, u, table.reshape(-1), 3)
        totals = np.bincount(u, minlength=3)
        tokens = (np.arange(3), offsets, words, labels, z, u)
        joint_sweep(*tokens, table.reshape(-1), totals, alpha, beta, *support, named_stream(2, s, 0))
        words = draw_words(rng, u, beta, n_words)
        successive.append(statistics(z, u, words))
    assert np.abs(geweke(successive, independent)).max() < 4.0


@pytest.mark.parametrize("n_topics", [3, 16, 50])
def test_vector_draw_is_inverse_of_the_cumulative_sum(n_topics):
    rng = np.random.default_rng(n_topics)
    width = padded(n_topics)
    weights = np.zeros(width, np.float32)
    weights[:n_topics] = rng.gamma(0.3, size=n_topics)
    table = rng.integers(0, 5, 3 * width).astype(np.float32)
    from numba import njit

    @njit
    def drawn(uniforms, weights, table, offset, beta, blocks):
        sums = np.empty(blocks + 1, np.float32)
        out = np.empty(uniforms.size, np.int64)
        for i in range(uniforms.size):
            out[i] = draw_topic(weights, table, offset, beta, sums, blocks, np.float32(uniforms[i]))
        return out

    uniforms = rng.random(500).astype(np.float32)
    found = drawn(uniforms, weights, table, width, np.float32(0.1), width // BLOCK)
    exact = np.cumsum(weights.astype(np.float64) * (table[width : 2 * width] + np.float32(0.1)))
    reference = np.searchsorted(exact, uniforms * exact[-1], side="right")
    near = np.abs(exact[None, :] - (uniforms * exact[-1])[:, None]).min(axis=1) < 1e-4 * exact[-1]
    assert (found == reference)[~near].all()
    assert (~near).sum() > 400
    plain = [draw_topic(weights, table, width, 0.1, np.empty(9), width // BLOCK, float(x)) for x in uniforms]
    assert (np.array(plain) == reference)[~near].all()


@pytest.mark.parametrize("scored", [False, True])
def test_compiled_lanes_equal_the_plain_ones(scored):
    """The vector code and its NumPy meaning: the same draws, counts, scores and generator states."""
    from numba import njit

    @njit
    def run(state, likelihood, counts, cumulative, topics, chosen, n_topics, steps, table, scores):
        for i in range(steps):
            place = (i % 3) * n_topics * 16
            if scored:
                score_lanes(
                    state, likelihood, place, counts, cumulative, n_topics, 2, topics, i % 4, chosen, table, scores
                )
            else:
                draw_lanes(state, likelihood, place, counts, cumulative, n_topics, 2, topics, i % 4, chosen)

    rng = np.random.default_rng(0)
    n_topics, width = 5, 2 * LANES
    likelihood = rng.random(3 * n_topics * width).astype(np.float32)
    table = rng.normal(size=likelihood.size).astype(np.float32)
    state = rng.integers(1, 2**32, 4 * width, dtype=np.uint64).astype(np.uint32)
    results = []
    for program in (run, run.py_func):
        now, scores = state.copy(), np.zeros(width, np.float32)
        counts = np.full(n_topics * width, 0.5, np.float32)
        topics, chosen = np.full(4 * width, -1, np.int32), np.full(width, -1, np.int32)
        cumulative = np.empty(n_topics * width, np.float32)
        program(now, likelihood, counts, cumulative, topics, chosen, n_topics, 40, table, scores)
        results.append((now, counts, topics, chosen, scores))
    for compiled, plain in zip(*results, strict=True):
        assert np.array_equal(compiled, plain)
    assert results[0][1].sum() == pytest.approx(n_topics * width * 0.5 + 3 * width)  # the fourth token is pending
    assert results[0][4].any() == scored


def test_vector_code_is_part_of_its_kernel():
    """As a function of its own it would be compiled twice, with different roundings, and chance would choose."""
    from numba import njit

    sweep = njit(lda_sweep.py_func)
    one, table = np.zeros(1, np.int64), np.ones(16, np.float32)
    words, topics, totals = np.zeros(1, np.int32), np.zeros(1, np.int32), np.full(16, 2)
    sweep(one, np.array([0, 1]), one, one + 1, words, topics, table, totals, table, 0.1, 16, np.uint64(1))
    (text,) = sweep.inspect_asm().values()
    assert "lda_sweep" in text and "_choose_" not in text


def test_generators_of_lanes_are_uniform_and_apart():
    state = np.array([int(named_stream(1, i, 0)) >> 32 for i in range(4 * LANES)], np.uint32)
    draws = np.array([_xoshiro(state, LANES) >> np.uint32(8) for _ in range(4000)]) / 2.0**24
    assert np.abs(draws.mean(axis=0) - 0.5).max() < 4 / np.sqrt(12 * 4000)
    assert np.abs(np.corrcoef(draws.T) - np.eye(LANES)).max() < 4.5 / np.sqrt(4000)
    assert np.abs(np.corrcoef(draws[1:, 0], draws[:-1, 0])[0, 1]) < 4 / np.sqrt(4000)
