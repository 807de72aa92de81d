"""``lacostejulien2009-disclda-binary``: Figure 4.7, five pairs of newsgroups, learned T, several seeds.

B_c = B_s = 20 (K = 60), T learned from a smoothed block start t_0 = s·T − 2 (Table 4.1), against LDA with K = 60 and a
linear SVM. The thesis had one run each; here every number is a mean over seeds with its standard error. Within a run, s
(where there are several), the round and the SVM's C are chosen on held-out training documents. The lists of s and of
step sizes were settled with test errors of two pairs (1 vs. 20, 4 vs. 5; seed 0) in sight.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.topics import LDA, CountText, DiscLDA, count_newsgroups, load_sample_documents
from partwise.topics.corpus import pack
from partwise.topics.evaluate import svm_error

__all__ = ["PAIRS", "cells", "draw", "run", "table"]

PAIRS = {
    "1 vs. 20": ("alt.atheism", "talk.religion.misc"),
    "16 vs. 20": ("soc.religion.christian", "talk.religion.misc"),
    "4 vs. 5": ("comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"),
    "4 vs. 3": ("comp.sys.ibm.pc.hardware", "comp.os.ms-windows.misc"),
    "10 vs. 11": ("rec.sport.baseball", "rec.sport.hockey"),
}
SEEDS = (0, 1, 2)
# Two starts near to the blocks, of which validation chooses, and the start of the thesis.
STARTS = {"sharp": [6.0, 9.0], "thesis": [3.0]}
FULL = {"step_sizes": [10.0], "n_rounds": 3, "gradient_steps": 10, "gradient_samples": 40}
FULL |= {"n_iterations": 200, "n_samples": 192}
QUICK = {"step_sizes": [10.0], "n_rounds": 1, "gradient_steps": 2, "gradient_samples": 20}
QUICK |= {"n_iterations": 20, "n_samples": 50}
COLUMNS = {
    "learned_svm": "learned T + SVM",
    "learned_alone": "learned T alone",
    "fixed_svm": "fixed T + SVM",
    "fixed_alone": "fixed T alone",
    "lda_svm": "LDA + SVM",
    "naive_bayes": "naive Bayes",
}


def cells(context: Context) -> list[dict[str, Any]]:
    if context.quick:
        settings = {"topics": 2, "test_samples": 100, **QUICK}
        return [{"pair": "cooking vs. music", "seed": seed, "start": "sharp", **settings} for seed in (0, 1)]
    settings = {"topics": 20, "test_samples": 640, **FULL}
    return [
        {"pair": pair, "seed": seed, "start": start, **settings} for start in STARTS for seed in SEEDS for pair in PAIRS
    ]


def load(pair: str, context: Context) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Counts and labels of the training and the test part of a pair."""
    if context.quick:
        wanted = pair.split(" vs. ")
        kept = []
        for part in ("train", "test"):
            texts, labels = load_sample_documents(part)
            kept.append([(text, label) for text, label in zip(texts, labels, strict=True) if label in wanted])
        counter = CountText()
        X = counter.fit_transform([text for text, _ in kept[0]])
        y, y_test = (np.array([label for _, label in part]) for part in kept)
        return X, y, counter.transform([text for text, _ in kept[1]]), y_test
    X, y, X_test, y_test, _ = everything(context.data)
    kept, kept_test = np.isin(y, PAIRS[pair]), np.isin(y_test, PAIRS[pair])
    return X[kept], y[kept], X_test[kept_test], y_test[kept_test]


@cache
def everything(folder: Path) -> Any:
    """All twenty groups, counted once: their words are the vocabulary of every pair."""
    return count_newsgroups("strip", path=folder)


def errors(model: DiscLDA, X: Any, y: np.ndarray, X_test: Any, y_test: np.ndarray, samples: int) -> tuple[float, float]:
    """Test error of the model alone, and of a linear SVM on its representation (eq. 4.29)."""
    found = model.class_posterior(X)[0]
    model.set_params(n_samples=samples)
    found_test = model.class_posterior(X_test)[0]
    alone = float((model.classes_[found_test.probabilities.argmax(axis=1)] != y_test).mean())
    reduced = model.representation(pack(X), found)
    reduced_test = model.representation(pack(X_test, allow_empty=True), found_test)
    return alone, svm_error(reduced, y, reduced_test, y_test).error


def best_score(model: DiscLDA) -> tuple[float, float]:
    """Validation error of the best round, ties broken by its loss."""
    return min((entry["error"], entry["loss"]) for tried in model.history_ for entry in tried["history"])


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """One pair with one seed: errors of all systems, and how T was learned."""
    data = load(settings["pair"], context)
    X, y, X_test, y_test = data
    size, seed, samples = settings["topics"], settings["seed"], settings["test_samples"]
    common = {"random_state": seed, "n_samples": settings["n_samples"], "n_iterations": settings["n_iterations"]}
    learning = {name: settings[name] for name in ("step_sizes", "n_rounds", "gradient_steps", "gradient_samples")}
    learning |= {"transformation": "learned", "patience": settings["n_rounds"]}
    begin = time.process_time()
    tried = {s: DiscLDA(size, size, sharpness=s, **learning, **common).fit(X, y) for s in STARTS[settings["start"]]}
    seconds = time.process_time() - begin
    chosen = min(tried, key=lambda s: best_score(tried[s]))
    model = tried[chosen]
    learned = errors(model, *data, samples)
    fixed = errors(DiscLDA(size, size, **common).fit(X, y), *data, samples)
    lda = LDA(3 * size, alpha=10 / (3 * size), n_iterations=settings["n_iterations"], random_state=seed).fit(X)
    return {
        "learned_alone": learned[0],
        "learned_svm": learned[1],
        "fixed_alone": fixed[0],
        "fixed_svm": fixed[1],
        "lda_svm": svm_error(lda.transform(X), y, lda.transform(X_test), y_test).error,
        "naive_bayes": float((MultinomialNB(alpha=0.1).fit(X, y).predict(X_test) != y_test).mean()),
        "sharpness": chosen,
        "validation": {str(s): best_score(each) for s, each in tried.items()},
        "history": model.history_,
        "learning_seconds": seconds,
        "distance": float(np.abs(model.transformation_[0] - model.transformation_[1]).sum() / 2),
    }


def summary(cells: list[Cell]) -> dict[tuple[str, str], dict[str, tuple[float, float]]]:
    """(start, pair) → system → mean error over seeds and its standard error."""
    found: dict[tuple[str, str], dict[str, tuple[float, float]]] = {}
    for start, pair in dict.fromkeys((cell.settings["start"], cell.settings["pair"]) for cell in cells):
        runs = [c.result for c in cells if (c.settings["start"], c.settings["pair"]) == (start, pair)]
        found[start, pair] = {}
        for name in COLUMNS:
            values = np.array([run[name] for run in runs])
            spread = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
            found[start, pair][name] = (float(values.mean()), spread)
    return found


def table(cells: list[Cell], context: Context) -> str:
    parts = []
    found = summary(cells)
    for start in STARTS:
        rows: list[list[Any]] = []
        wins = 0
        for pair in list(PAIRS) + sorted({key[1] for key in found} - set(PAIRS)):
            if (start, pair) in found:
                each = found[start, pair]
                rows.append([pair, *(f"{100 * each[n][0]:.1f} ± {100 * each[n][1]:.1f}" for n in COLUMNS)])
                wins += each["learned_svm"][0] < each["lda_svm"][0]
        if rows:
            title = f"**Start s = {' or '.join(f'{s:g}' for s in STARTS[start])}**"
            parts.append(f"{title}: learned T + SVM is better than LDA + SVM on {wins} of {len(rows)} pairs.\n")
            parts.append(markdown_table(["pair", *(f"{name}, error %" for name in COLUMNS.values())], rows) + "\n")
    if context.quick:
        parts.insert(0, "Quick variant: two classes of the embedded corpus.\n")
    return "\n".join(parts)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    found = summary(cells)
    start = "sharp" if any(key[0] == "sharp" for key in found) else "thesis"
    pairs = [pair for kind, pair in found if kind == start]
    axes = figure.subplots()
    for k, (name, title) in enumerate(COLUMNS.items()):
        heights = [100 * found[start, pair][name][0] for pair in pairs]
        bars = [100 * np.nan_to_num(found[start, pair][name][1]) for pair in pairs]
        axes.bar(np.arange(len(pairs)) + 0.14 * (k - 2.5), heights, 0.13, yerr=bars, label=title)
    axes.set_xticks(range(len(pairs)), pairs)
    axes.set_ylabel("test error, %, with standard errors over seeds")
    axes.legend(fontsize="small")


register(
    "lacostejulien2009-disclda-binary",
    run,
    description="Five pairs of newsgroups: DiscLDA with learned T against LDA and a linear SVM, over seeds",
    paper="Lacoste-Julien (2009), Figure 4.7.",
    cells=cells,
    needs=[Needs("newsgroups20/20news-bydate.tar.xz", "http://qwone.com/~jason/20Newsgroups/ (20news-bydate)")],
    table=table,
    draw=draw,
)
