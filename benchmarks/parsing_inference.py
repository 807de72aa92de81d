"""Second-order parsing: how often belief propagation converges, against dual decomposition and AD³, in one table.

    python -m benchmarks.parsing_inference ud_english_ewt/en_ewt-ud-{}.conllu --train 1000 --sentences 200

An unlabelled second-order model is trained on some sentences (SVM loss, dual decomposition), and held-out sentences are
parsed by every engine on the same scores: all of them, with siblings and grandparents, by dual decomposition and by
loopy propagation with several dampings; then with the grandparents alone, which are pairs of arcs, by dual
decomposition, by AD³ with TREE as one factor, and by propagation on the same graph. Trees are those with the highest
score (dual decomposition), or maximum spanning trees of the relaxed solution (AD³) or of the beliefs. A tree is proved
to be the best where the bound is within 1e-4 of its score, relatively. CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.parsing import DATA
from partwise.parsing import SecondOrderParser, read_conllu
from partwise.structures.arborescence import Arborescence
from partwise.structures.graphs.ad3 import Ad3Settings
from partwise.structures.graphs.messages import Schedule
from partwise.structures.graphs.structured import PairSpace, pair_graphs, pair_marginals, relax_pairs
from partwise.structures.second_order import SecondOrderTree

#: (whether it settled, rounds, upper bound or None, beliefs or parts of the arcs); with a bound, a proof is what counts
Answer = tuple[bool, int, float | None, Any]


def dense_arcs(space: SecondOrderTree, i: int) -> Any:
    """The number of every candidate arc among all n² arcs."""
    where, n = space.atoms(i), int(space.lengths[i])
    return (where.modifier - 1) * n + where.head - (where.head > where.modifier)


def by_decomposition(space: SecondOrderTree, i: int, scores: Any) -> Answer:
    found = space.solve(i, scores)
    return False, 0, found.bound, found.parts[: space.n_atoms(i)]


def by_propagation(damping: float, rounds: int) -> Callable[[SecondOrderTree, int, Any], Answer]:
    def engine(space: SecondOrderTree, i: int, scores: Any) -> Answer:
        found = space.beliefs(i, scores, damping=damping, max_rounds=rounds)
        return found.converged, found.rounds, None, found.parts[: space.n_atoms(i)]

    return engine


def grandparent_graph(space: SecondOrderTree, i: int, scores: Any) -> tuple[PairSpace, Any, Any]:
    """TREE over the candidate arcs as one factor, and a pair of arcs per grandparent part with a score."""
    n, lay, number = int(space.lengths[i]), space.layout(i), dense_arcs(space, i)
    allowed = np.zeros((n + 1, n), bool)
    allowed[lay.heads, lay.modifiers - 1] = True
    trees = Arborescence([n], single_root=space.single_root, allowed=[allowed])
    pairs, values = [], []
    for h in range(1, n + 1):
        part = int(lay.grands[h])
        for a in range(lay.into[h], lay.into[h + 1]):
            for p in range(lay.out_start[h], lay.out_start[h + 1]):
                b = lay.out[p]
                if scores[part] != 0.0 and lay.heads[a] != lay.modifiers[b]:
                    pairs.append((number[a], number[b]))
                    values.append(scores[part])
                part += 1
    arcs = np.full(trees.n_parts(0), -50.0)  # TREE forbids them
    arcs[number] = scores[: len(number)]
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return PairSpace(trees.pack, pair_graphs([len(arcs)], [table])), np.concatenate([arcs, values]), number


def by_ad3(space: SecondOrderTree, i: int, scores: Any) -> Answer:
    pairs, values, number = grandparent_graph(space, i, scores)
    parts = np.empty(len(values))
    bound, rounds, _ = relax_pairs(pairs, 0, values, Ad3Settings(1000, 1e-6, 1e-6, 5, 0), parts)
    return False, int(rounds), float(bound), parts[number]


def by_pairs(space: SecondOrderTree, i: int, scores: Any) -> Answer:
    pairs, values, number = grandparent_graph(space, i, scores)
    parts = np.empty(len(values))
    _, rounds, residual = pair_marginals(pairs, 0, values, Schedule(100, 1e-5, 0.3, 0.1), parts)
    return bool(residual <= 1e-5), int(rounds), None, parts[number]


def run(name: str, engine: Callable[..., Answer], space: SecondOrderTree, scores: list[Any], gold: list[Any]) -> None:
    engine(space, 0, scores[0])  # kernels from the disk
    settled, rounds, slack, right, seconds = [], [], [], [], 0.0
    for i, values in enumerate(scores):
        begin = time.process_time()
        done, steps, bound, arcs = engine(space, i, values)
        seconds += time.process_time() - begin
        n = int(space.lengths[i])
        table = np.full(n * n, -50.0)
        table[dense_arcs(space, i)] = arcs
        trees = Arborescence([n], single_root=space.single_root)
        heads = trees.decode(0, trees.argmax(0, table))
        rounds.append(steps)
        right.append(heads == gold[i])
        if bound is not None:
            score = values @ space.encode(i, heads)
            slack.append(bound - score)
            done = slack[-1] <= 1e-4 * (1.0 + abs(score))
        settled.append(done)
    told = [f"{100 * np.mean(settled):.1f}%", f"{np.mean(rounds):.0f}" if any(rounds) else ""]
    told += [f"{np.mean(slack):.3f}" if slack else "", f"{100 * np.concatenate(right).mean():.2f}"]
    print(f"| {name} | {' | '.join(told)} | {1000 * seconds / len(scores):.1f} |", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("treebank", help="path within the data with {} for train and dev")
    options.add_argument("--train", type=int, default=1000)
    options.add_argument("--sentences", type=int, default=200)
    args = options.parse_args()
    train, dev = (read_conllu(DATA / args.treebank.format(name)) for name in ("train", "dev"))
    dev = [sentence for sentence in dev if len(sentence) <= 40][: args.sentences]
    model = SecondOrderParser(labelled=False, max_passes=3, pruner_passes=4, arc_bits=22).fit(train[: args.train])
    space, features = model._second_order(dev)
    gold = [sentence.heads for sentence in dev]
    own = [features.scores(i, model.theta_) for i in range(len(dev))]
    soft = [values / model.pruner_.temperature_ for values in own]  # as probabilities are computed
    print("| engine | settled or proved | rounds | bound − score | UAS | ms per sentence |\n|---|---|---|---|---|---|")
    run("siblings and grandparents: dual decomposition", by_decomposition, space, own, gold)
    for damping, rounds in ((0.0, 100), (0.3, 100), (0.6, 100), (0.6, 500)):
        name = f"siblings and grandparents: propagation, damping {damping:g}, {rounds} rounds"
        run(name, by_propagation(damping, rounds), space, soft, gold)
    for group in (own, soft):
        for i, values in enumerate(group):
            lay = space.layout(i)
            values[lay.siblings[0, 0] : lay.grands[1]] = 0.0
    run("grandparents: dual decomposition", by_decomposition, space, own, gold)
    run("grandparents: AD³", by_ad3, space, own, gold)
    run("grandparents: propagation", by_propagation(0.3, 100), space, soft, gold)
    run("grandparents: propagation on the graph of AD³", by_pairs, space, soft, gold)


if __name__ == "__main__":
    main()
