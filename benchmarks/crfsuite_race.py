"""The race against CRFsuite on CoNLL-2000 chunking: the same attributes, the same objective, in one run.

    python benchmarks/crfsuite_race.py [--only lbfgs,pa] [--quick] [--repeats 3] [--json FILE]

Both sides have the 19 attribute templates of CRFsuite's chunking example, a weight for every (attribute,
label) pair of the training data and one for every pair of labels (feature.possible_transitions=1). CRFsuite
minimises Σ L_i + c2 ‖θ‖²; with c2 = 1 that is our C = 0.5. Compilation is done before anything is timed, the
runs of the two sides alternate, and the best of ``--repeats`` counts. The time of an iteration or a pass is
that between two stamps inside a run, taken alike on both sides: reading, feature generation and saving are
left out. One thread is one thread: numpy's BLAS has no more here. CPU seconds are those of the process, all
threads together, and say more than the wall clock where a machine has other things to do.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import mean, variance
from typing import Any, NamedTuple

import _timing
import numba
import numpy as np
from _timing import Clock, Row, best, interleaved
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from partwise import DCA, LBFGS, Chain, Perceptron, Problem
from partwise.features import ChainFeatures, RowLayout, Vocabulary
from partwise.learners import Learner, Result
from partwise.learners.base import objective
from partwise.metrics import chunk_scores
from partwise.sequences._decoding import decode_labels

try:
    import pycrfsuite
except ImportError:
    print("python-crfsuite is missing: pip install -r benchmarks/requirements.txt", file=sys.stderr)
    raise SystemExit(2) from None

C = 0.5  # CRFsuite's c2 = 1
WARM, LAST = 2, 22  # iterations of L-BFGS between which the clock runs
PASSES = 10  # of the online learners
ORDERS = 10  # their F1 depends on the order of the sentences: so many runs at least, each in an order of its own
QUICK = 1000  # sentences
Labels = list[list[str]]


class Data:
    """Attributes and labels of both parts, as lists of strings."""

    def __init__(self, limit: int | None) -> None:
        train, test = ([*_timing.sentences(_timing.conll2000(part), limit)] for part in ("train", "test"))
        self.train = [_timing.attributes(s) for s in train]
        self.test = [_timing.attributes(s) for s in test]
        self.labels, self.gold = ([[row[2] for row in s] for s in part] for part in (train, test))

    def f1(self, predicted: Labels) -> float:
        """Chunk F1 on the test part, in per cent."""
        return 100 * chunk_scores(self.gold, predicted).f1


# CRFsuite


class TimedTrainer(pycrfsuite.Trainer):  # type: ignore[misc]
    """Reads both clocks at the end of every iteration."""

    stamps: list[Clock]

    def message(self, message: str) -> None:
        if self.logparser.feed(message) == "iteration":
            self.stamps.append(Clock.now())


class TheirRun(NamedTuple):
    """One training run of CRFsuite."""

    stamps: list[Clock]
    log: list[dict[str, Any]]  # one entry an iteration
    tagger: Any

    @property
    def loss(self) -> float:
        return float(self.log[-1]["loss"])


class Theirs:
    """CRFsuite, its training data loaded once."""

    def __init__(self, data: Data) -> None:
        self.trainer = TimedTrainer(verbose=False)
        for x, y in zip(data.train, data.labels, strict=True):
            self.trainer.append(x, y)
        self.test = [pycrfsuite.ItemSequence(x) for x in data.test]
        self.folder = tempfile.TemporaryDirectory()
        self.count = itertools.count()

    def train(self, algorithm: str, **params: Any) -> TheirRun:
        path = f"{self.folder.name}/{next(self.count)}.crfsuite"
        self.trainer.select(algorithm)
        self.trainer.set_params({"feature.possible_transitions": True, **params})
        self.trainer.stamps = []
        self.trainer.train(path)
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        return TheirRun(self.trainer.stamps, self.trainer.logparser.iterations, tagger)

    def tag(self, tagger: Any) -> Labels:
        return [tagger.tag(x) for x in self.test]


# partwise


class OurRun(NamedTuple):
    """One training run of ours."""

    stamps: list[Clock]
    result: Result


class Ours:
    """partwise, both parts packed."""

    def __init__(self, data: Data) -> None:
        self.vocabulary = Vocabulary()
        rows = self.vocabulary.read(data.train, grow=True)
        self.names = list(dict.fromkeys(itertools.chain.from_iterable(data.labels)))
        numbers = {name: b for b, name in enumerate(self.names)}
        self.y = [np.array([numbers[name] for name in labels]) for labels in data.labels]
        self.layout = RowLayout.observed(rows, np.concatenate(self.y), len(self.names))
        self.space, self.features = self.pack(rows)
        self.test = self.prepare(data.test)

    def pack(self, rows: Any) -> tuple[Chain, ChainFeatures]:
        n = len(self.names)
        return Chain(np.diff(rows.offsets), n), ChainFeatures(self.layout.pack(rows), self.layout.dim, n)

    def prepare(self, x: Sequence[Any]) -> tuple[Any, ...]:
        """What ``tag`` needs of sequences of string lists."""
        space, features = self.pack(self.vocabulary.read(x, grow=False))
        return space.pack, features.pack

    def numbers(self, theta: NDArray[Any], prepared: tuple[Any, ...]) -> NDArray[Any]:
        """Label numbers of all positions, in one array."""
        space, features = prepared
        out = np.empty(space.offsets[-1], np.int32)
        decode_labels(space, features, theta, 0, len(space.offsets) - 1, out)
        return out

    def tag(self, theta: NDArray[Any], prepared: tuple[Any, ...] | None = None) -> Labels:
        """Labels as strings, of the test part if nothing else is given."""
        prepared = prepared or self.test
        words = [self.names[b] for b in self.numbers(theta, prepared).tolist()]
        ends = prepared[0].offsets.tolist()
        return [words[a:b] for a, b in itertools.pairwise(ends)]

    def problem(self, loss: str, n_threads: int = 1) -> Problem:
        return Problem(self.space, self.features, self.y, loss, n_threads=n_threads)

    def train(self, problem: Problem, learner: Learner) -> OurRun:
        stamps: list[Clock] = []
        result = learner.fit(problem, callbacks=[lambda record, theta: stamps.append(Clock.now())])
        return OurRun(stamps, result)

    def theta_of(self, tagger: Any) -> NDArray[np.float64]:
        """CRFsuite's weights (printed with six digits after the point) in our order."""
        info, n = tagger.info(), len(self.names)
        labels = {name: b for b, name in enumerate(self.names)}
        attribute, output = self.layout.pairs()
        place = dict(zip((attribute * n + output).tolist(), self.layout.positions().tolist(), strict=True))
        theta = np.zeros(self.features.dim)
        for (name, label), weight in info.state_features.items():
            theta[place[self.vocabulary.numbers[name] * n + labels[label]]] = weight
        for (first, second), weight in info.transitions.items():
            theta[self.layout.dim + labels[first] * n + labels[second]] = weight
        return theta


class Race(NamedTuple):
    """Both sides and how often to run."""

    data: Data
    theirs: Theirs
    ours: Ours
    repeats: int


# Sections: each returns the lines of its table


def race_lbfgs(race: Race) -> list[Row]:
    """Seconds an iteration of L-BFGS, by both clocks."""
    ours, learner = race.ours, LBFGS(C=C, max_passes=LAST, tolerance=0.0)
    single, double = (ours.problem("crf", n_threads) for n_threads in (1, 2))
    single.loss_and_gradient(np.zeros(single.dim))  # compile
    runs = {
        "theirs": lambda _: race.theirs.train("lbfgs", c2=1.0, max_iterations=LAST),
        "one": lambda _: ours.train(single, learner),
        "two": lambda _: ours.train(double, learner),
    }
    done = interleaved(runs, race.repeats)
    time = {name: best(Clock.each(run.stamps, WARM) for run in done[name]) for name in done}
    theirs, one, two = time["theirs"], time["one"], time["two"]
    same = np.array_equal(done["one"][0].result.theta, done["two"][0].result.theta)
    print(f"  θ with 1 and 2 threads: {'identical' if same else 'DIFFERENT'}")
    count = mean(entry["linesearch_trials"] for entry in done["theirs"][0].log[WARM:])
    count_ours = mean(record.extra["evaluations"] for record in done["one"][0].result.trace[WARM:])
    per_call = (theirs.wall / count) / (one.wall / count_ours)
    return [
        Row("s/iteration, 1 thread", theirs.wall, one.wall, theirs.wall / one.wall, "≥ 3.5"),
        Row("s/iteration, 2 threads", theirs.wall, two.wall, theirs.wall / two.wall, "≥ 4"),
        Row("CPU s/iteration, 1 thread", theirs.cpu, one.cpu, theirs.cpu / one.cpu, "≥ 3.5"),
        Row("CPU s/iteration, 2 threads", theirs.cpu, two.cpu, theirs.cpu / two.cpu),
        Row("function values an iteration", count, count_ours, form="{:.2f}"),
        Row("s/function value, 1 thread", theirs.wall / count, one.wall / count_ours, per_call),
    ]


def race_optimum(race: Race) -> list[Row]:
    """Objective Σ L + ‖θ‖² and F1 where each stops by default, and with tight stopping rules."""
    ours, problem = race.ours, race.ours.problem("crf")
    tight = {"epsilon": 1e-8, "delta": 1e-9, "max_iterations": 1000}
    rows = []
    for name, params, learner in (
        ("default stop", {}, LBFGS(C=C, max_passes=1000)),
        ("tight stop", tight, LBFGS(C=C, max_passes=1000, tolerance=1e-8)),
    ):
        their = race.theirs.train("lbfgs", c2=1.0, **params)
        our = ours.train(problem, learner)
        at_theirs = problem.m * objective(problem, ours.theta_of(their.tagger), C)
        value, theta = problem.m * our.result.trace[-1].objective, our.result.theta
        # |difference| for the optimum itself; by default either side may stop a little early, we no earlier
        change = abs(value - their.loss) if name == "tight stop" else value - their.loss
        scores = race.data.f1(race.theirs.tag(their.tagger)), race.data.f1(ours.tag(theta))
        relative = {"form": "{:.3f}", "ratio_form": "{:.1e}", "target": "≤ 1e-4"}
        rows += [
            Row(f"objective, {name}", their.loss, value, change / their.loss, **relative),
            Row("  ours at CRFsuite's θ", their.loss, at_theirs, abs(at_theirs / their.loss - 1), **relative),
            Row("  iterations", len(their.log), len(our.stamps), form="{:.0f}"),
            Row("  chunk F1, |difference|", *scores, abs(scores[0] - scores[1]), "≤ 0.1", "{:.2f}", "{:.2f}"),
        ]
    usual = race.theirs.train("lbfgs", c2=1.0, **{"feature.possible_transitions": False})
    f1 = race.data.f1(race.theirs.tag(usual.tagger))
    rows.append(Row("CRFsuite with observed transitions only: F1", f1, None, form="{:.2f}"))
    return rows


def race_online(race: Race, algorithm: str, loss: str, learners: dict[str, Learner]) -> list[Row]:
    """Seconds a pass, and F1 after ``PASSES`` passes: the mean over ``ORDERS`` or more runs.

    Ours have the seeds 0, 1, …; CRFsuite takes no seed, but shuffles on from where its last run stopped. Ours counts as
    lower where the means differ by more than two standard errors of their difference.
    """
    ours = race.ours
    problem = ours.problem(loss)
    one = ours.pack(ours.vocabulary.read(race.data.train[:1], grow=False))
    tiny = Problem(*one, ours.y[:1], loss)  # to compile

    def run(learner: Learner, repeat: int) -> OurRun:
        return ours.train(problem, replace(learner, random_state=repeat))

    runs: dict[str, Any] = {"": lambda _: race.theirs.train(algorithm, max_iterations=PASSES)}
    for name, learner in learners.items():
        learner.fit(tiny)
        runs[name] = partial(run, learner)
    done = interleaved(runs, max(race.repeats, ORDERS))
    time = {name: best(Clock.each(run.stamps, 1) for run in done[name]) for name in done}
    theirs = [race.data.f1(race.theirs.tag(run.tagger)) for run in done[""]]
    print(f"  F1 of {algorithm}, run by run: {', '.join(f'{x:.2f}' for x in theirs)}")
    rows, f1 = [], mean(theirs)
    for name in learners:
        each = [race.data.f1(ours.tag(run.result.theta)) for run in done[name]]
        print(f"  F1 of {name}, run by run: {', '.join(f'{x:.2f}' for x in each)}")
        our = mean(each)
        error = math.sqrt((variance(theirs) + variance(each)) / len(each))
        wall, cpu = (a / b for a, b in zip(time[""], time[name], strict=True))
        rows += [
            Row(f"s/pass, {algorithm} ↔ {name}", time[""].wall, time[name].wall, wall, "≥ 2.5"),
            Row("  CPU s/pass", time[""].cpu, time[name].cpu, cpu, "≥ 2.5"),
            Row(
                f"  mean chunk F1 after {PASSES} passes", f1, our, our - f1, f"≥ {-2 * error:.2f}", "{:.2f}", "{:+.3f}"
            ),
        ]
    return rows


def race_perceptron(race: Race) -> list[Row]:
    """Averaged perceptrons."""
    return race_online(race, "ap", "perceptron", {"perceptron": Perceptron(max_passes=PASSES)})


def race_pa(race: Race) -> list[Row]:
    """Passive–aggressive: theirs is PA-I with c = 1, at the prediction, of cost √(wrong labels), averaged.

    Our bounds on a step were chosen among 0.02 to 1 on 1,800 sentences held out of the training part, where theirs made
    no difference (F1 93.53 with c = 0.05, 93.51 with 1).
    """
    bounds = {"max_loss": 0.05, "prediction": 1.0}
    learners: dict[str, Learner] = {
        f"DCA, {variant}": DCA(C=C, max_passes=PASSES, variant=variant) for variant, C in bounds.items()
    }
    return race_online(race, "pa", "svm", learners)


def race_tagging(race: Race) -> list[Row]:
    """Tokens a second of Viterbi tagging; the model is CRFsuite's on both sides."""
    their, ours, data = race.theirs.train("lbfgs", c2=1.0, max_iterations=50), race.ours, race.data
    tagger, theta = their.tagger, ours.theta_of(their.tagger)

    def from_strings() -> Labels:
        return ours.tag(theta, ours.prepare(data.test))

    same = race.theirs.tag(tagger) == ours.tag(theta) == from_strings()  # also compiles
    print(f"  labels of both on the test part: {'identical' if same else 'DIFFERENT'}")
    works: dict[str, Callable[[], Any]] = {
        "theirs": lambda: race.theirs.tag(tagger),
        "ours": lambda: ours.tag(theta),
        "our numbers": lambda: ours.numbers(theta, ours.test),
        "theirs from strings": lambda: [tagger.tag(x) for x in data.test],
        "ours from strings": from_strings,
    }

    def timed(work: Callable[[], Any], _: int) -> Clock:
        begin = Clock.now()
        work()
        return Clock.each([begin, Clock.now()], 1)

    done = interleaved({name: partial(timed, work) for name, work in works.items()}, max(5, race.repeats))
    tokens = sum(map(len, data.test)) / 1000
    speed = {name: Clock(*(tokens / seconds for seconds in best(done[name]))) for name in works}

    def row(what: str, theirs: str, name: str, target: str = "", clock: str = "cpu") -> Row:
        a, b = getattr(speed[theirs], clock), getattr(speed[name], clock)
        return Row(what, a, b, b / a, target, "{:.0f}")

    return [
        row("1000 tokens/s, packed → label strings", "theirs", "ours", "≥ 4", "wall"),
        row("1000 tokens/CPU s, packed → label strings", "theirs", "ours", "≥ 4"),
        row("  packed → label numbers (ours only)", "theirs", "our numbers"),
        row("  lists of strings → label strings", "theirs from strings", "ours from strings"),
    ]


RACES = {
    "lbfgs": ("L-BFGS: time of an iteration", race_lbfgs),
    "optimum": ("The CRF optimum", race_optimum),
    "perceptron": ("Averaged perceptron", race_perceptron),
    "pa": ("Passive–aggressive", race_pa),
    "tagging": ("Viterbi tagging of the test part", race_tagging),
}
SECTIONS = [*RACES, "memory", "compile"]


def main() -> None:
    """Run the chosen sections and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections: %(default)s")
    parser.add_argument("--quick", action="store_true", help=f"the first {QUICK} sentences only")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side (%(default)s)")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(SECTIONS):
        parser.error(f"unknown section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    limit = QUICK if options.quick else None
    for part in ("train", "test"):
        _timing.conll2000(part)
    about = {**_timing.machine(), "numba": numba.__version__, "sentences": limit or "all"}
    print("  ".join(f"{name}: {value}" for name, value in about.items()), flush=True)
    race, results = None, {}
    for name in chosen:
        if name == "memory":
            title, rows = "Peak memory, 10 iterations of L-BFGS", _timing.memory_section(limit)
        elif name == "compile":
            title, rows = "Compilation", _timing.compile_section(options.repeats)
        else:
            data = race.data if race else Data(limit)
            race = race or Race(data, Theirs(data), Ours(data), options.repeats)
            title, section = RACES[name]
            rows = section(race)
        _timing.print_table(title, rows)
        results[name] = [{**asdict(row), "met": row.met} for row in rows]
    if options.json:
        record = {"machine": about, "sections": results}
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
