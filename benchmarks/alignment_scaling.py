"""Training time of an aligner by data size: dual extragradient against one quadratic program for clarabel.

Machine-labelled Hansards pairs (our own HMM, both directions agreeing), the matching model, a pass of the extragradient
learner on 500 to 5,000 pairs: CPU time per edge and pass, and what it allocates beyond the packed problem. Beside it
the joint form, eq. (2.15) of Lacoste-Julien, on 25 to 100 pairs. clarabel allocates outside of Python, so its number
is the growth of the process.

    python benchmarks/alignment_scaling.py [--raw 20000] [--passes 5] [--qp 25,50,100]
"""

from __future__ import annotations

import argparse
import resource
import time
import tracemalloc

import numpy as np
from _timing import DATA

from partwise.alignment import GenerativeAligner
from partwise.alignment.aligner import WordAligner
from partwise.alignment.problems import alignment_problem, link_costs, training_targets
from partwise.data import GoldLinks, read_bitext
from partwise.learners import Extragradient, JointQP
from partwise.losses import Loss


def problem_of(aligner: WordAligner, pairs: list, gold: list):
    """The packed training problem of some pairs."""
    sizes = np.array([(len(e), len(f)) for e, f in pairs])
    targets = training_targets(sizes, gold, 1, "nearest")
    costs = link_costs(gold, targets, sizes, 1.0, 3.0)
    return alignment_problem(aligner.map_(pairs), targets, costs, Loss.named("svm"), 1), int(sizes.prod(axis=1).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=int, default=20_000, help="raw pairs that the HMM learns from")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--sizes", default="500,1000,2000,5000")
    parser.add_argument("--qp", default="25,50,100")
    args = parser.parse_args()
    raw = read_bitext(DATA / "hansards" / "train.e.xz", DATA / "hansards" / "train.f.xz")[: args.raw]
    generative = GenerativeAligner(also=("model1", "model2")).fit(raw)
    pairs = list(raw[:5000])
    gold = [GoldLinks.of(links) for links in generative.predict(pairs)]
    aligner = WordAligner(generative, model="M", C=0.1, infeasible="nearest", gold_counts=False, max_passes=2).fit(
        pairs[:50], gold[:50]
    )
    # first, while the peak of the process is still low
    print(f"joint quadratic program (clarabel)\n{'pairs':>6} {'edges':>9} {'CPU s':>9} {'MB of the process':>18}")
    for n in map(int, args.qp.split(",")):
        problem, edges = problem_of(aligner, pairs[:n], gold[:n])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begin = time.process_time()
        JointQP(C=0.1).fit(problem)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"{n:6} {edges:9} {time.process_time() - begin:9.1f} {grown:18.1f}", flush=True)
    print("\ndual extragradient")
    print(f"{'pairs':>6} {'edges':>9} {'CPU s per pass':>13} {'µs per edge':>11} {'MB beyond the data':>19}")
    for n in map(int, args.sizes.split(",")):
        problem, edges = problem_of(aligner, pairs[:n], gold[:n])
        learner = Extragradient(C=0.1, max_passes=args.passes)
        begin = time.process_time()
        learner.fit(problem)
        seconds = (time.process_time() - begin) / args.passes
        tracemalloc.start()
        learner.fit(problem)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"{n:6} {edges:9} {seconds:13.3f} {1e6 * seconds / edges:11.2f} {peak / 1e6:19.2f}", flush=True)
        del problem


if __name__ == "__main__":
    main()
