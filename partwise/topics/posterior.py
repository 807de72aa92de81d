"""p(y | w_d, T, Φ) by bridge sampling and its relatives (§4.3.2, appendix 4.B), with standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.exceptions import ParameterError, unknown_name

from ._bridge import GEOMETRIC, HARMONIC, OPTIMAL, annealed_documents, sampled_documents
from ._mixture import mixture_documents
from ._parallel import blocks_of, run_all
from .corpus import Corpus

__all__ = ["METHODS", "ClassPosterior", "class_posterior"]

# (samples, burn-in) of a method unless the caller says otherwise
METHODS = {
    "mixture_bridge": (192, 20),
    "bridge": (1000, 100),
    "optimal_bridge": (1000, 100),
    "harmonic_mean": (1000, 100),
    "annealed": (1000, 0),
}
_ESTIMATORS = {"bridge": GEOMETRIC, "optimal_bridge": OPTIMAL, "harmonic_mean": HARMONIC}
_BLOCKS = 64  # fixed, so that threads only share out the work


class ClassPosterior(NamedTuple):
    """Estimates for D documents and C classes over L prior topics.

    probabilities: (D, C) of p(y | w_d); errors: (D, C), their standard errors; log_ratios: (D, C),
    log Z_c/Z_r up to a constant per document, r being the reference; ratio_errors: (D, C); topic_counts: (D, C, L),
    n̂_l^{(d)}(y) of Lacoste-Julien (2009), eq. (4.29).
    """

    probabilities: np.ndarray
    errors: np.ndarray
    log_ratios: np.ndarray
    ratio_errors: np.ndarray
    topic_counts: np.ndarray


def class_posterior(
    corpus: Corpus,
    class_topics: np.ndarray,
    class_prior: np.ndarray,
    alpha: np.ndarray,
    method: str = "mixture_bridge",
    n_samples: int | None = None,
    burn_in: int | None = None,
    reference: int | None = None,
    screen: float = 0.0,
    pilot: int = 32,
    n_chains: int = 0,
    seed: int = 0,
    n_jobs: int = 1,
) -> ClassPosterior:
    """p(y | w) ∝ π_y Z_y,  Z_y = Σ_z p(z) Π_n Φ^y_{w_n z_n}  (Lacoste-Julien 2009, eqs. (4.16), (4.31)–(4.33))

    Parameters
    ----------
    class_topics : (C, V, L) float32, Φ^y = Φ T^y of every class (eq. (4.3)), strictly positive.
    class_prior : (C,), π.
    alpha : (L,), the Dirichlet parameter of θ.
    method : ``"mixture_bridge"``, which estimates every Z_y by itself, from a normalised mixture of Dirichlet
        distributions to the posterior of θ_d (``_mixture``); ``"bridge"``, the geometric bridge of the thesis from one
        class to another (4.33), and ``"optimal_bridge"``, Meng & Wong's: both need topic l of one class to do
        the work of topic l of the other, and are wrong, with small standard errors, where B_c ≥ 2 topics
        of two classes come in different orders; ``"harmonic_mean"`` (high variance, for comparison); ``"annealed"``
        importance sampling, where ``n_samples`` counts the temperatures and ``n_chains`` (default 8) the runs.
    n_samples, burn_in : samples per class, and Gibbs sweeps before the first: 192 and 20 for the mixture bridge (192 of
        either side), 1,000 and 100 for the others. The thesis takes 2,500 after 200.
    reference : class of the denominators of the bridges between classes; ``None`` takes for each document the class
        that explains it best, which keeps the noise of a hopeless reference out of the ratios of good classes. The
        thesis takes the last class.
    screen : classes whose posterior a pilot run of ``pilot`` samples puts below this keep the pilot's
        estimate; 0 switches it off. What is reported of the others is wrong by the mass of those set aside: by less
        than C·screen·e^δ where the pilot's log-ratios are off by at most δ. With 20 classes and 1e-8 a pilot must be
        off by a factor of 5,000 before a thousandth of probability is misplaced.

    Notes
    -----
    Documents without words get the prior. Time O((burn_in + n_samples)·N·C·L).
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    n_samples = METHODS[method][0] if n_samples is None else n_samples
    burn_in = METHODS[method][1] if burn_in is None else burn_in
    if n_samples < 1 or burn_in < 0:
        raise ParameterError("n_samples", "class_posterior", "at least 1 (and burn_in at least 0)", n_samples)
    n_classes, _, n_prior = class_topics.shape
    n_documents = corpus.n_documents
    shape = (n_documents, n_classes)
    probabilities, errors, log_ratios, ratio_errors = (np.zeros(shape) for _ in range(4))
    means = np.zeros((n_documents, n_classes, n_prior))
    with np.errstate(divide="ignore"):
        log_prior = np.log(np.asarray(class_prior, dtype=np.float64))
    results = (probabilities, errors, log_ratios, ratio_errors)
    alpha = np.array(alpha, dtype=np.float64)
    narrow = alpha.astype(np.float32)
    start = np.uint64(seed)

    def task(documents: np.ndarray) -> None:
        common = (documents, corpus.offsets, corpus.words, class_topics, log_prior)
        if method == "mixture_bridge":
            mixture_documents(*common, alpha, burn_in, n_samples, pilot, screen, start, *results, means)
        elif method == "annealed":
            annealed_documents(*common, narrow, n_chains or 8, n_samples, start, *results, means)
        else:
            place = -1 if reference is None else reference
            settings = (_ESTIMATORS[method], n_chains, burn_in, n_samples, place, pilot, screen, start)
            sampled_documents(*common, narrow, *settings, *results, means)

    run_all(task, [block for block in blocks_of(corpus.lengths + 1, _BLOCKS) if block.size], n_jobs)
    return ClassPosterior(probabilities, errors, log_ratios, ratio_errors, means)
