"""Topic models in one file, checkpoints that survive a kill, and texts in, topics out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from partwise.cli import main
from partwise.estimators import load_model
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.storage import Checkpoint, load, save
from partwise.topics import LDA, CountText, DiscLDA, TextTopics, load_sample_documents

FAST: dict[str, Any] = {"n_iterations": 30, "n_samples": 40, "burn_in": 10}


@pytest.fixture(scope="module")
def counted() -> tuple[Any, np.ndarray]:
    texts, labels = load_sample_documents("train")
    return CountText().fit_transform(texts), np.array(labels)


def models() -> list[Any]:
    learned = {"transformation": "learned", "step_sizes": (5.0,), "n_rounds": 1, "gradient_steps": 2}
    return [
        LDA(5, n_iterations=20, optimize="asymmetric", optimize_after=5),
        DiscLDA(1, 2, n_phi=2, phi_lag=5, **FAST),
        DiscLDA(1, 1, alpha=[0.3, 0.2], **learned, **FAST),
        DiscLDA(1, 1, inference="variational", n_iterations=5),
    ]


@pytest.mark.parametrize("model", models(), ids=["lda", "fixed", "learned", "variational"])
def test_save_and_load_any(model: Any, counted: Any, tmp_path: Path) -> None:
    X, y = counted
    fitted = model.fit(X, y)
    fitted.save(tmp_path / "m.pw")
    for mmap in (False, True):
        again = load_model(tmp_path / "m.pw", mmap=mmap)
        assert type(again) is type(fitted)
        assert np.array_equal(again.transform(X), fitted.transform(X))
        assert np.array_equal(again.components_, fitted.components_)
    if isinstance(model, DiscLDA):
        assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
        assert again.classes_.tolist() == fitted.classes_.tolist() and again.history_ == fitted.history_
    assert repr(type(fitted).load(tmp_path / "m.pw")) == repr(again)


def test_classes_that_are_numbers(counted: Any, tmp_path: Path) -> None:
    X, y = counted
    numbers = np.unique(y, return_inverse=True)[1] + 10
    DiscLDA(1, 1, **FAST).fit(X, numbers).save(tmp_path / "m.pw")
    assert load_model(tmp_path / "m.pw").classes_.tolist() == [10, 11, 12, 13]


def test_the_seed_of_a_generator_is_kept(counted: Any, tmp_path: Path) -> None:
    X, _ = counted
    fitted = LDA(3, n_iterations=3, random_state=np.random.default_rng(5)).fit(X)
    fitted.save(tmp_path / "m.pw")
    again = LDA.load(tmp_path / "m.pw")
    assert again.random_state == fitted.seed_ and np.array_equal(again.transform(X), fitted.transform(X))


def test_what_cannot_be_stored_is_said(tmp_path: Path) -> None:
    counter = CountText(tokenizer=str.split).fit(["apple pear", "pear plum"])
    with pytest.raises(StorageError, match="cannot be stored"):
        counter.save(tmp_path / "c.pw")
    with pytest.raises(NotFittedError):
        LDA().save(tmp_path / "m.pw")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, a: a.pop("alpha_"), "lacks 'alpha_'"),
        (lambda h, a: a.update(alpha_=np.ones(9)), r"alpha_ of a LDA has shape \(9,\), expected \(4,\)"),
        (lambda h, a: a.update(other=np.ones(9)), "unknown array 'other'"),
        (lambda h, a: h["fitted"].update(other=1), "unknown value 'other'"),
        (lambda h, a: h.update({"class": "DiscLDA"}), "expected the state of a LDA"),
        (lambda h, a: h["parameters"].update(colour=1), "not a complete lda"),
    ],
)
def test_files_that_do_not_fit_together(change: Any, message: str, counted: Any, tmp_path: Path) -> None:
    LDA(4, n_iterations=2).fit(counted[0]).save(tmp_path / "m.pw")
    stored = load(tmp_path / "m.pw")
    header, arrays = dict(stored.header), dict(stored.arrays)
    change(header, arrays)
    save(tmp_path / "bad.pw", "lda", header, arrays)
    with pytest.raises(StorageError, match=message):
        load_model(tmp_path / "bad.pw")


# checkpoints


@pytest.mark.parametrize("model", models()[:3], ids=["lda", "fixed", "learned"])
def test_a_checkpoint_file_resumes_exactly(model: Any, counted: Any, tmp_path: Path) -> None:
    X, y = counted
    whole = model.fit(X, y).to_state()[1]
    stopped = type(model)(**model.get_params())

    def stop(_: Any, iteration: int) -> None:
        if iteration == 17:
            raise KeyboardInterrupt

    stopped.callback = stop
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(X, y, checkpoint=Checkpoint(tmp_path / "run.ckpt", every=5))
    resumed = type(model)(**model.get_params()).fit(X, y, checkpoint=tmp_path / "run.ckpt").to_state()[1]
    assert whole.keys() == resumed.keys() and all(np.array_equal(whole[key], resumed[key]) for key in whole)


def test_a_checkpoint_of_something_else_is_refused(counted: Any, tmp_path: Path) -> None:
    X, y = counted
    LDA(3, n_iterations=3).fit(X, checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match=r"a checkpoint with beta=0\.01, not 0\.5; delete it"):
        LDA(3, n_iterations=3, beta=0.5).fit(X, checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match="a checkpoint of other data"):
        LDA(3, n_iterations=3).fit(X[:50], checkpoint=tmp_path / "c")
    with pytest.raises(InputError, match="a checkpoint of LDA, not of DiscLDA"):
        DiscLDA(1, 1, **FAST).fit(X, y, checkpoint=tmp_path / "c")
    assert LDA(3, n_iterations=5).fit(X, checkpoint=tmp_path / "c").n_iter_ == 5  # going on longer is welcome


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
def test_killed_and_resumed(tmp_path: Path) -> None:
    texts, labels = load_sample_documents()
    lines = [f"{label}\t{text}\n" for text, label in zip(texts * 4, labels * 4, strict=True)]
    (tmp_path / "data.tsv").write_text("".join(lines))
    command = [
        "topics",
        "train",
        str(tmp_path / "data.tsv"),
        "--tab",
        "--iterations",
        "600",
        "-q",
        "--class-topics",
        "2",
    ]
    assert main([*command, "-m", str(tmp_path / "whole.pw")]) == 0
    checkpoint = tmp_path / "run.ckpt"
    killed = [*command, "-m", str(tmp_path / "resumed.pw"), "--checkpoint", str(checkpoint)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    process = subprocess.Popen([sys.executable, "-m", "partwise", *killed], env=environment)
    deadline = time.monotonic() + 120
    while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(0.1)
    assert process.poll() is None, "training was over before it could be killed"
    process.kill()
    process.wait(60)
    assert 0 < Checkpoint(checkpoint).load("topics-checkpoint")["header"]["n_iterations"] < 600
    assert main(killed) == 0
    whole, resumed = (load_model(tmp_path / f"{name}.pw").model_.phi_ for name in ("whole", "resumed"))
    assert np.array_equal(whole, resumed)


# texts in, topics out


def test_text_topics_is_its_parts(tmp_path: Path) -> None:
    train, test = load_sample_documents("train"), load_sample_documents("test")
    texts, labels = [*train.texts, "", "zzz"], [*train.labels, "music", "music"]
    counter = CountText(min_documents=2)
    joint = TextTopics(DiscLDA(2, 2, **FAST), counter).fit(texts, labels)
    assert joint.kept_.tolist() == list(range(len(train.texts)))
    X = CountText(min_documents=2).fit_transform(texts)[:-2]
    alone = DiscLDA(2, 2, **FAST).fit(X, train.labels)
    assert np.array_equal(alone.phi_, joint.model_.phi_)
    counts = joint.count(test.texts)
    assert np.array_equal(joint.predict_proba(test.texts), alone.predict_proba(counts))
    assert np.array_equal(joint.transform(test.texts), alone.transform(counts))
    found = joint.infer(test.texts)
    assert (
        np.array_equal(found.topics, alone.transform(counts))
        and found.words.tolist() == counts.sum(axis=1).ravel().tolist()[0]
    )
    assert (joint.predict(test.texts) == np.array(test.labels)).mean() > 0.8
    assert [group.name for group in joint.groups()] == ["astronomy", "cooking", "cycling", "music", "shared"]
    assert joint.top_words([0], 3) == joint.top_words([0], 5)[:3]
    values = [entry["log_likelihood"] for entry in joint.trace_]
    assert len(values) == 30 and values[-1] > values[0]
    joint.info_ = {"file": "letters"}
    joint.save(tmp_path / "m.pw")
    again = load_model(tmp_path / "m.pw")
    assert np.array_equal(again.predict_proba(test.texts), joint.predict_proba(test.texts))
    assert again.info_ == joint.info_ and again.trace_ == joint.trace_
    assert again.counter_.vocabulary_.tolist() == joint.counter_.vocabulary_.tolist()


def test_text_topics_of_lda() -> None:
    texts, _ = load_sample_documents("train")
    model = TextTopics(LDA(3, n_iterations=20)).fit(texts)
    assert model.infer(texts).probabilities is None and model.transform(texts).shape == (len(texts), 3)
    assert [group.topics for group in model.groups()] == [[0], [1], [2]]
    with pytest.raises(InputError, match="an LDA has no classes"):
        model.predict(texts)


def test_text_topics_errors() -> None:
    with pytest.raises(ParameterError, match="an LDA or a DiscLDA"):
        TextTopics(CountText()).fit(["a"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got 1 labels for 2 documents"):
        TextTopics(LDA()).fit(["one", "two"], ["x"])
    with pytest.raises(InputError, match="DiscLDA needs labels"):
        TextTopics(DiscLDA()).fit(["apple", "pear"])
    with pytest.raises(NotFittedError):
        TextTopics(LDA()).transform(["a"])


def test_stopping_while_sampling_leaves_a_usable_model(counted: Any) -> None:
    X, y = counted
    settings: dict[str, Any] = {**FAST, "transformation": "learned"}
    model = DiscLDA(1, 1, callback=lambda _, iteration: iteration == 5, **settings).fit(X, y)
    assert model.n_iter_ == 5 and model.history_ == [] and model.predict(X).shape == y.shape


def test_log_likelihood_only_while_training(counted: Any) -> None:
    with pytest.raises(InputError, match="no training is in progress"):
        DiscLDA(1, 1, **FAST).fit(*counted).log_likelihood()


def test_embedded_corpus_splits() -> None:
    everything, train, test = load_sample_documents(), load_sample_documents("train"), load_sample_documents("test")
    assert sorted(everything.texts) == sorted(train.texts + test.texts) and len(set(everything.texts)) == 180
    with pytest.raises(ParameterError, match="split"):
        load_sample_documents("dev")
