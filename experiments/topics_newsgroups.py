"""``lacostejulien2009-disclda``: Tables 4.2–4.4 on 20 Newsgroups, by-date split, fixed T.

Settings of the thesis: K = 110, B_c = 5, B_s = 10, α = 10/K, β = 0.01, 200 sweeps; linear SVMs whose C is chosen on 20%
of the training documents; naive Bayes beside. Predictions are averaged over four estimates of Φ, 20 sweeps apart
(§4.5.2 of the thesis wishes for that), with 192 samples per class and Φ from either side of a mixture bridge, where the
thesis took 2,500 of either class for its one Φ.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from partwise.experiment import Cell, Context, Needs, markdown_table, register
from partwise.topics import LDA, CountText, DiscLDA, count_newsgroups, group_words, load_sample_documents, topic_groups
from partwise.topics.corpus import pack
from partwise.topics.evaluate import svm_error
from partwise.topics.newsgroups import CountedNewsgroups

__all__ = ["cells", "draw", "run", "table"]

# Test errors in percent: Table 4.4 of the thesis; naive Bayes is its footnote 9.
THESIS = {"lda_svm": 27.0, "disclda_svm": 19.2, "disclda_alone": 19.2, "naive_bayes": 19.9}
NAMES = {
    "disclda_alone": "DiscLDA alone",
    "disclda_svm": "DiscLDA + SVM",
    "lda_svm": "LDA + SVM",
    "naive_bayes": "naive Bayes",
}


def cells(context: Context) -> list[dict[str, Any]]:
    if context.quick:
        sizes = {"class_topics": 2, "shared_topics": 3, "n_iterations": 60, "n_phi": 2, "n_samples": 100}
        return [{"seed": 0, **sizes}]
    sizes = {"class_topics": 5, "shared_topics": 10, "n_iterations": 200, "n_phi": 4, "n_samples": 192}
    return [{"seed": seed, **sizes} for seed in (0, 1, 2)]


def load(context: Context) -> CountedNewsgroups:
    """Twenty newsgroups, or the four classes of the embedded corpus."""
    if not context.quick:
        return count_newsgroups("strip", path=context.data)
    train, test = load_sample_documents("train"), load_sample_documents("test")
    counter = CountText()
    X, X_test = counter.fit_transform(train.texts), counter.transform(test.texts)
    return CountedNewsgroups(X, np.array(train.labels), X_test, np.array(test.labels), counter.vocabulary_)


def run(settings: dict[str, Any], context: Context) -> dict[str, Any]:
    """One seed: errors on the test part, CPU seconds, and top words."""
    counted = load(context)
    X, y, X_test, y_test = counted.train, counted.train_labels, counted.test, counted.test_labels
    sizes = (settings["class_topics"], settings["shared_topics"])
    chosen = {name: settings[name] for name in ("n_iterations", "n_phi", "n_samples")}
    begin = time.process_time()
    model = DiscLDA(*sizes, random_state=settings["seed"], **chosen).fit(X, y)
    trained = time.process_time()
    posteriors = model.class_posterior(X_test)
    tested = time.process_time()
    average = np.mean([each.probabilities for each in posteriors], axis=0)
    reduced_test = np.mean([model.representation(pack(X_test, allow_empty=True), p) for p in posteriors], axis=0)
    model.set_params(n_samples=64)  # training documents: features only
    reduced = np.mean([model.representation(pack(X), p) for p in model.class_posterior(X)], axis=0)
    n_topics = model.transformation_.shape[1]
    lda = LDA(n_topics, alpha=10 / n_topics, n_iterations=settings["n_iterations"], random_state=settings["seed"]).fit(
        X
    )
    own, shared = topic_groups(model.classes_.size, *sizes)
    groups = dict(zip(model.classes_.tolist(), own, strict=True)) | {"shared": shared}
    return {
        "disclda_alone": float((model.classes_[average.argmax(axis=1)] != y_test).mean()),
        "one_phi": [float((model.classes_[p.probabilities.argmax(axis=1)] != y_test).mean()) for p in posteriors],
        "disclda_svm": svm_error(reduced, y, reduced_test, y_test).error,
        "lda_svm": svm_error(lda.transform(X), y, lda.transform(X_test), y_test).error,
        "naive_bayes": float((MultinomialNB(alpha=0.01).fit(X, y).predict(X_test) != y_test).mean()),
        "train_seconds": trained - begin,
        "test_seconds": tested - trained,
        "seconds_per_80k_tokens": (tested - trained) / settings["n_phi"] / float(X_test.sum()) * 80_000,
        "documents": [X.shape[0], X_test.shape[0]],
        "tokens": [int(X.sum()), int(X_test.sum())],
        "vocabulary": X.shape[1],
        "top_words": {
            str(name): [[word, round(score)] for word, score in group_words(model.phi_[0], topics, counted.vocabulary)]
            for name, topics in groups.items()
        },
    }


def table(cells: list[Cell], context: Context) -> str:
    rows: list[list[Any]] = []
    for key, name in NAMES.items():
        errors = 100 * np.array([cell.result[key] for cell in cells])
        spread = f" ± {errors.std(ddof=1) / np.sqrt(errors.size):.2f}" if errors.size > 1 else ""
        rows.append([name, f"{errors.mean():.2f}{spread}", None if context.quick else THESIS[key]])
    first = cells[0].result
    parts = [markdown_table(["system", "test error, %", "thesis"], rows)]
    seconds = np.mean([cell.result["train_seconds"] for cell in cells])
    tokens = np.mean([cell.result["seconds_per_80k_tokens"] for cell in cells])
    parts.append(f"Training {seconds:.0f} s; class posteriors {tokens:.1f} s for 80,000 tokens and one Φ (CPU time).")
    words = [[group, " ".join(word for word, _ in listed)] for group, listed in first["top_words"].items()]
    parts.append(markdown_table(["group", "top words by s_v^G (Table 4.3)"], words))
    if context.quick:
        parts.insert(0, "Quick variant: the embedded corpus.")
    return "\n\n".join(parts)


def draw(figure: Any, cells: list[Cell], context: Context) -> None:
    axes = figure.subplots()
    for k, key in enumerate(NAMES):
        errors = [100 * cell.result[key] for cell in cells]
        axes.plot([k] * len(errors), errors, "o", color="tab:blue")
        if not context.quick:
            axes.plot(k, THESIS[key], "_", color="black", markersize=30, label="thesis" if k == 0 else None)
    axes.set_xticks(range(len(NAMES)), NAMES.values())
    axes.set_ylabel("test error, %")
    if not context.quick:
        axes.legend()


register(
    "lacostejulien2009-disclda",
    run,
    description="20 Newsgroups: errors of DiscLDA alone, with an SVM, of LDA with an SVM, and the words of the topics",
    paper="Lacoste-Julien (2009), Tables 4.2 to 4.4.",
    cells=cells,
    needs=[Needs("newsgroups20/20news-bydate.tar.xz", "http://qwone.com/~jason/20Newsgroups/ (20news-bydate)")],
    table=table,
    draw=draw,
)
