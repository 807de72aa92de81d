"""Templates: every value and table against a slow reading of its definition."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import data_file

from partwise.data import Columns, read_columns
from partwise.templates import _index, _tables
from partwise.templates.template_list import FUNCTIONS, PRESETS, TemplateIndex, Templates, TokenMatrix

DOCS = Path(__file__).parents[1] / "docs" / "templates.md"

WORDS = ["the", "The", "THE", "New", "new", "York", "yorkers", "NATO", "U.S.", "1990s", "12", "3.5%", "x-ray"]
WORDS += ["-", ",", "I", "McLaren", "Ünal", "ünal", "ß", "東京", "a", "10:30"]
TAGS = ["B-PER", "I-PER", "O", "B-LOC"]


def random_columns(seed: int, sentences: int = 12) -> Columns:
    """Sentences of 1 to 7 tokens in three documents, with a word, a tag and a number."""
    rng = random.Random(seed)
    rows = [
        [(rng.choice(WORDS), rng.choice(TAGS), rng.choice(["1.5", "-2", "nan", "x"])) for _ in range(length)]
        for length in (rng.randint(1, 7) for _ in range(sentences))
    ]
    data = Columns.from_sentences(rows, names=("word", "tag", "score"))
    return replace(data, documents=np.arange(sentences, dtype=np.int64) * 3 // sentences)


def named(index: TemplateIndex, matrix: TokenMatrix) -> list[dict[str, float]]:
    """Names and values of the attributes of each token."""
    names, values = index.names(), matrix.values if len(matrix.values) else np.ones(len(matrix.attributes))
    rows = []
    for begin, end in zip(matrix.indptr, matrix.indptr[1:], strict=False):
        ids = matrix.attributes[begin:end]
        assert len(set(ids.tolist())) == len(ids)
        rows.append({names[i]: value for i, value in zip(ids, values[begin:end].tolist(), strict=True)})
    return rows


def same(one: TokenMatrix, other: TokenMatrix) -> bool:
    pairs = ((one.indptr, other.indptr), (one.attributes, other.attributes), (one.values, other.values))
    return one.n_attributes == other.n_attributes and all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lists")
    (path / "places.txt").write_text("New York\nNew  York the\nYork\n\n東京\nunknown words\nI New York NATO\n")
    (path / "brown.tsv").write_text("0110\tthe\t12\n0111\tNew\n10\tYork\n111\tthe\n")
    (path / "vectors.txt").write_text("3 2\nthe 0.5 -1\nNATO 0.25 2\nYork 0 0\n")
    return path


# The definitions, token by token. A value is a function of (data, sentence, token) to a string or None, a
# flag one to an empty string or None.

Slow = Callable[["Naive", int, int], str | None]


class Naive:
    """The data as plain lists."""

    def __init__(self, data: Columns) -> None:
        self.words, self.tags, self.scores = (data.column(name) for name in ("word", "tag", "score"))
        self.documents = data.documents.tolist()

    def others(self, i: int, t: int, whole: bool = False) -> list[tuple[int, int]]:
        """All other tokens of the document, or of the whole text."""
        return [
            (j, u)
            for j, sentence in enumerate(self.words)
            for u in range(len(sentence))
            if (j, u) != (i, t) and (whole or self.documents[i] == self.documents[j])
        ]

    def majority(self, i: int, t: int, key: Callable[[str], str], whole: bool) -> str | None:
        mine = key(self.words[i][t])
        labels = [self.tags[j][u] for j, u in self.others(i, t, whole) if key(self.words[j][u]) == mine]
        return min(labels, key=lambda label: (-labels.count(label), label), default=None)

    def matches(self, entries: list[str], key: Callable[[str], str], i: int) -> list[str | None]:
        words = [key(word) for word in self.words[i]]
        found: list[str | None] = [None] * len(words)
        t = 0
        while t < len(words):
            lists = [[key(word) for word in entry.split()] for entry in entries]
            length = max((len(e) for e in lists if e and words[t : t + len(e)] == e), default=0)
            found[t : t + length] = ["B", *["I"] * (length - 1)][:length]
            t += max(length, 1)
        return found


def on_word(function: Callable[[str], str | None]) -> Slow:
    return lambda naive, i, t: function(naive.words[i][t])


def when(test: Callable[[str], bool]) -> Slow:
    return lambda naive, i, t: "" if test(naive.words[i][t]) else None


def shape(word: str) -> str:
    classes = ((str.isdigit, "d"), (str.isupper, "X"), (str.isalpha, "x"))
    return "".join(next((mark for test, mark in classes if test(c)), c) for c in word)


def squeeze(text: str) -> str:
    return "".join(c for k, c in enumerate(text) if k == 0 or text[k - 1] != c)


def title(word: str) -> bool:
    return word[0].isupper() and any(c.upper() != c for c in word)


def elsewhere(test: Callable[[str, int], bool]) -> Slow:
    def value(naive: Naive, i: int, t: int) -> str | None:
        mine = naive.words[i][t].lower()
        forms = [(naive.words[j][u], u) for j, u in naive.others(i, t)]
        return "" if any(word.lower() == mine and test(word, u) for word, u in forms) else None

    return value


def all_caps(naive: Naive, i: int, t: int) -> str | None:
    text = "".join(naive.words[i])
    return "" if text == text.upper() and text != text.lower() else None


def number_like(word: str) -> bool:
    return re.fullmatch(r"[-+]?[.,]?\d[\d.,:/]*%?", word) is not None


CLUSTERS = {"the": "0110", "New": "0111", "York": "10"}
PLACES = ["New York", "New York the", "York", "東京", "unknown words", "I New York NATO"]

SLOW: dict[str, Slow] = {
    "word": on_word(lambda word: word),
    "lower(word)": on_word(str.lower),
    "prefix(word,3)": on_word(lambda word: word[:3] if len(word) > 2 else None),
    "suffix(word,2)": on_word(lambda word: word[-2:] if len(word) > 1 else None),
    "suffix(lower(word),2)": on_word(lambda word: word.lower()[-2:] if len(word) > 1 else None),
    "shape(word)": on_word(shape),
    "short_shape(word)": on_word(lambda word: squeeze(shape(word))),
    "fold_digits(word)": on_word(lambda word: "".join("0" if c.isdigit() else c for c in word)),
    "length(word)": on_word(lambda word: str(len(word))),
    "type(tag)": lambda naive, i, t: naive.tags[i][t].split("-")[-1],
    'cluster(word,"brown.tsv",3)': on_word(lambda word: CLUSTERS.get(word, "")[:3] or None),
    'cluster(word,"brown.tsv")': on_word(CLUSTERS.get),
    "is_title(word)": when(title),
    "is_upper(word)": when(lambda word: word == word.upper() and word != word.lower()),
    "is_lower(word)": when(lambda word: word == word.lower() and word != word.upper()),
    "is_alpha(word)": when(str.isalpha),
    "is_digit(word)": when(str.isdigit),
    "is_number(word)": when(number_like),
    "is_punct(word)": when(lambda word: not any(c.isalnum() for c in word)),
    "has_upper(word)": when(lambda word: any(c.isupper() for c in word)),
    "has_inner_upper(word)": when(lambda word: any(c.isupper() for c in word[1:])),
    "has_digit(word)": when(lambda word: any(c.isdigit() for c in word)),
    "has_hyphen(word)": when(lambda word: "-" in word),
    "has_period(word)": when(lambda word: "." in word),
    "bias": lambda naive, i, t: "",
    "first": lambda naive, i, t: "" if t == 0 else None,
    "last": lambda naive, i, t: "" if t == len(naive.words[i]) - 1 else None,
    "all_caps(word)": all_caps,
    'list(word,"places.txt")': lambda naive, i, t: naive.matches(PLACES, str, i)[t],
    'list(lower(word),"places.txt")': lambda naive, i, t: naive.matches(PLACES, str.lower, i)[t],
    "doc_title(word)": elsewhere(lambda word, u: u > 0 and title(word)),
    "doc_lower(word)": elsewhere(lambda word, u: word.islower()),
    "doc_label(word,tag)": lambda naive, i, t: naive.majority(i, t, str, whole=False),
    "doc_label(lower(word),tag)": lambda naive, i, t: naive.majority(i, t, str.lower, whole=False),
    "corpus_label(word,tag)": lambda naive, i, t: naive.majority(i, t, str, whole=True),
}


def slow_names(data: Columns, pieces: list[tuple[str, int, bool]]) -> list[set[str]]:
    """Attribute names of each token for one template; a piece is (value, offset, padded)."""
    naive = Naive(data)
    shown = [f"pad({value})" if padded else value for value, _, padded in pieces]
    bare = ("bias", "first", "last")
    label = "|".join(v if v in bare and not o else f"{v}[{o}]" for v, (_, o, _) in zip(shown, pieces, strict=True))
    found: list[set[str]] = []
    for i, words in enumerate(naive.words):
        for t in range(len(words)):
            results: list[str | None] = []
            for value, offset, padded in pieces:
                inside = 0 <= t + offset < len(words)
                edge = ("<s>" if t + offset < 0 else "</s>") if padded else None
                results.append(SLOW[value](naive, i, t + offset) if inside else edge)
            # A flag has no text, unless it is padded: then the padding has one, and so must the flag.
            spoken = [padded or not is_flag(value) for value, _, padded in pieces]
            texts = [r for r, speaks in zip(results, spoken, strict=True) if r is not None and speaks]
            missing = None in results
            found.append(set() if missing else {f"{label}={'|'.join(texts)}" if texts else label})
    return found


def is_flag(value: str) -> bool:
    name = value.split("(")[0]
    return name in FUNCTIONS and FUNCTIONS[name].result == "flag"


@pytest.mark.parametrize("value", SLOW)
def test_values_equal_their_definitions(value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for seed in range(6):
        data = random_columns(seed)
        for offset in (-2, 0, 1):
            index, matrix = Templates.parse(f"{value}[{offset}]").fit_transform(data)
            expected = slow_names(data, [(value, offset, False)])
            assert [set(row) for row in named(index, matrix)] == expected


def test_every_function_is_tested_and_documented() -> None:
    tested = {name for value in SLOW for name in re.findall(r"\w+", value)} | {"pad", "number", "embed"}
    assert set(FUNCTIONS) <= tested
    text = DOCS.read_text()
    assert [name for name in FUNCTIONS if f"`{name}" not in text] == []
    assert [name for name in PRESETS if f"`{name}`" not in text] == []


@pytest.mark.parametrize("seed", range(30))
def test_conjunctions_equal_their_definitions(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    rng = random.Random(seed)
    data, other = random_columns(seed), random_columns(seed + 1000)
    if seed % 3 == 0:  # keys that do not fit are made in steps
        monkeypatch.setattr(_tables, "KEY_LIMIT", 50)
        monkeypatch.setattr(_index, "KEY_LIMIT", 50 * 50)
    if seed % 3 == 1:  # all tables are hash tables
        monkeypatch.setattr(_tables, "DIRECT", 0)
    pieces = [(rng.choice(list(SLOW)), rng.randint(-3, 3), rng.random() < 0.3) for _ in range(rng.randint(1, 5))]
    line = " ".join(f"pad({v})[{o}]" if padded else f"{v}[{o}]" for v, o, padded in pieces)
    index, matrix = Templates.parse(line).fit_transform(data)
    expected = slow_names(data, pieces)
    assert [set(row) for row in named(index, matrix)] == expected
    assert same(matrix, index.transform(data))
    known = set(index.names())
    later = [row & known for row in slow_names(other, pieces)]
    assert [set(row) for row in named(index, index.transform(other))] == later
    header, arrays = index.to_state()
    restored = TemplateIndex.from_state(json.loads(json.dumps(header)), arrays)
    assert restored.names() == index.names()
    assert same(restored.transform(other), index.transform(other))
    counts = Counter(name for row in expected for name in row)
    frequent = Templates.parse(line).fit(data, min_count=2)
    assert set(frequent.names()) == {name for name, count in counts.items() if count >= 2}


def test_real_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    data = random_columns(1)
    templates = Templates.parse('embed(word,"vectors.txt")[-1,0]\nword[0]\nnumber(score)[1]')
    vectors = {"the": (0.5, -1.0), "NATO": (0.25, 2.0), "York": (0.0, 0.0)}
    index, matrix = templates.fit_transform(data, min_count=1)
    rows = iter(named(index, matrix))
    for words, scores in zip(data.column("word"), data.column("score"), strict=True):
        for t, word in enumerate(words):
            expected = {f"word[0]={word}": 1.0}
            for offset in (-1, 0):
                vector = vectors.get(words[t + offset], ()) if t + offset >= 0 else ()
                expected |= {f'embed(word,"vectors.txt")[{offset}]#{d}': v for d, v in enumerate(vector)}
            if t + 1 < len(words) and scores[t + 1] in ("1.5", "-2"):
                expected["number(score)[1]"] = float(scores[t + 1])
            assert next(rows) == expected
    (folder / "vectors.txt").rename(folder / "gone.txt")
    restored = TemplateIndex.from_state(*index.to_state())
    (folder / "gone.txt").rename(folder / "vectors.txt")
    assert same(restored.transform(data), matrix)
    assert restored.text == templates.text


def test_hashing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    text = 'word[-1..1]\nword[-1] pad(tag)[1]\nis_title(word)[0]\nembed(word,"vectors.txt")[0]'
    data, other = random_columns(1), random_columns(2)
    plain = Templates.parse(text).fit_transform(data)[1]
    hashed, matrix = Templates.parse(text).fit_transform(data, hashing=24)
    assert hashed.n_attributes == 1 << 24
    assert np.array_equal(matrix.indptr, plain.indptr) and np.array_equal(matrix.values, plain.values)
    pairs = set(zip(plain.attributes.tolist(), matrix.attributes.tolist(), strict=True))
    assert len(pairs) == len(np.unique(plain.attributes)) == len(np.unique(matrix.attributes))
    # What an attribute hashes to is fixed for all time, and needs no training data.
    assert same(Templates.parse(text).fit(other, hashing=24).transform(data), matrix)
    assert same(TemplateIndex.from_state(*hashed.to_state()).transform(data), matrix)
    words = data.column("word")
    expected = [slow_hash(24, "word[-1]|word[0]", *pair) for row in words for pair in pairwise(row)]
    ids = Templates.parse("word[-1] word[0]").fit(data, hashing=24).transform(data).attributes
    assert ids.tolist() == expected
    few = Templates.parse(text).fit(data, hashing=3)
    assert few.transform(data).attributes.max() < 8
    assert few.names() == [f"#{i}" for i in range(8)]


def slow_hash(bits: int, *texts: str) -> int:
    """The first bits of splitmix64 over the hashes of the texts."""
    whole = (1 << 64) - 1
    hashes = [int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") for text in texts]
    mixed = hashes[0]
    for number in hashes[1:]:
        mixed = ((mixed ^ number) + 0x9E3779B97F4A7C15) & whole
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & whole
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & whole
        mixed ^= mixed >> 31
    return mixed >> (64 - bits)


def test_ids_go_by_template_and_first_appearance() -> None:
    data = Columns.from_sentences({"word": [["b", "a"], ["a", "c"]]})
    index, matrix = Templates.parse("word[0]\nword[1]").fit_transform(data)
    assert index.names() == ["word[0]=b", "word[0]=a", "word[0]=c", "word[1]=a", "word[1]=c"]
    assert matrix.attributes.tolist() == [0, 3, 1, 1, 4, 2]
    assert (matrix.indptr.dtype, matrix.attributes.dtype, matrix.values.size) == (np.int64, np.int32, 0)
    assert repr(matrix) == "TokenMatrix(4 tokens, 5 attributes, 6 entries)"


def test_subsets_and_repeated_strings_of_a_vocabulary() -> None:
    data = random_columns(3)
    part = data.subset([2, 5])
    fresh = Columns.from_sentences({"word": part.column("word")})
    templates = Templates.parse("word[-1..1]")
    assert set(templates.fit(part).names()) == set(templates.fit(fresh).names())
    twice = replace(fresh, vocab=[fresh.vocab[0] * 2], codes=[fresh.codes[0] + len(fresh.vocab[0])])
    twice.codes[0][::2] -= len(fresh.vocab[0])
    assert templates.fit(twice).names() == templates.fit(fresh).names()


def test_no_tokens_and_arrays_that_cannot_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    text = [f"{value}[0]" for value in SLOW] + ['embed(word,"vectors.txt")[0]']
    data = random_columns(4)
    index, matrix = Templates.parse(text).fit_transform(data)
    assert index.transform(data.subset([])).indptr.tolist() == [0]
    assert Templates.parse(text).fit(data.subset([])).names() == [f"{text[-1]}#{d}" for d in range(2)]
    header, arrays = index.to_state()
    held: list[Any] = [*data.codes, data.offsets, data.documents, *arrays.values()]
    for array in held:
        array.setflags(write=False)
    later = index.transform(data)  # not ``matrix``: in training, no token counts for its own corpus_label
    assert same(TemplateIndex.from_state(header, arrays).transform(data), later) and len(matrix) == len(later)


def test_conll2000_with_the_templates_of_crfsuite() -> None:
    data = read_columns(data_file("conll2000/train.txt"), columns=("word", "pos", "chunk"))
    index, matrix = Templates.preset("crfsuite-chunking").fit_transform(data)
    assert (len(matrix), matrix.n_attributes, len(matrix.attributes)) == (211_727, 335_672, 3_790_567)
    assert len(set(index.names())) == 335_672
    assert len(np.unique(matrix.attributes)) == 335_672
    test = read_columns(data_file("conll2000/test.txt"), columns=("word", "pos", "chunk"))
    later = TemplateIndex.from_state(*index.to_state()).transform(test)
    # Once the obvious way, for all test sentences.
    ids = {name: i for i, name in enumerate(index.names())}
    rows = iter(np.split(later.attributes, later.indptr[1:-1]))
    for i in range(len(test)):
        words, tags = test.sentence(i, "word"), test.sentence(i, "pos")
        for t in range(len(words)):
            expected = []
            for column, values, windows in (("word", words, WORD_WINDOWS), ("pos", tags, POS_WINDOWS)):
                for window in windows:
                    places = [t + offset for offset in window]
                    if places[0] >= 0 and places[-1] < len(words):
                        label = "|".join(f"{column}[{offset}]" for offset in window)
                        expected.append(ids.get(f"{label}={'|'.join(values[u] for u in places)}"))
            assert [i for i in expected if i is not None] == next(rows).tolist()


SINGLES = [(o,) for o in range(-2, 3)]
WORD_WINDOWS = [*SINGLES, (-1, 0), (0, 1)]
POS_WINDOWS = [*SINGLES, *((o, o + 1) for o in range(-2, 2)), *((o, o + 1, o + 2) for o in range(-2, 1))]


def test_every_script_has_its_letters_and_digits() -> None:
    """Greek, Hindi, Arabic and decomposed accents are read as Latin is, not as if only ASCII had letters."""

    def value(name: str, word: str) -> Any:
        function = FUNCTIONS[name].apply
        assert function is not None
        return function([word])[0]

    shapes = {
        "Αθήνα": "Xxxxx", "ΑΘΉΝΑ": "XXXXX", "Österåsen": "Xxxxxxxxx", "O\u0308sterby": "Xxxxxxx", "२०२६": "dddd",
        "हिन्दी": "xxx", "दिल्ली-६": "xxx-d", "مدرسة": "xxxxx", "北京": "xx", "H₂O": "XdX",
    }  # fmt: skip
    assert {word: value("shape", word) for word in shapes} == shapes
    assert value("short_shape", "हिन्दी") == "x" and value("short_shape", "\u0308") == "\u0308"  # a mark alone is itself
    assert all(value("is_alpha", word) for word in ("Αθήνα", "हिन्दी", "مدرسة", "O\u0308sterby"))
    assert not any(value("is_alpha", word) for word in ("दिल्ली-६", "\u0308", "H₂O", ""))
    assert (value("fold_digits", "२०२६"), value("fold_digits", "H₂O"), value("lower", "ΟΔΟΣ")) == (
        "0000",
        "H0O",
        "οδος",
    )
    assert all(value("has_digit", word) for word in ("२.५", "H₂O", "١٢"))
    assert all(value("is_number", word) for word in ("१२.५", "−3", "١٬٢٣٤٫٥", "٥٪"))
    assert all(value("has_hyphen", word) for word in ("co-op", "co\u2010op", "co\u2011op"))
    ending = FUNCTIONS["suffix"].apply
    assert ending is not None and ending(["हिन्दी"], 2) == ["दी"]
