"""``partwise predict``: labels for a column file or a pipe, sentence by sentence."""

from __future__ import annotations

import argparse
import io
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from partwise.cli.console import as_json
from partwise.cli.registry import Command, UsageError
from partwise.cli.settings import add_read_model, settle_model
from partwise.cli.stream import opened
from partwise.exceptions import ParameterError
from partwise.sequences.commands._files import add_layout, without
from partwise.sequences.commands._models import model_layout, model_scheme, open_model, predicted_labels

if TYPE_CHECKING:
    from partwise.data.columns import CodedColumn, Columns

EXAMPLES = """
partwise predict chunker.pw test.txt > tagged.txt
cat test.txt | partwise predict chunker.pw | partwise evaluate -
partwise predict ner.pw test.txt --marginals --output tagged.txt
partwise predict ner.pw test.txt --spans
partwise predict ner.pw test.txt --kbest 3 --marginals --json | head -n 1
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_read_model(parser)
    parser.add_argument("file", metavar="FILE", nargs="?", help="column file (default: standard input)")
    parser.add_argument("--output", "-o", metavar="FILE", default="-", help="where to write (default: standard output)")
    parser.add_argument(
        "--marginals", action="store_true", help="add the probability of each label; with --json, of all labels"
    )
    parser.add_argument("--kbest", metavar="K", type=int, help="the K best label sequences with their probabilities")
    parser.add_argument("--spans", action="store_true", help="chunks with their probabilities, one per line")
    parser.add_argument("--scheme", metavar="NAME", help="write chunk tags in this scheme (default: as in training)")
    parser.add_argument("--json", action="store_true", help="write one JSON object per sentence")
    parser.add_argument(
        "--context",
        choices=("sentence", "document"),
        help="how much text the templates may look at (default: as much as they need); the output does not "
        "depend on how the input arrives",
    )
    parser.add_argument(
        "--n-jobs", "-j", metavar="N", type=int, default=1, help="threads, -1 for all cores (default: 1)"
    )
    parser.add_argument(
        "--workers", "-w", metavar="N", type=int, default=1, help="processes; the output is the same (default: 1)"
    )
    parser.add_argument("--scheduler", metavar="ADDRESS", help="label on a dask cluster, such as tcp://host:8786")
    add_layout(parser)


def run(args: argparse.Namespace) -> None:
    settle_model(args, "file", "-")
    chosen = [name for name in ("marginals", "kbest", "spans") if getattr(args, name)]
    if len(chosen) > 1 and not args.json:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} can only be combined with --json")
    if args.kbest is not None and args.kbest < 1:
        raise UsageError(f"--kbest must be at least 1, got {args.kbest}")
    if args.workers < 1:
        raise UsageError(f"--workers must be at least 1, got {args.workers}")
    if args.workers > 1 and args.scheduler is not None:
        raise UsageError("--workers starts processes here, --scheduler uses a cluster: give one of them")
    model = open_model(args.model, args.n_jobs)
    layout = model_layout(model, args)
    render = Renderer(model, args, layout.separator or " ")
    context = args.context or model.context
    if args.workers > 1 or args.scheduler is not None:
        from partwise.sequences.commands._parallel import predicted_texts

        with opened(args.output) as write:
            for text in predicted_texts(args, layout, context):
                write(text)
        return
    with opened(args.output) as write:
        for stage in model.stages if args.context == "sentence" else ():
            stage.encoder_.warns = False  # whoever asks for sentences knows that they are no documents
        blocks = layout.blocks(args.file, context)
        if args.n_jobs != 1 and os.path.isfile(args.file):  # what a pipe holds is not to wait for more
            from partwise._threads import ahead

            blocks = ahead(blocks)
        for data in blocks:
            write(render.block(data, layout.label, context))


class Renderer:
    """From a piece of a file to text, in the format that the flags ask for."""

    def __init__(self, model: Any, args: argparse.Namespace, separator: str) -> None:
        from partwise.sequences.tags import scheme_name

        self.model, self.args, self.separator = model, args, separator
        self.source = model_scheme(model)
        self.scheme = None if args.scheme is None else scheme_name(args.scheme)
        if (args.spans or args.scheme) and self.source is None:
            raise ParameterError("model", "partwise predict", "one of chunk tags", list(model.classes_)[:5])
        self.announced = -1  # the document whose -DOCSTART- line is written

    def block(self, data: Columns, label: str | None, context: str) -> str:
        """The text of a piece of the file that holds whole sentences, or whole documents."""
        seen = without(data, label)
        # without its document a sentence says the same, whatever came through the pipe with it
        alone = replace(seen, docstart=None, documents=seen.documents * 0)
        return self(data, seen if context == "document" else alone)

    def __call__(self, data: Columns, seen: Columns) -> str:
        """The text of a piece of the file, of which the model may see that much."""
        if self.args.json:
            return self.json(data, seen)
        if self.args.spans:
            return self.spans(data, seen)
        if self.args.kbest:
            return self.kbest(data, seen)
        return self.columns(data, seen)

    def columns(self, data: Columns, seen: Columns) -> str:
        """The columns of the file, then the label, then its probability if wanted."""
        import numpy as np

        from partwise.data.columns import encode

        labels = self.model.predict_coded(seen)
        extra = [self.converted(labels)]
        if self.args.marginals:
            sequences = np.split(labels.codes, labels.offsets[1:-1])
            probabilities = zip(self.model.predict_marginals(seen), sequences, strict=True)
            extra.append(encode([[f"{p:.4f}" for p in rows[range(len(b)), b].tolist()] for rows, b in probabilities]))
        return self.written(data, *extra)

    def written(self, data: Columns, *extra: CodedColumn) -> str:
        """The columns and the extra ones; a document that an earlier piece has announced is not announced again."""
        from partwise.data.column_files import write_columns

        out = io.StringIO()
        write_columns(out, data, *extra, separator=self.separator, announced=self.announced)
        self.announced = int(data.documents[-1])
        return out.getvalue()

    def converted(self, labels: CodedColumn) -> CodedColumn:
        texts = labels._replace(vocab=list(map(str, labels.vocab)))
        return predicted_labels(self.model, texts, self.scheme)

    def converted_lists(self, labels: list[list[Any]]) -> list[list[str]]:
        from partwise.data.columns import encode

        return self.converted(encode([list(map(str, sequence)) for sequence in labels])).to_lists()

    def kbest(self, data: Columns, seen: Columns) -> str:
        """Each sentence once for each of its label sequences, under a line ``# rank probability``."""
        from partwise.data.columns import encode

        parts = []
        for i, ranked in enumerate(self.model.predict_kbest(seen, self.args.kbest)):
            sentence = data.subset([i])
            for rank, (labels, probability) in enumerate(ranked, start=1):
                opens = data.docstart is not None and data.documents[i] != self.announced
                text = self.written(sentence, self.converted(encode([list(map(str, labels))])))
                head, text = text.split("\n\n", 1) if opens else ("", text)
                parts.append(f"{head}\n\n" if opens else "")
                parts.append(f"# {rank} {probability:.6f}\n{text}")
        return "".join(parts)

    def spans(self, data: Columns, seen: Columns) -> str:
        """Line of the file, first and last token, type, probability and words, with tabs between them."""
        lines = []
        for sentence, spans in zip(data.sentences(), self.model.predict_spans(seen, self.source), strict=True):
            for span in spans:
                words = " ".join(row[0] for row in sentence[span.start : span.stop])
                place = f"{sentence.line + span.start}\t{span.start}\t{span.stop - 1}"
                lines.append(f"{place}\t{span.type}\t{span.probability:.4f}\t{words}\n")
        return "".join(lines)

    def json(self, data: Columns, seen: Columns) -> str:
        """One object per sentence, with only what was asked for."""
        args, model = self.args, self.model
        labels = self.converted(model.predict_coded(seen)).to_lists()
        found: list[dict[str, Any]] = [
            {"line": sentence.line, "tokens": [list(row) for row in sentence], "labels": sequence}
            for sentence, sequence in zip(data.sentences(), labels, strict=True)
        ]
        if args.marginals:
            for entry, rows in zip(found, model.predict_marginals(seen), strict=True):
                entry["marginals"] = [dict(zip(map(str, model.classes_), p, strict=True)) for p in rows.tolist()]
        if args.kbest:
            for entry, ranked in zip(found, model.predict_kbest(seen, args.kbest), strict=True):
                sequences = self.converted_lists([sequence for sequence, _ in ranked])
                entry["kbest"] = [{"labels": s, "probability": p} for s, (_, p) in zip(sequences, ranked, strict=True)]
        if args.spans:
            for entry, spans in zip(found, model.predict_spans(seen, self.source), strict=True):
                entry["spans"] = [
                    {
                        **span._asdict(),
                        "text": " ".join(row[0] for row in entry["tokens"][span.start : span.stop]),
                    }
                    for span in spans
                ]
        return "".join(as_json(entry) + "\n" for entry in found)


COMMAND = Command("predict", "label a column file or a pipe with a model", configure, run, EXAMPLES, rank=11)
