"""Held-out F1 of chunking by beam search: which features, rivals and margin LaSO should use.

    python benchmarks/search_folds.py --beam 25 --rivals ahead --margin-scale 10 [--history no] [--passes 12]

Trains on the first sentences of CoNLL-2000's training file and scores the last ones after every fourth pass. The test
file is not read.
"""

from __future__ import annotations

import argparse

from partwise.data import read_columns
from partwise.experiment import data_folder
from partwise.sequences.segmentation.search_labeler import SearchLabeler


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--train", type=int, default=4000, help="training sentences, the first of the file")
    parser.add_argument("--held-out", type=int, default=1500, help="sentences to score, the last of the file")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--update", default="alma")
    parser.add_argument("--mode", default="laso")
    parser.add_argument("--rivals", default="all")
    parser.add_argument("--margin-scale", type=float)
    parser.add_argument("--history", choices=("yes", "no"), default="yes")
    parser.add_argument("--passes", type=int, default=12)
    args = parser.parse_args()
    data = read_columns(data_folder(None) / "conll2000/train.txt", columns=("word", "pos", "chunk"))
    n = len(data.offsets) - 1
    train, held_out = data.subset(slice(0, args.train)), data.subset(slice(n - args.held_out, n))
    model = SearchLabeler(
        beam=args.beam, update=args.update, mode=args.mode, rivals=args.rivals, margin_scale=args.margin_scale,
        history=args.history == "yes", max_passes=args.passes,
    )  # fmt: skip
    model.fit(train, train.coded("chunk"), dev=(held_out, held_out.coded("chunk")))
    for number, record in enumerate(model.result_.trace, start=1):
        if number % 4 == 0 and record.score is not None:
            updates = record.extra["updates"]
            print(f"pass {number}: F1 {100 * record.score:.2f}, {updates:.0f} updates, {record.seconds:.0f} s")


if __name__ == "__main__":
    main()
