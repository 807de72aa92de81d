"""What ``partwise topics`` does: train, infer and show."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from partwise.cli.console import as_json, note, percent, print_json, print_table, size_of, tell, warn
from partwise.cli.engine import engine_of
from partwise.cli.registry import UsageError
from partwise.exceptions import InputError, ParameterError, StorageError, unknown_name
from partwise.topics.commands._documents import DocumentSet, read_documents, read_words

if TYPE_CHECKING:
    from partwise.topics import TextTopics

__all__ = ["infer", "show", "train"]

_CLASS_FLAGS = ("class_topics", "shared_topics", "samples")


def train(args: argparse.Namespace) -> int:
    """Fit a model, save it, and report its error on ``--test``."""
    from partwise.storage import check_writable

    if args.model is None:
        raise UsageError("missing: where to write the model: --model FILE")
    if args.variational and not (args.workers is None and args.scheduler is None):
        raise UsageError("--variational runs in one process: omit --workers and --scheduler")
    for path in (args.model, args.report, args.checkpoint):
        if path is not None:
            check_writable(path)
    data = read_documents(args.data, tab=args.tab, labels=args.labels, encoding=args.encoding)
    test = None
    if args.test is not None:
        test = read_documents(args.test, tab=args.tab, encoding=args.encoding)
    model = _make_model(args, data)
    labels = None if args.lda else data.labels
    kinds = sorted({label for label in labels or () if label is not None})
    classes = f", {len(kinds)} classes" if kinds else ""
    unknown = f" ({len(data.texts) - data.known} without a label)" if labels and data.known < len(data.texts) else ""
    note(args, f"{args.data}: {len(data.texts)} documents{unknown}{classes}")
    begin = time.perf_counter()
    with engine_of(args.workers, args.scheduler) as engine, _progress(args, model) as state:
        model.fit(data.texts, labels if kinds else None, checkpoint=args.checkpoint, **engine)
    seconds = time.perf_counter() - begin
    dropped = len(data.texts) - len(model.kept_)
    if dropped:
        warn(f"{dropped} documents have no word of the vocabulary and were ignored")
    model.model_.n_jobs = 1
    model.info_ = {"file": args.data, "documents": len(data.texts), "seconds": round(seconds, 1), "tab": args.tab}
    model.save(args.model)
    summary = _summary(args, model, seconds)
    if test is not None and model.discriminative and test.known:
        summary["test"] = _score(model, test)
    if args.report is not None and not state["stopped"]:
        _report(
            args.report, model, test or data, f"{os.path.basename(args.model)} on {args.test or 'its training data'}"
        )
        summary["report"] = args.report
    _tell_summary(args, summary)
    if state["stopped"]:
        tell(f"partwise topics: interrupted; the model trained so far is in {args.model}")
    return 130 if state["stopped"] else 0


def _make_model(args: argparse.Namespace, data: DocumentSet) -> TextTopics:
    from partwise.topics import LDA, CountText, DiscLDA, TextTopics

    stop: Any = {"english": "english", "none": None}.get(args.stop_words, args.stop_words)
    if stop not in ("english", None):
        stop = read_words(stop)
    counter = CountText(
        stop_words=stop,
        min_documents=args.min_documents,
        max_documents=args.max_documents,
        max_words=args.max_words,
    )
    common = {"n_iterations": args.iterations, "beta": args.beta, "random_state": args.seed, "n_jobs": args.n_jobs}
    if args.lda or data.labels is None:
        given = [name for name in _CLASS_FLAGS if getattr(args, name) is not None]
        given += [name for name in ("learn", "variational") if getattr(args, name)]
        if given:
            why = "--lda is given" if args.lda else "the documents have no labels"
            raise UsageError(f"--{given[0].replace('_', '-')} is for classes, but {why}")
        topics = 20 if args.topics is None else args.topics
        if topics < 1:
            raise ParameterError("topics", "partwise topics", "at least 1", topics)
        return TextTopics(LDA(topics, alpha=args.alpha or 10.0 / topics, **common), counter)
    if args.topics is not None:
        raise UsageError(
            "--topics is for LDA; the documents have classes: --class-topics and --shared-topics, or --lda"
        )
    if not data.known:
        raise InputError(f"{args.data}: no document has a label; --lda fits a model without classes")
    model = DiscLDA(
        5 if args.class_topics is None else args.class_topics,
        10 if args.shared_topics is None else args.shared_topics,
        transformation="learned" if args.learn else "fixed",
        inference="variational" if args.variational else "gibbs",
        sharpness=9.0,
        n_samples=args.samples,
        alpha=args.alpha,
        **common,
    )
    return TextTopics(model, counter)


@contextlib.contextmanager
def _progress(args: argparse.Namespace, topics: TextTopics) -> Iterator[dict[str, bool]]:
    """Progress of the model's fit; the first Ctrl-C ends it after the sweep, the second at once."""
    import numpy as np

    from partwise.learners.base import Record
    from partwise.progress import Progress

    model: Any = topics.model
    total = model.n_iterations
    if getattr(model, "transformation", "") == "learned":
        total += len(model.step_sizes) * model.n_rounds
    state = {"stopped": False}
    begin = time.perf_counter()

    def interrupt(number: int, frame: Any) -> None:
        if state["stopped"]:
            raise KeyboardInterrupt
        state["stopped"] = True

    with contextlib.ExitStack() as stack:
        shown = None if args.quiet else stack.enter_context(Progress(total, "training"))

        def callback(fitted: Any, iteration: int) -> bool:
            if shown is not None:
                shown(Record(iteration, time.perf_counter() - begin), np.zeros(0))
            return state["stopped"]

        model.callback = callback
        before: Any = None
        with contextlib.suppress(ValueError):  # not the main thread: Ctrl-C goes elsewhere
            before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield state
        finally:
            if before is not None:
                signal.signal(signal.SIGINT, before)
            model.callback = None
            if hasattr(topics, "model_"):
                topics.model_.callback = None


def _summary(args: argparse.Namespace, topics: TextTopics, seconds: float) -> dict[str, Any]:
    model: Any = topics.model_
    found = {
        "model": args.model,
        "kind": model.kind,
        "bytes": os.path.getsize(args.model),
        "documents": len(topics.kept_),
        "vocabulary": len(topics.counter_.vocabulary_),
        "topics": int(topics.phi.shape[1]),
        "classes": topics.classes_.tolist() if topics.discriminative else [],
        "iterations": model.n_iter_,
        "seconds": seconds,
        "log_likelihood": topics.trace_[-1]["log_likelihood"] if topics.trace_ else None,
        "validation_error": None,
        "test": None,
        "report": None,
    }
    if getattr(model, "history_", None):
        found["validation_error"] = min(e["error"] for tried in model.history_ for e in tried["history"])
    return found


def _tell_summary(args: argparse.Namespace, summary: dict[str, Any]) -> None:
    if args.json:
        print_json(summary)
        return
    sizes = f"{summary['documents']} documents, {summary['vocabulary']} words, {summary['topics']} topics"
    print(f"{summary['model']}: {summary['kind']}, {size_of(summary['bytes'])}, {sizes}")
    line = f"{summary['iterations']} sweeps in {summary['seconds']:.1f} s"
    if summary["log_likelihood"] is not None:
        line += f", log-likelihood {summary['log_likelihood']:.4f} per token"
    if summary["validation_error"] is not None:
        line += f", validation error {percent(summary['validation_error'])}%"
    print(line)
    if summary["test"] is not None:
        test = summary["test"]
        print(f"test error {percent(test['error'])}% ({test['wrong']} of {test['documents']})")
    if summary["report"] is not None:
        print(f"report: {summary['report']}")


def _score(model: TextTopics, data: DocumentSet, predicted: Any = None) -> dict[str, Any]:
    """Errors on the documents that have a label."""
    chosen = model.predict(data.texts) if predicted is None else predicted
    pairs = [(str(p), label) for p, label in zip(chosen, data.labels or (), strict=True) if label is not None]
    unknown = sorted({label for _, label in pairs} - set(map(str, model.classes_)))
    if unknown:
        warn(f"labels that the model does not know count as errors: {', '.join(unknown)}")
    wrong = sum(p != label for p, label in pairs)
    return {"error": wrong / len(pairs), "wrong": wrong, "documents": len(pairs)}


def open_topics(path: str, n_jobs: int = 1) -> TextTopics:
    """A model of texts; any other model is an error that names its kind."""
    from partwise.estimation.base import load_model
    from partwise.topics import TextTopics

    if not os.path.exists(path):
        raise StorageError(f"{path}: cannot be read: there is no such file")
    model = load_model(path)
    if not isinstance(model, TextTopics):
        raise InputError(f"{path}: holds a {model.kind!r}, not a model of partwise topics train")
    model.model_.n_jobs = n_jobs
    return model


def _documents(args: argparse.Namespace) -> DocumentSet:
    return read_documents(args.data, tab=args.tab, labels=args.labels, encoding=args.encoding)


def infer(args: argparse.Namespace) -> None:
    """A line or an object for each document."""
    model = open_topics(args.model, args.n_jobs)
    data = _documents(args)
    found = model.infer(data.texts)
    for d, name in enumerate(data.names):
        ranked = found.topics[d].argsort(kind="stable")[::-1]
        gold = data.labels[d] if data.labels is not None else None
        if args.json:
            each: dict[str, Any] = {"document": name, "words": int(found.words[d])}
            if found.probabilities is not None:
                chances = found.probabilities[d]
                each["class"] = str(model.classes_[chances.argmax()])
                each["probabilities"] = dict(zip(map(str, model.classes_), chances.tolist(), strict=True))
            if gold is not None:
                each["label"] = gold
            each["topics"] = found.topics[d]
            print(as_json(each))
            continue
        shares = " ".join(f"{k}:{found.topics[d, k]:.3f}" for k in ranked[: args.top])
        cells = [name]
        if found.probabilities is not None:
            best = found.probabilities[d].argmax()
            cells += [str(model.classes_[best]), f"{found.probabilities[d, best]:.4f}"]
        print("\t".join([*cells, shares]))
    empty = int((found.words == 0).sum())
    if empty:
        warn(f"{empty} documents have no word of the vocabulary: they get the prior probabilities")
    if found.probabilities is not None and data.known:
        score = _score(model, data, model.classes_[found.probabilities.argmax(axis=1)])
        note(args, f"error {percent(score['error'])}% ({score['wrong']} of {score['documents']})")


def show(args: argparse.Namespace) -> None:
    """The words of the topics, and the report."""
    if (args.report is None) != (args.data is None):
        raise UsageError("--report and --data go together: the report is on documents")
    model = open_topics(args.model, args.n_jobs)
    groups = [(group.name, group.topics) for group in model.groups()]
    if args.group is not None:
        names = [name for name, _ in groups]
        if args.group not in names:
            raise unknown_name("group", args.group, names)
        groups = [group for group in groups if group[0] == args.group]
    if args.each:
        groups = [(name if len(ks) == 1 else f"{name}, topic {k}", [k]) for name, ks in groups for k in ks]
    listed: list[dict[str, Any]] = [
        {"group": name, "topics": ks, "words": [[w.word, w.score] for w in model.top_words(ks, args.top)]}
        for name, ks in groups
    ]
    if args.report is not None:
        title = f"{os.path.basename(args.model)} on {os.path.basename(args.data.rstrip('/'))}"
        note(args, "writing the report")
        _report(args.report, model, _documents(args), title)
    if args.json:
        described = {"model": args.model, "kind": model.model_.kind, "groups": listed, "report": args.report}
        print_json(described)
        return
    rows = [(g["group"], " ".join(f"{word} {score:.0f}" for word, score in g["words"])) for g in listed]
    print_table(("group", "words, and how many times likelier than uniform they are"), rows)
    if args.report is not None:
        print(f"report: {args.report}")


def _report(path: str, model: TextTopics, data: DocumentSet, title: str) -> None:
    from partwise.topics.report import topic_report

    topic_report(path, model, data.texts, data.labels, title=title)
