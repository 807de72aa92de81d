"""Text to counts, the newsgroups reader, and what is shown of topics."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from sklearn.base import clone

from partwise.exceptions import FormatError, InputError, ParameterError
from partwise.topics import (
    CountText,
    count_newsgroups,
    document_map,
    group_words,
    read_newsgroups,
    strong_topics,
    tokenize,
    topic_groups,
    topic_strengths,
)
from partwise.topics.evaluate import GRID, svm_error
from partwise.topics.stopwords import STOP_WORDS
from partwise.topics.transforms import block_transformation


def test_tokenizer():
    assert tokenize("It's a VGA-card: 640x480, café\n> x") == ["it", "vga", "card", "café"]
    assert tokenize("a bb ccc", min_length=3) == ["ccc"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Zürich", ["zürich"]),
        ("Zu\u0308rich", ["zürich"]),  # u and its mark apart: NFC joins them
        ("ÎLE-DE-FRANCE, cœur", ["île", "de", "france", "cœur"]),
        ("Тест №5: ёлка", ["тест", "ёлка"]),
        ("हिन्दी में", ["हिन्दी", "में"]),  # vowel signs are marks, which \\w does not match
        ("می\u200cخواهم", ["می\u200cخواهم"]),  # a non-joiner inside a word
        ("x² ½ five٣six", ["five", "six"]),  # digits of any script separate
        ("İstanbul", ["i̇stanbul"]),
        ("_snake_case_", ["snake", "case"]),
    ],
)
def test_words_of_any_script(text, words):
    assert tokenize(text) == words


def test_ascii_and_unicode_agree_on_ascii():
    ascii_text = "From: a.b@c.d (J. O'Neil) 3D-graphics X11R5 _foo_"
    assert tokenize(ascii_text + " né") == [*tokenize(ascii_text), "né"]


def test_stop_list_is_lower_case_words():
    assert len(STOP_WORDS) > 400
    assert all(word.isalpha() and word == word.lower() for word in STOP_WORDS)
    assert {"the", "because", "ourselves"} <= STOP_WORDS
    assert not {"windows", "god", "drive"} & STOP_WORDS


def test_pruning():
    texts = ["apple banana cherry", "apple banana", "apple banana apple plum"]
    assert CountText(min_documents=2).fit(texts).vocabulary_.tolist() == ["apple", "banana"]
    assert CountText(min_count=4).fit(texts).vocabulary_.tolist() == ["apple"]
    assert CountText(max_documents=0.5).fit(texts).vocabulary_.tolist() == ["cherry", "plum"]
    assert CountText(max_words=2).fit(texts).vocabulary_.tolist() == ["apple", "banana"]
    assert "the" in CountText(stop_words=None).fit(["the cat"]).vocabulary_
    assert CountText(tokenizer=str.split).fit(["C++ rocks"]).vocabulary_.tolist() == ["C++", "rocks"]


def test_unknown_words_are_not_counted():
    counter = CountText().fit(["apple plum"])
    assert counter.transform(["pear apple apple", "pear"]).toarray().tolist() == [[2, 0], [0, 0]]


def test_counter_state_and_clone():
    counter = CountText(min_documents=2).fit(["apple plum", "apple pear"])
    header, arrays = counter.to_state()
    again = CountText.from_state(json.loads(json.dumps(header)), arrays)
    assert again.transform(["apple the"]).toarray().tolist() == counter.transform(["apple the"]).toarray().tolist()
    assert repr(clone(counter)) == "CountText(min_documents=2)"


def test_bad_text():
    with pytest.raises(InputError, match="none of 1 words is left"):
        CountText().fit(["the the"])
    with pytest.raises(InputError, match="got one string"):
        CountText().fit("apple")
    with pytest.raises(ParameterError, match="'english', words or None"):
        CountText(stop_words="french").fit(["pomme"])
    with pytest.raises(ParameterError, match="max_documents"):
        CountText(max_documents=0.0).fit(["apple"])


MESSAGES = {
    "20news-bydate-train/sci.space/60": b"From: a@nasa.gov\nSubject: Re: moon\n\nrocket launch\n\nregards",
    "20news-bydate-train/sci.space/7": b"Subject: \xe9toile\nLines: 1\n\norbit",
    "20news-bydate-train/alt.atheism/9": b"From: x@y\n\nbelief",
    "20news-bydate-train/alt.atheism/10": b"From: x@y\nSubject: nothing\n\n",
    "20news-bydate-test/sci.space/99": b"From: q@r\n\nrocket unseen",
}


@pytest.fixture
def archive(tmp_path):
    def write(messages=MESSAGES):
        path = tmp_path / "news.tar.xz"
        with tarfile.open(path, "w:xz") as tar:
            for name, content in messages.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        return path

    return write


def test_headers_are_handled_as_documented(archive):
    path = archive()
    train = read_newsgroups("train", path=path)
    assert train.labels.tolist() == ["alt.atheism", "alt.atheism", "sci.space", "sci.space"]
    assert train.texts == ["belief", "", "orbit", "rocket launch\n\nregards"]
    assert read_newsgroups("train", "subject", path).texts[2:] == [
        " étoile\norbit",
        " Re: moon\nrocket launch\n\nregards",
    ]
    assert "nasa" in read_newsgroups("train", "keep", path).texts[3]
    assert read_newsgroups("test", path=path).texts == ["rocket unseen"]


def test_encoded_lines_are_dropped(archive):
    line = b"M" + b"AX>'" * 15
    path = archive({"20news-bydate-train/a/1": b"From: x\n\nbefore\n" + line + b"\nMAC USERS UNITE\nafter"})
    assert read_newsgroups(path=path).texts == ["before\n\nMAC USERS UNITE\nafter"]
    assert "AX" in read_newsgroups(path=path, drop_encoded=False).texts[0]


def test_counted_newsgroups_drop_empty_training_documents(archive):
    counted = count_newsgroups(path=archive())
    assert counted.train.shape == (3, 5)
    assert counted.train_labels.tolist() == ["alt.atheism", "sci.space", "sci.space"]
    assert counted.test.sum() == 1  # "unseen" is not in the vocabulary
    only = count_newsgroups(path=archive(), classes=("sci.space",))
    assert only.train.shape == (2, 5)


def test_bad_archives(archive, tmp_path):
    with pytest.raises(InputError, match="set PARTWISE_DATA"):
        read_newsgroups(path=tmp_path / "nowhere")
    with pytest.raises(FormatError, match="holds no messages under 20news-bydate-test"):
        read_newsgroups("test", path=archive({"20news-bydate-train/a/1": b"x"}))
    with pytest.raises(FormatError, match="expected a message number"):
        read_newsgroups(path=archive({"20news-bydate-train/a/README": b"x"}))
    with pytest.raises(ParameterError, match="did you mean 'strip'"):
        read_newsgroups(headers="stripp", path=archive())


def test_top_words_of_groups():
    own, shared = topic_groups(2, 1, 1)
    assert [group.tolist() for group in own] == [[0], [1]]
    assert shared.tolist() == [2]
    phi = np.array([[0.7, 0.1, 0.3], [0.2, 0.1, 0.4], [0.1, 0.8, 0.3]])
    top = group_words(phi, [0, 2], ["x", "y", "z"], n_words=2)
    assert [entry.word for entry in top] == ["x", "y"]
    assert top[0].score == pytest.approx(3 / 2 * (0.7 + 0.3))
    assert group_words(phi, [], ["x", "y", "z"]) == []
    with pytest.raises(InputError, match="vocabulary has 2 words"):
        group_words(phi, [0], ["x", "y"])


def test_strong_topics_follow_the_rule():
    transformation = np.zeros((2, 4, 2))
    transformation[:, :, 0] = [[0.9, 0.05, 0.0, 0.05], [0.3, 0.0, 0.65, 0.05]]
    transformation[:, :, 1] = [[0.0, 0.95, 0.0, 0.05], [0.0, 0.95, 0.0, 0.05]]
    found = strong_topics(transformation)
    assert [group.tolist() for group in found.classes] == [[0], []]  # 0.65 < 0.9: not strong
    assert found.shared.tolist() == [1]


def test_topic_strengths():
    theta, labels = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), np.array([0, 0, 1])
    strengths = topic_strengths(block_transformation(2, 1, 1), theta, labels, 2)
    assert strengths.tolist() == [[0.75, 0.0, 0.25], [0.0, 0.0, 1.0]]


def test_map_separates_clusters():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.dirichlet([20, 1, 1], 30), rng.dirichlet([1, 1, 20], 30)])
    flat = document_map(points, max_iter=300)
    assert flat.shape == (60, 2)
    apart = np.linalg.norm(flat[:30].mean(axis=0) - flat[30:].mean(axis=0))
    assert apart > flat[:30].std()


def test_everything_runs_without_compilation():
    """The kernels are ordinary Python too: a whole training and prediction with the compiler switched off."""
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from partwise.topics import LDA, DiscLDA\n"
        "X, y = [[3, 2, 0], [0, 1, 3], [2, 3, 1], [0, 0, 4]], ['a', 'b', 'a', 'b']\n"
        "fast = dict(n_iterations=4, n_samples=20, burn_in=2, gradient_samples=4, n_rounds=1)\n"
        "print(LDA(2, n_iterations=2, transform_samples=20, transform_burn_in=2).fit(X).transform(X).shape)\n"
        "for inference in ('gibbs', 'variational'):\n"
        "    for t in ('fixed', 'learned'):\n"
        "        model = DiscLDA(1, 1, inference=inference, transformation=t, step_sizes=(1.0,), **fast)\n"
        "        print(model.fit(X, y).predict_proba(X).shape)\n"
        "print(DiscLDA(1, 1, method='annealed', **fast).fit(X, y).predict_proba(X).shape)\n"
    )
    environment = {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["(4, 2)"] * 6


def test_svm_error_of_separable_features():
    rng = np.random.default_rng(0)
    labels = np.array(["a", "b"] * 50)
    features = rng.normal(size=(100, 3)) + (labels == "b")[:, None] * 6
    found = svm_error(features, labels, features, labels)
    assert found.error == 0.0
    assert found.C in GRID
    noise = rng.permutation(labels)
    assert svm_error(features, noise, features, noise, grid=[1.0]).error > 0.2
