"""The transition parser against the first-order graph parser: accuracy and speed in one run, on one core.

    python -m benchmarks.transition_race ud_english_ewt/en_ewt-ud-{}.conllu
    python -m benchmarks.transition_race ddt_danish/ddt_{}.conll --graph-passes 8
    python -m benchmarks.transition_race ud_english_ewt/en_ewt-ud-{}.conllu --models /tmp/ewt   # train once, time again

Both parse the same sentences in memory, labelled, with gold tags, lemmas and features; punctuation counts. Of both the
pass that is best on dev is kept. Parsing is timed in turns, with warm kernels: CPU seconds of one thread, the best of
the repeats. A parser's time holds all of ``predict``: from sentences to sentences with trees.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks._timing import DATA, Clock, Row, best, interleaved, machine, print_table
from partwise.parsing import DependencyParser, TransitionParser, attachment_scores, read_conllu


def trained(parser: Any, path: Path | None, train: Any, dev: Any) -> Any:
    """The parser of the file if it exists; otherwise train it and keep it there."""
    name = type(parser).__name__
    if path is not None and path.exists():
        print(f"{name}: from {path.name}", flush=True)
        return type(parser).load(path)
    marks = [time.process_time()]

    def told(record: Any, theta: Any) -> bool:
        marks.append(time.process_time())
        print(
            f"  pass {record.step}: LAS {100 * record.score:.2f} on dev, {marks[-1] - marks[-2]:.1f} s CPU", flush=True
        )
        return False

    print(name, flush=True)
    parser.fit(train, dev=dev, callbacks=[told])
    print(f"  the best pass on dev: {parser.result_.best_step}; {marks[-1] - marks[0]:.0f} s CPU", flush=True)
    if path is not None:
        parser.save(path)
    return parser


def timed(parser: Any, sentences: Any) -> Clock:
    begin = Clock.now()
    parser.predict(sentences)
    end = Clock.now()
    return Clock(end.wall - begin.wall, end.cpu - begin.cpu)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("treebank", help="path within the data with {} for train, dev and test")
    options.add_argument("--graph-passes", type=int, default=6)
    options.add_argument("--passes", type=int, default=15)
    options.add_argument("--beam", type=int, default=1)
    options.add_argument("--mode", default="explore", help="of LaSO: what an error in training leads to")
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--models", help="beginning of the names of two model files: used if they exist, else written")
    args = options.parse_args()
    train, dev, test = (read_conllu(DATA / args.treebank.format(part)) for part in ("train", "dev", "test"))
    print(f"{args.treebank}: {len(train)} / {len(dev)} / {len(test)} sentences; {machine()}", flush=True)
    graph = DependencyParser(C=0.01, max_passes=args.graph_passes)
    steps = TransitionParser(max_passes=args.passes, beam=args.beam, mode=args.mode)
    names = ("graph", f"steps-{args.mode}-{args.beam}")
    files = [Path(f"{args.models}-{name}.pw") if args.models else None for name in names]
    parsers = {name: trained(parser, path, train, dev)
               for name, parser, path in zip(names, (graph, steps), files, strict=True)}  # fmt: skip
    rows = []
    for part, sentences in (("dev", dev), ("test", test)):
        theirs, ours = (attachment_scores(sentences, parser.predict(sentences)) for parser in parsers.values())
        for measure in ("uas", "las"):
            a, b = getattr(theirs, measure), getattr(ours, measure)
            target = "≥ -1.5" if (part, measure) == ("test", "uas") else ""
            rows.append(Row(f"{measure.upper()}, {part}", a, b, b - a, target, "{:.2f}", "{:+.2f}"))
    runs = {name: lambda _, parser=parser: timed(parser, test) for name, parser in parsers.items()}
    clocks = interleaved(runs, args.repeats)
    theirs, ours = (len(test) / best(clocks[name]).cpu for name in names)
    rows.append(Row("sentences/s (CPU), test", theirs, ours, ours / theirs, "≥ 5", "{:.0f}"))
    print_table(f"{args.treebank}, beam {args.beam}, {args.mode}", rows, peer="graph parser")


if __name__ == "__main__":
    main()
