"""``partwise explain``: why this label, in weights for and against it."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from partwise.cli.console import print_json
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import add_read_model, count, settle_model
from partwise.estimation.contribution import contribution_lines
from partwise.exceptions import InputError
from partwise.sequences.commands._files import add_layout, without
from partwise.sequences.commands._models import model_layout, open_model

if TYPE_CHECKING:
    from partwise.data.columns import Columns
    from partwise.sequences.explanation import Explanation

EXAMPLES = """
partwise explain ner.pw test.txt --sentence 0 --token 3
partwise explain ner.pw test.txt --line 17 --against B-LOC
partwise explain ner.pw test.txt --sentence 4 --top 3
echo 'The DT' | partwise explain chunker.pw - --json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_read_model(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="column file; '-' is standard input")
    parser.add_argument(
        "--sentence", "-s", metavar="N", type=int, help="number of the sentence, from 0 (default: the first)"
    )
    parser.add_argument("--token", metavar="T", type=int, help="number of the token, from 0 (default: all)")
    parser.add_argument(
        "--line", metavar="L", type=int, help="the token on this line of the file (instead of --sentence and --token)"
    )
    parser.add_argument(
        "--for", dest="chosen", metavar="LABEL", help="the label to explain (default: the predicted one)"
    )
    parser.add_argument("--against", metavar="LABEL", help="its rival (default: the best other label)")
    parser.add_argument(
        "--top", metavar="N", type=count, default=10, help="contributions to show per token (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_layout(parser)


def run(args: argparse.Namespace) -> None:
    settle_model(args, "file")
    if args.line is not None and (args.sentence is not None or args.token is not None):
        raise UsageError("--line replaces --sentence and --token; use one or the other")
    model = open_model(args.model)
    layout = model_layout(model, args)
    data = layout.read(args.file)
    sentence, token = find_token(data, args)
    seen, index = with_context(without(data, layout.label), sentence, model.context)
    words = data.sentence(sentence, data.names.index("word") if "word" in data.names else 0)
    positions = range(len(words)) if token is None else [token]
    explained = [model.explain(seen, t, args.chosen, args.against, sequence=index) for t in positions]
    if args.json:
        print_json([as_dict(data, sentence, words, each) for each in explained])
        return
    print(" ".join(words))
    for each in explained:
        print(f"\n{data.place(sentence, each.position)}: {words[each.position]!r}")
        show(each, args.top)


def find_token(data: Columns, args: argparse.Namespace) -> tuple[int, int | None]:
    """The sentence and the token selected by the flags; no token if all are."""
    import numpy as np

    if args.line is not None:
        ends = data.lines + np.diff(data.offsets)
        here = np.flatnonzero((data.lines <= args.line) & (args.line < ends))
        if not here.size:
            raise InputError(f"{data.path}:{args.line}: there is no token on this line")
        return int(here[0]), args.line - int(data.lines[here[0]])
    sentence = args.sentence or 0
    if not -len(data) <= sentence < len(data):
        raise InputError(f"{data.path}: there is no sentence {sentence}; sentences are numbered 0 to {len(data) - 1}")
    sentence %= len(data)
    length = int(data.offsets[sentence + 1] - data.offsets[sentence])
    if args.token is not None and not -length <= args.token < length:
        raise InputError(
            f"{data.place(sentence)}: sentence {sentence} has tokens 0 to {length - 1}, there is no token {args.token}"
        )
    return sentence, None if args.token is None else args.token % length


def with_context(data: Columns, sentence: int, context: str) -> tuple[Columns, int]:
    """As much around a sentence as the model looks at, and the number of the sentence in it."""
    import numpy as np

    if context == "sentence":
        return data.subset([sentence]), 0
    members = np.flatnonzero(data.documents == data.documents[sentence])
    return data.subset(members), int(np.searchsorted(members, sentence))


def as_dict(data: Columns, sentence: int, words: list[str], explanation: Explanation) -> dict[str, Any]:
    return {
        "place": data.place(sentence, explanation.position),
        "sentence": sentence,
        "token": explanation.position,
        "word": words[explanation.position],
        "label": explanation.label,
        "probability": explanation.probability,
        "rival": explanation.rival,
        "rival_probability": explanation.rival_probability,
        "margin": explanation.margin,
        "contributions": [{**asdict(c), "difference": c.difference} for c in explanation.contributions if c.difference],
    }


def show(explanation: Explanation, top: int) -> None:
    """The label, its rival, and the contributions to each, the strongest first."""
    print(
        f"  {explanation.label} (p = {explanation.probability:.3f}) rather than {explanation.rival} "
        f"(p = {explanation.rival_probability:.3f}), margin {explanation.margin:+.3f}"
    )
    for line in contribution_lines(explanation.contributions, top):
        print(line)


COMMAND = Command("explain", "show why a model gives a token its label", configure, run, EXAMPLES, rank=13)
