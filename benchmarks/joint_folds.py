"""Joint tagging and chunking, held out: trained on the first training sentences of CoNLL-2000, tested on the others.

    python benchmarks/joint_folds.py --passes 10 --beam 5

Features and settings of ``JointLabeler`` are chosen with this; the test file is not read.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

from partwise.data import read_columns
from partwise.sequences.chunks import chunk_scores
from partwise.sequences.segmentation.joint import JointLabeler
from partwise.sequences.tokens import token_accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PARTWISE_DATA", "../shared/data")))
    parser.add_argument("--sentences", type=int, default=4000, help="how many are for training")
    parser.add_argument("--passes", type=int, default=10)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--no-guesses", action="store_true", help="no chains before the search")
    options = parser.parse_args()
    whole = read_columns(options.data / "conll2000/train.txt", columns=("word", "pos", "chunk"))
    train, rest = whole.subset(slice(0, options.sentences)), whole.subset(slice(options.sentences, len(whole)))
    model = JointLabeler(beam=options.beam, max_passes=options.passes, guesses=not options.no_guesses)
    begin = time.process_time()
    model.fit(train.coded("word"), (train.coded("pos"), train.coded("chunk")))
    trained = time.process_time()
    tags, chunks = model.predict_coded(rest.coded("word"))
    seconds = time.process_time() - trained
    print(f"{len(train)} sentences, tested on {len(rest)}; beam {options.beam}, {options.passes} passes")
    print(f"tags      {100 * token_accuracy(rest.coded('pos'), tags):.2f}")
    print(f"chunk F1  {100 * chunk_scores(rest.coded('chunk'), chunks).f1:.2f}")
    print(f"training  {trained - begin:.0f} CPU s")
    print(f"tagging   {len(tags.codes) / seconds:.0f} tokens per CPU s")


if __name__ == "__main__":
    main()
