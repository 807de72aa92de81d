"""``partwise demo``: a short tour of the library on embedded samples, with one report."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING

from partwise.cli.console import note, percent, print_json, print_table
from partwise.cli.registry import Command
from partwise.cli.tour import Outcome, Stop, all_stops, choose_stops, source_of
from partwise.exceptions import StorageError

if TYPE_CHECKING:
    from partwise.report.page import Page

EXAMPLES = """
partwise demo
partwise demo --only tagger,parser
partwise demo --out demo --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        metavar="NAMES",
        help=f"some of {', '.join(stop.name for stop in all_stops())}, separated by commas (default: all)",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default=os.path.join("out", "demo"),
        help="where to write the report and the models (default: out/demo)",
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="print only the results")
    parser.add_argument("--json", action="store_true", help="print the scores as JSON")


def run(args: argparse.Namespace) -> None:
    from partwise.storage import check_writable

    stops = choose_stops(args.only)
    try:
        os.makedirs(args.out, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{args.out}: cannot create this folder: {error.strerror}") from None
    report = os.path.join(args.out, "report.html")
    check_writable(report)
    many = f"{len(stops)} stops" if len(stops) > 1 else "1 stop"
    note(args, f"a tour in {many}; the first run also compiles for about a minute, later runs do not")
    outcomes: list[tuple[Stop, Outcome, float]] = []
    for stop in stops:
        note(args, f"{stop.name}: {stop.title}")
        begin = time.perf_counter()
        outcome = stop.show(stop.train(), args.out)
        outcomes.append((stop, outcome, time.perf_counter() - begin))
    build(outcomes).write(report)
    if args.json:
        found = {stop.name: {**outcome.scores, "seconds": seconds} for stop, outcome, seconds in outcomes}
        print_json({"stops": found, "folder": args.out, "report": report})
        return
    for stop, outcome, _ in outcomes:
        print(f"\n{stop.title}: {stop.lead}")
        for line in outcome.lines:
            print(f"  {line}")
    print()
    rows = [
        (stop.name, score, percent(value), f"{seconds:.1f}" if k == 0 else "")
        for stop, outcome, seconds in outcomes
        for k, (score, value) in enumerate(outcome.scores.items())
    ]
    print_table(("stop", "score on held-out data", "percent", "seconds"), rows)
    print(f"\nreport: {report}")


def build(outcomes: list[tuple[Stop, Outcome, float]]) -> Page:
    """The report: one section per stop, with its scores, its pictures and the code that trained it."""
    from partwise.report.markup import Html, tag
    from partwise.report.page import Page, cards, details

    page = Page("A tour of partwise", "Trained just now, on samples that come with the library")
    for stop, outcome, seconds in outcomes:
        section = page.section(stop.name, stop.title, stop.lead[:1].upper() + stop.lead[1:])
        section.add(
            cards([
                *((name, f"{percent(value)}%", "on held-out data") for name, value in outcome.scores.items()),
                ("Time", f"{seconds:.1f} s", "compilation included"),
            ])
        )  # fmt: skip
        section.add(*outcome.pictures, details("The code", tag("pre", source_of(stop))))
        page.images = page.images or any("<img" in part for part in section.parts if isinstance(part, Html))
    return page


COMMAND = Command(
    "demo", "take a short tour: five tasks on embedded data, one report", configure, run, EXAMPLES, rank=1
)
