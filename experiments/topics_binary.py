"""``lacostejulien2009-disclda-binary``: Figure 4.7, five pairs of newsgroups, learned T, several seeds.

B_c = B_s = 20 (K = 60), T learned from its smoothed block start (Table 4.1), against LDA with K = 60 and a
linear SVM. The thesis had one run each; here every number is a mean over seeds with its standard error.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from partwise.topics import LDA, DiscLDA, count_newsgroups
from partwise.topics.corpus import pack
from partwise.topics.evaluate import svm_error

__all__ = ["PAIRS", "run", "run_pair"]

PAIRS = {
    "1 vs. 20": ("alt.atheism", "talk.religion.misc"),
    "16 vs. 20": ("soc.religion.christian", "talk.religion.misc"),
    "4 vs. 5": ("comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"),
    "4 vs. 3": ("comp.sys.ibm.pc.hardware", "comp.os.ms-windows.misc"),
    "10 vs. 11": ("rec.sport.baseball", "rec.sport.hockey"),
}


def run_pair(counted: Any, seed: int, inference: str = "gibbs", **settings: Any) -> dict[str, Any]:
    """Errors of DiscLDA alone, DiscLDA + SVM, LDA + SVM and naive Bayes on one pair with one seed."""
    X, y, X_test, y_test = counted.train, counted.train_labels, counted.test, counted.test_labels
    start = time.perf_counter()
    model = DiscLDA(20, 20, transformation="learned", inference=inference, random_state=seed, **settings).fit(X, y)
    seconds = time.perf_counter() - start
    packed, packed_test = pack(X), pack(X_test, allow_empty=True)
    posterior_test, posterior = model.class_posterior(X_test)[0], model.class_posterior(X)[0]
    chosen = model.classes_[posterior_test.probabilities.argmax(axis=1)]
    features = (
        model.representation(packed, posterior),
        y,
        model.representation(packed_test, posterior_test),
        y_test,
    )
    lda = LDA(60, alpha=10 / 60, beta=0.01, n_iterations=200, random_state=seed).fit(X)
    best = min(model.history_, key=lambda tried: min((e["error"], e["loss"]) for e in tried["history"]))
    return {
        "disclda_alone": float((chosen != y_test).mean()),
        "disclda_svm": svm_error(*features).error,
        "lda_svm": svm_error(lda.transform(X), y, lda.transform(X_test), y_test).error,
        "naive_bayes": float((MultinomialNB(alpha=0.1).fit(X, y).predict(X_test) != y_test).mean()),
        "seconds": seconds,
        "step_size": best["step_size"],
        "validation": [round(entry["error"], 4) for entry in best["history"]],
        "strength": float(np.abs(model.transformation_[0] - model.transformation_[1]).sum() / 2),
    }


def run(
    seeds: tuple[int, ...] = (0, 1, 2),
    inference: str = "gibbs",
    headers: str = "strip",
    pairs: tuple[str, ...] = tuple(PAIRS),
    data: str | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Means and standard errors over seeds for every pair."""
    result: dict[str, Any] = {"inference": inference, "headers": headers, "seeds": list(seeds), "pairs": {}}
    for name in pairs:
        counted = count_newsgroups(headers, path=data, classes=PAIRS[name])
        runs = [run_pair(counted, seed, inference, **settings) for seed in seeds]
        entry: dict[str, Any] = {"runs": runs}
        for key in ("disclda_alone", "disclda_svm", "lda_svm", "naive_bayes"):
            errors = np.array([one[key] for one in runs])
            spread = errors.std(ddof=1) / np.sqrt(errors.size) if errors.size > 1 else float("nan")
            entry[key] = {"mean": float(errors.mean()), "standard_error": float(spread)}
        result["pairs"][name] = entry
        means = {key: round(value["mean"], 4) for key, value in entry.items() if key != "runs"}
        print(name, means, [round(one["seconds"], 1) for one in runs], flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inference", default="gibbs")
    parser.add_argument("--headers", default="strip")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS))
    parser.add_argument("--data", default=None)
    parser.add_argument("--settings", default="{}", help="JSON of DiscLDA parameters")
    options = parser.parse_args()
    settings = json.loads(options.settings)
    result = run(
        tuple(options.seeds),
        options.inference,
        options.headers,
        tuple(options.pairs),
        options.data,
        **settings,
    )
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
