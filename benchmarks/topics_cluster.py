"""LDA on a cluster against the exact sampler: perplexity of the test documents of 20 Newsgroups, and likelihood.

    python benchmarks/topics_cluster.py [--topics 20] [--sweeps 200] [--seeds 0 1 2] [--workers 2] [--parts 4]
    python benchmarks/topics_cluster.py --synthetic --topics 5 --sweeps 80 --workers 0 --seeds {0..15}

Both train on the same documents with the same settings and seeds. Seeds differ, so that there must be two or more of
them. ``--parts`` is how often in a sweep the counts of the groups of documents are added up; what comes out does not
depend on the number of workers. ``--workers 0`` works through the groups in this process, with the same result.
``--synthetic`` takes 440 short documents that mix five topics of 60 words instead, on which many seeds cost little.
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
from partwise.topics import LDA, _cluster, count_newsgroups


def trained(X: Any, test: Any, args: argparse.Namespace, seed: int, **where: Any) -> tuple[float, float]:
    """(perplexity of the test documents, log p(w, z) per token of the training documents)."""
    found: list[float] = []

    def last(model: Any, sweep: int) -> None:
        if sweep == args.sweeps:
            found.append(model.log_likelihood())

    model = LDA(args.topics, n_iterations=args.sweeps, random_state=seed, transform_samples=50, callback=last)
    return model.fit(X, **where).perplexity(test), found[0] / X.sum()


def mixtures(n: int = 440, topics: int = 5, words: int = 60) -> tuple[Any, Any]:
    """Counts of training and test documents of 60 tokens each."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(words, 0.1), size=topics)
    theta = rng.dirichlet(np.full(topics, 0.2), size=n)
    counts = csr_matrix(np.array([rng.multinomial(60, row @ phi) for row in theta]))
    return counts[:-40], counts[-40:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", type=int, default=_cluster.PARTS)
    parser.add_argument("--synthetic", action="store_true")
    args = parser.parse_args()
    _cluster.PARTS = args.parts
    if args.synthetic:
        train, test = mixtures()
    else:
        data = count_newsgroups()
        train, test = data.train, data.test
    rows = []
    if args.workers == 0:
        engine.ClusterRunner = lambda client, groups: LocalRunner(groups)  # type: ignore[assignment,misc]
    with engine.local_client(args.workers) if args.workers else contextlib.nullcontext("here") as client:
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
    changes, spread = 100 * (table[:, 2] / table[:, 0] - 1), 100 * table[:, [0, 2]].std(axis=0, ddof=1) / exact
    error = changes.std(ddof=1) / np.sqrt(len(rows))
    print(f"K = {args.topics}, {args.sweeps} sweeps, {len(rows)} seeds: perplexity {exact:.1f} exact, {other:.1f} on "
          f"the cluster: {changes.mean():+.2f}% ± {error:.2f} (standard error), {changes.min():+.2f} to "
          f"{changes.max():+.2f}%")  # fmt: skip
    print(f"standard deviation over seeds: {spread[0]:.2f}% exact, {spread[1]:.2f}% on the cluster; "
          f"log p(w, z) per token {likelihood:.4f} and {others:.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
