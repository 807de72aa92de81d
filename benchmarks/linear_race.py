"""LinearClassifier against scikit-learn's LinearSVC(multi_class="crammer_singer"): the same objective, in one run.

    ½‖(W, c)‖² + C Σ_i max_b [1{b ≠ y_i} + s_b(x_i) − s_{y_i}(x_i)]

Digits come with scikit-learn (dense). The sparse problem is the 20 newsgroups by date, tf-idf of words, from
``PARTWISE_DATA``. Both are warmed up; seconds are CPU seconds of ``fit``, the best of ``--repeats``. LinearSVC gets as
many iterations as it wants (its default of 1,000 does not converge) and its default tolerance; LinearClassifier stops
at a certified gap of 0.1%.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

from partwise import LinearClassifier


def objective(model: Any, X: Any, y: Any, C: float) -> float:
    """The primal of a fitted model, by a plain sum."""
    codes = np.searchsorted(model.classes_, y)
    scores = np.asarray(X @ model.coef_.T) + model.intercept_
    rows = np.arange(len(codes))
    margins = scores + 1.0
    margins[rows, codes] -= 1.0
    hinge = (margins.max(axis=1) - scores[rows, codes]).sum()
    return float(0.5 * (model.coef_**2).sum() + 0.5 * (model.intercept_**2).sum() + C * hinge)


def timed(make: Any, X: Any, y: Any, repeats: int) -> tuple[Any, float]:
    seconds = []
    for _ in range(repeats):
        begin = time.process_time()
        model = make().fit(X, y)
        seconds.append(time.process_time() - begin)
    return model, min(seconds)


def race(name: str, train: Any, test: Any, C: float, repeats: int) -> None:
    X, y = train
    LinearClassifier(C=C).fit(X, y)  # compiles or loads
    mine, ours = timed(lambda: LinearClassifier(C=C), X, y, repeats)
    peer, theirs = timed(lambda: LinearSVC(multi_class="crammer_singer", C=C, max_iter=1_000_000), X, y, repeats)
    first, second = objective(mine, X, y, C), objective(peer, X, y, C)
    print(
        f"{name:12} C={C:<5g} LinearClassifier {ours:7.3f} s, LinearSVC {theirs:7.3f} s: {theirs / ours:5.2f}x; "
        f"objective {first / second:.5f} of LinearSVC's; test accuracy {100 * mine.score(*test):.2f} and "
        f"{100 * peer.score(*test):.2f}",
        flush=True,
    )


def newsgroups() -> tuple[Any, Any]:
    from partwise.topics.newsgroups import read_newsgroups

    train, test = read_newsgroups("train"), read_newsgroups("test")
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    X = vectorizer.fit_transform(train[0])
    return (X, train[1]), (vectorizer.transform(test[0]), test[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("digits", "newsgroups"))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.only != "newsgroups":
        X, y = load_digits(return_X_y=True)
        parts = train_test_split(X / 16.0, y, test_size=0.3, random_state=0)
        for C in (0.1, 1.0, 10.0):
            race("digits", (parts[0], parts[2]), (parts[1], parts[3]), C, args.repeats)
        raw = train_test_split(X, y, test_size=0.3, random_state=0)
        race("digits 0..16", (raw[0], raw[2]), (raw[1], raw[3]), 1.0, args.repeats)
    if args.only != "digits":
        train, test = newsgroups()
        race("newsgroups", train, test, 0.1, 1)  # a minute and a half for LinearSVC


if __name__ == "__main__":
    main()
