"""Race of LDA samplers: partwise against tomotopy's LDAModel, one thread each, in one run.

Both train on the same tokens (20 Newsgroups, training part) with the same K, α, β and number of sweeps, one
after the other in alternating rounds. Prints tokens per second and sweep, and the collapsed log p(w, z) a token
of both at the end, computed by one function from the topics each assigned.

    python benchmarks/topics_lda.py [--topics 50 200] [--sweeps 100] [--seeds 1 2 3] [--data FOLDER]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from partwise.topics import LDA, count_newsgroups
from partwise.topics.corpus import Corpus, pack
from partwise.topics.hyper import document_topic_counts, log_joint

ALPHA, BETA = 0.1, 0.01


def joint_per_token(corpus: Corpus, words: np.ndarray, topics: np.ndarray, n_topics: int) -> float:
    """log p(w, z | α, β) a token of any assignment of topics to the tokens of ``corpus``."""
    table = np.zeros((corpus.n_words, n_topics))
    np.add.at(table, (words, topics), 1)
    counts = document_topic_counts(corpus.offsets, topics, n_topics)
    return log_joint(counts, table, np.full(n_topics, ALPHA), BETA) / corpus.n_tokens


class Tomotopy:
    """tomotopy.LDAModel with workers=1 and hyper-parameters held fixed."""

    name = "tomotopy"

    def __init__(self, corpus: Corpus, n_topics: int, seed: int) -> None:
        import tomotopy

        self.corpus, self.n_topics = corpus, n_topics
        self.model = tomotopy.LDAModel(k=n_topics, alpha=ALPHA, eta=BETA, seed=seed)
        self.model.optim_interval = 0
        generator = np.random.default_rng(seed)
        for start, end in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True):
            self.model.add_doc([str(word) for word in generator.permutation(corpus.words[start:end])])
        self.run(1)  # builds its tables

    def run(self, sweeps: int) -> None:
        self.model.train(sweeps, workers=1, show_progress=False)

    def likelihood(self) -> float:
        used = np.array(self.model.used_vocabs, dtype=np.int64)
        words = np.concatenate([used[np.array(doc.words)] for doc in self.model.docs])
        topics = np.concatenate([np.array(doc.topics) for doc in self.model.docs]).astype(np.int64)
        return joint_per_token(self.corpus, words, topics, self.n_topics)


class Partwise:
    """partwise.topics.LDA, driven sweep by sweep."""

    name = "partwise"

    def __init__(self, X: Any, corpus: Corpus, n_topics: int, seed: int) -> None:
        self.corpus, self.n_topics = corpus, n_topics
        self.model = LDA(n_topics, alpha=ALPHA, beta=BETA, random_state=seed)
        self.model._start(self.model._prepare(X))
        self.run(1)  # compiles

    def run(self, sweeps: int) -> None:
        for _ in range(sweeps):
            self.model._sweep()
            self.model.n_iter_ += 1

    def likelihood(self) -> float:
        words, topics = self.model._cells.corpus.words, self.model._topics
        return joint_per_token(self.corpus, words, topics, self.n_topics)


def race(X: Any, n_topics: int, sweeps: int, rounds: int, seed: int) -> dict[str, Any]:
    """Alternate ``rounds`` of timed sweeps, so that a busy machine hurts both alike."""
    corpus = pack(X)
    runners = [Partwise(X, corpus, n_topics, seed), Tomotopy(corpus, n_topics, seed)]
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    for _ in range(rounds):
        for runner in runners:
            start = time.perf_counter()
            runner.run(sweeps // rounds)
            seconds[runner.name].append(time.perf_counter() - start)
    tokens = corpus.n_tokens * (sweeps // rounds)
    result: dict[str, Any] = {"topics": n_topics, "sweeps": sweeps, "tokens": corpus.n_tokens}
    for runner in runners:
        times = seconds[runner.name]
        result[runner.name] = {
            "tokens_per_second": tokens * rounds / sum(times),
            "best_round": tokens / min(times),
            "log_joint_per_token": runner.likelihood(),
        }
    result["speed_ratio"] = result["partwise"]["tokens_per_second"] / result["tomotopy"]["tokens_per_second"]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--topics", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--data", default=None)
    options = parser.parse_args()
    X = count_newsgroups(path=options.data).train
    for n_topics in options.topics:
        results = [race(X, n_topics, options.sweeps, options.rounds, seed) for seed in options.seeds]
        print(f"K = {n_topics}, {results[0]['tokens']:,} tokens, {options.sweeps} sweeps, seeds {options.seeds}")
        for name in ("partwise", "tomotopy"):
            rows = [result[name] for result in results]
            speed = [row["tokens_per_second"] / 1e6 for row in rows]
            best = max(row["best_round"] / 1e6 for row in rows)
            joint = ", ".join(f"{row['log_joint_per_token']:.4f}" for row in rows)
            print(f"  {name:10s} {np.mean(speed):6.2f} M tokens/s (best round {best:.2f}), log p(w, z)/N {joint}")
        ratios = ", ".join(f"{result['speed_ratio']:.2f}" for result in results)
        print(f"  ratio {ratios}", flush=True)


if __name__ == "__main__":
    main()
