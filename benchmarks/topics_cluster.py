"""LDA on a cluster against the exact sampler: perplexity of the test documents of 20 Newsgroups, and likelihood.

    python benchmarks/topics_cluster.py [--topics 20] [--sweeps 200] [--samples 5] [--seeds 0 1 2] [--workers 2]
    python benchmarks/topics_cluster.py --synthetic --topics 5 --sweeps 80 --workers 0 --seeds {0..15}
    python benchmarks/topics_cluster.py --classes --sweeps 60 --workers 0 --seeds {0..9}

Both train on the same documents with the same settings and seeds. Chains of different seeds end in different modes, so
that one seed says nothing: there must be several, and the two samplers are compared by the means over their seeds. Each
chain is scored by ``--samples`` samples of Φ from the second half of its sweeps, the log-perplexities of which are
averaged, on the same halves of the test documents for all chains. ``--parts`` is how often in a sweep the counts of the
groups of documents are added up; what comes out does not depend on the number of workers. ``--workers 0`` works through
the groups in this process, with the same result. ``--synthetic`` takes 440 short documents that mix five topics of 60
words instead, on which many seeds cost little. ``--classes`` compares DiscLDA on 800 such documents, half of them for
training, whose class is the topic with the largest share: the error on the test documents.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from partwise.cluster import engine
from partwise.cluster.local import LocalRunner
from partwise.topics import LDA, DiscLDA, _cluster, count_newsgroups


class Samples:
    """A callback that keeps counts of several sweeps, the last one among them, and the likelihood there."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.last, self.step = args.sweeps, max(1, args.sweeps // (2 * args.samples))
        self.wanted = {args.sweeps - k * self.step for k in range(args.samples)}
        self.counts: list[Any] = []
        self.likelihoods: list[float] = []

    def __call__(self, model: Any, sweep: int) -> None:
        if sweep in self.wanted:
            self.counts.append(model._table[:, : model.n_topics].copy())
            self.likelihoods.append(model.log_likelihood())


def trained(X: Any, test: Any, args: argparse.Namespace, seed: int, **where: Any) -> tuple[float, float]:
    """(perplexity of the test documents, log p(w, z) per token of the training documents), means over samples."""
    samples = Samples(args)
    model = LDA(args.topics, n_iterations=args.sweeps, random_state=seed, transform_samples=50, callback=samples)
    model.fit(X, **where)
    scores = []
    for counts in samples.counts:
        model.word_topic_counts_, model.seed_ = counts, 0  # the seed of the halves and of their topics
        scores.append(model.score(test))
    return float(np.exp(-np.mean(scores))), float(np.mean(samples.likelihoods)) / X.sum()


def classified(X: Any, y: Any, test: Any, args: argparse.Namespace, seed: int, **where: Any) -> tuple[float, float]:
    """(error of DiscLDA on the test documents in %, log p(w, u, z | y) per token of the training documents)."""
    found: list[float] = []

    def last(model: Any, sweep: int) -> None:
        if sweep == args.sweeps:
            found.append(model.log_likelihood())

    model = DiscLDA(class_topics=1, shared_topics=1, n_iterations=args.sweeps, random_state=seed, callback=last)
    errors = model.fit(X, y, **where).predict(test[0]) != test[1]
    return 100 * float(errors.mean()), found[0] / X.sum()


def compare_classes(args: argparse.Namespace, client: Any) -> None:
    """DiscLDA, exact and on the cluster."""
    documents, classes = mixed(800)
    train, test = (documents[:400], classes[:400]), (documents[400:], classes[400:])
    rows = np.array([
        (*classified(*train, test, args, seed), *classified(*train, test, args, seed, engine=client))
        for seed in args.seeds
    ])  # fmt: skip
    for name, errors in (("exact", rows[:, 0]), ("cluster", rows[:, 2])):
        print(f"{name}: error {errors.mean():.2f}%; seeds {' '.join(f'{x:.2f}' for x in errors)}")
    for what, change in (("error", rows[:, 2] - rows[:, 0]), ("log p per token", rows[:, 3] - rows[:, 1])):
        print(f"{what}: {change.mean():+.4f} ± {change.std(ddof=1) / np.sqrt(len(rows)):.4f} on the cluster")


def mixed(n: int, topics: int = 5, words: int = 60) -> tuple[Any, Any]:
    """Counts of documents of 60 tokens each, and their strongest topics."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(words, 0.1), size=topics)
    theta = rng.dirichlet(np.full(topics, 0.2), size=n)
    return csr_matrix(np.array([rng.multinomial(60, row @ phi) for row in theta])), theta.argmax(axis=1)


def mixtures() -> tuple[Any, Any]:
    """Counts of training and test documents."""
    counts, _ = mixed(440)
    return counts[:-40], counts[-40:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", type=int, default=_cluster.PARTS)
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--classes", action="store_true")
    args = parser.parse_args()
    _cluster.PARTS = args.parts
    rows = []
    if args.workers == 0:
        engine.ClusterRunner = lambda client, groups: LocalRunner(groups)  # type: ignore[assignment,misc]
    with engine.local_client(args.workers) if args.workers else contextlib.nullcontext("here") as client:
        if args.classes:
            return compare_classes(args, client)
        if args.synthetic:
            train, test = mixtures()
        else:
            data = count_newsgroups()
            train, test = data.train, data.test
        for seed in args.seeds:
            begin = time.process_time()
            alone = trained(train, test, args, seed)
            middle = time.process_time()
            together = trained(train, test, args, seed, engine=client)
            rows.append((*alone, *together))
            print(f"seed {seed}: exact {alone[0]:.1f} ({alone[1]:.4f} per token, {middle - begin:.0f} CPU s), "
                  f"cluster {together[0]:.1f} ({together[1]:.4f})", flush=True)  # fmt: skip
    table = np.array(rows)
    exact, likelihood, other, others = table.mean(axis=0)
    spread = 100 * table[:, [0, 2]].std(axis=0, ddof=1) / exact
    error = float(np.sqrt((spread**2).sum() / len(rows)))
    print(f"K = {args.topics}, {args.sweeps} sweeps, {len(rows)} seeds: perplexity {exact:.1f} exact, {other:.1f} on "
          f"the cluster: {100 * (other / exact - 1):+.2f}% ± {error:.2f} (standard error)")  # fmt: skip
    for name, column in (("exact", 0), ("cluster", 2)):
        against = " ".join(f"{100 * (x / exact - 1):+.2f}" for x in table[:, column])
        print(f"{name}: {against}%, each seed against the mean of the exact sampler's")
    print(f"standard deviation over seeds: {spread[0]:.2f}% exact, {spread[1]:.2f}% on the cluster; "
          f"log p(w, z) per token {likelihood:.4f} and {others:.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
