"""WordAligner with its defaults against its HMM and against eflomal, on the same text, in one run.

    python benchmarks/aligner_defaults.py [--raw 500 5000 50000] [--gold 50 100 200] [--languages es pt hi sv]
        [--models auto L M M+F] [--runs 3] [--alone]

Hansards: raw pairs and the sentences (not the links) of the test part; gold links of the first test pairs, error rates
on the pairs after the first 200. Other languages: the pairs of ``aligned_small`` are all there is, raw text and gold.
``WordAligner`` runs with its defaults (model and C by cross-validation on the gold pairs), or with a model by name;
``infeasible`` is then "nearest", since gold links are many to many. eflomal (GPL, for this race only) runs with its
defaults, several times, since it draws at random; of its two directions and three ways to join them (``symmetrise``)
the one of least test error is shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
import time
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

from _timing import DATA

from partwise import WordAligner
from partwise.alignment import GenerativeAligner, symmetrise
from partwise.data import GoldLinks, iter_bitext, read_naacl, read_pharaoh
from partwise.metrics import alignment_scores

FIRST_TEST = 200
JOINED = ("forward", "backward", "intersection", "grow-diag", "grow-diag-final-and")


def eflomal_error(text: list[Any], places: list[int], gold: list[Any]) -> tuple[float, str, float] | None:
    """Least AER over the ways to join its directions, the way, and CPU seconds."""
    if importlib.util.find_spec("eflomal") is None:
        return None
    import resource

    import eflomal

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, file in enumerate(("e", "f")):
            (folder / file).write_text("".join(" ".join(pair[side]) + "\n" for pair in text), "utf-8")
        begin = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(folder / "e", encoding="utf-8") as e, open(folder / "f", encoding="utf-8") as f:
            eflomal.Aligner().align(e, f, str(folder / "forward"), str(folder / "backward"))
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = [[sorted(links.sure) for links in read_pharaoh(folder / way)] for way in ("forward", "backward")]
    errors = {
        way: alignment_scores(gold, [symmetrise(found[0][i], found[1][i], way) for i in places]).aer for way in JOINED
    }
    best = min(errors, key=lambda way: errors[way])
    return errors[best], best, end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime


def race(name: str, raw: list[Any], train: Any, test: Any, sizes: list[int], models: list[str], runs: int) -> None:
    """Lines of the table for one text: HMM, eflomal so many times, and aligners from so many gold pairs."""
    pairs, gold = test
    text = [*raw, *train[0], *pairs]
    begin = time.process_time()
    generative = GenerativeAligner().fit(text)
    seconds = time.process_time() - begin
    print(
        f"{name}: HMM {100 * alignment_scores(gold, generative.predict(pairs)).aer:.2f} ({seconds:.1f} CPU s)", end=""
    )
    for _ in range(runs):
        other = eflomal_error(text, list(range(len(text) - len(pairs), len(text))), gold)
        if other is not None:
            print(f"; eflomal, {other[1]}, {100 * other[0]:.2f} ({other[2]:.1f} CPU s)", end="", flush=True)
    print(flush=True)
    for size in sizes:
        for model in models:
            aligner = WordAligner(generative, model=model, infeasible="nearest")
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                aligner.fit(train[0][:size], train[1][:size])
            seconds, certificate = time.process_time() - begin, aligner.result_.certificate
            error = alignment_scores(gold, aligner.predict(pairs)).aer
            kept = "" if aligner.selection_.improves else ", the HMM's links kept"
            gap = "" if certificate is None else f", gap {100 * certificate.gap / certificate.primal:.2f}%"
            print(
                f"  {min(size, len(train[0]))} gold pairs, {model}: AER {100 * error:.2f} "
                f"({aligner.model_}, C = {aligner.C_:g}; {aligner.selection_}{kept}; {seconds:.1f} CPU s{gap})",
                flush=True,
            )


def hansards(raw: int) -> tuple[list[Any], Any, Any]:
    home = DATA / "hansards"
    test = read_naacl(home / "test.e", home / "test.f", home / "test.wa.nonullalign")
    pairs = list(test.bitext)
    first = list(islice(iter_bitext(home / "train.e.xz", home / "train.f.xz"), raw))
    halves = slice(None, FIRST_TEST), slice(FIRST_TEST, None)
    return first, *((pairs[part], test.gold[part]) for part in halves)


def aligned_small(language: str) -> tuple[list[Any], Any, Any]:
    parts = []
    for part in ("train", "test"):
        with open(DATA / "aligned_small" / f"en-{language}.{part}.jsonl", encoding="utf-8") as lines:
            read = [json.loads(line) for line in lines]
        gold = [GoldLinks.of(map(tuple, pair["sure"]), map(tuple, pair["possible"])) for pair in read]
        parts.append(([(pair["src"], pair["tgt"]) for pair in read], gold))
    return [], parts[0], parts[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raw", type=int, nargs="*", default=[500, 5000, 50_000])
    parser.add_argument("--gold", type=int, nargs="*", default=[50, 100, 200])
    parser.add_argument("--languages", nargs="*", default=["es", "pt", "hi", "sv"])
    parser.add_argument("--models", nargs="*", default=["auto"], choices=["auto", "L", "M", "M+F"])
    parser.add_argument("--runs", type=int, default=3, help="how often eflomal runs on each text")
    parser.add_argument("--alone", action="store_true", help="without eflomal")
    options = parser.parse_args()
    also = (options.models, 0 if options.alone else options.runs)
    train = hansards(50)[1]  # compiles
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in options.models:
            WordAligner(model=model, infeasible="nearest").fit(train[0][:5], train[1][:5])
    for size in options.raw:
        race(f"en-fr, {size:,} raw pairs", *hansards(size), options.gold, *also)
    for language in options.languages:
        data = aligned_small(language)
        race(f"en-{language}, {len(data[1][0])} pairs", *data, [len(data[1][0])], *also)


if __name__ == "__main__":
    main()
