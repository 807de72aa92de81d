"""The Hansards of the NAACL 2003 task, and the generative aligner trained on all of them; the sample where quick."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from partwise.alignment import GenerativeAligner
from partwise.data import load_sample_alignments, read_bitext, read_naacl
from partwise.experiment import Context, Needs

ORIGIN = "the English–French task of the NAACL 2003 workshop on parallel texts (Mihalcea and Pedersen 2003)"
FILES = ("train.e.xz", "train.f.xz", "test.e", "test.f", "test.wa.nonullalign", "trial.e", "trial.f", "trial.wa")
NEEDS = [Needs(f"hansards/{name}", ORIGIN) for name in FILES]


@cache
def read(data: Path, quick: bool, part: str) -> Any:
    """Pairs with gold links: ``test`` (447, of which the first are for training) or ``trial`` (37, for validation)."""
    if quick:
        return load_sample_alignments("train" if part == "test" else "test")
    folder, links = data / "hansards", "test.wa.nonullalign" if part == "test" else "trial.wa"
    return read_naacl(folder / f"{part}.e", folder / f"{part}.f", folder / links)


@cache
def raw(data: Path, limit: int | None = None) -> Any:
    """The raw training pairs, or the first of them."""
    pairs = read_bitext(data / "hansards" / "train.e.xz", data / "hansards" / "train.f.xz")
    return pairs if limit is None else pairs[:limit]


def model_file() -> Path:
    """Where the aligner trained on all pairs is kept: minutes of training that every cell shares."""
    base = os.environ.get("PARTWISE_CACHE_DIR") or os.path.join(os.path.expanduser("~"), ".cache", "partwise")
    return Path(base) / "experiments" / "hansards.pw"


@cache
def generative(data: Path, quick: bool) -> GenerativeAligner:
    """Models 1, 2 and the HMM with agreement on the raw pairs and the sentences (not the links) of test and trial."""
    if quick:
        pairs = [*read(data, True, "test").bitext, *read(data, True, "trial").bitext]
        return GenerativeAligner(also=("model1", "model2")).fit(pairs)
    file = model_file()
    if not file.is_file():
        pairs = raw(data) + read(data, False, "test").bitext + read(data, False, "trial").bitext
        file.parent.mkdir(parents=True, exist_ok=True)
        GenerativeAligner(also=("model1", "model2"), n_jobs=-1, verbose=1).fit(pairs).save(file)
    return GenerativeAligner.load(file, mmap=True)


def gold_split(context: Context, n_train: int, first_test: int) -> tuple[Any, ...]:
    """(X, y, dev X, dev y, test X, test y): the first pairs of test, trial, and those of test from first_test on."""
    test, trial = (read(context.data, context.quick, part) for part in ("test", "trial"))
    pairs = list(test.bitext)
    return (
        pairs[:n_train], test.gold[:n_train], list(trial.bitext), trial.gold, pairs[first_test:], test.gold[first_test:]
    )  # fmt: skip
