"""MarkovNetwork with missing values against the distribution that made the table, and against whole rows alone.

    python benchmarks/markov_missing.py

Five variables in a cycle of four and a tail, with random potentials. Values go missing at random. KL is the divergence
of the learned distribution from the true one, over all 144 outcomes.
"""

from __future__ import annotations

import argparse
import itertools
import time

import numpy as np

from partwise import MarkovNetwork

SIZES = (3, 2, 4, 3, 2)
CLIQUES = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    options.add_argument("--seed", type=int, default=0)
    rng = np.random.default_rng(options.parse_args().seed)
    outcomes = np.array(list(itertools.product(*map(range, SIZES))))
    weight = np.zeros(len(outcomes))
    for a, b in CLIQUES:
        weight += rng.normal(size=(SIZES[a], SIZES[b]))[outcomes[:, a], outcomes[:, b]]
    truth = np.exp(weight) / np.exp(weight).sum()
    states = {v: list(range(size)) for v, size in enumerate(SIZES)}

    def divergence(rows: np.ndarray) -> float:
        network = MarkovNetwork(CLIQUES, states=states, l2=0.1).fit(rows)
        found = np.array([network.probability(dict(enumerate(outcome.tolist()))) for outcome in outcomes])
        return float((truth * np.log(truth / found)).sum())

    print("| rows | values missing | KL, all rows | KL, whole rows alone | whole rows | CPU s |")
    print("|---|---|---|---|---|---|")
    for count in (500, 5000):
        table = outcomes[rng.choice(len(outcomes), count, p=truth)].astype(object)
        for share in (0.0, 0.3, 0.6):
            rows = table.copy()
            rows[rng.random(rows.shape) < share] = None
            whole = rows[[None not in row for row in rows.tolist()]]
            begin = time.process_time()
            both = [divergence(rows), divergence(whole)]
            print(f"| {count} | {share:.0%} | {both[0]:.4f} | {both[1]:.4f} | {len(whole)} | "
                  f"{time.process_time() - begin:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
