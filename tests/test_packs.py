"""Packs: the vocabulary, layout and rows of one pass, whatever the shards; models trained from them; damaged ones."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import resource
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partwise
from partwise.data import Columns, load_sample, read_columns, write_columns
from partwise.data.packs import PACK_FORMAT, Pack
from partwise.data.spans import Reading, plan_spans, read_shards
from partwise.exceptions import CapabilityError, FormatError, InputError, ParameterError, StorageError
from partwise.sequences._pack_passes import merge_in_order
from partwise.sequences.encoders import make_encoder
from partwise.sequences.labels import encode_labels, find_classes
from partwise.sequences.weights import restore_chain
from partwise.storage import load, save

LINES = ["word[-1..1]", "suffix(word,1..2)[0]", "word[-1] pos[0]"]
ROWS = ("attributes", "values", "weights", "outputs", "pair_values")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packs") / "train.txt"
    write_columns(path, load_sample(split="train").without("ner").subset(range(120)))
    return path


def in_one_pass(data: Columns, templates: object, min_count: int, every: bool = False):  # type: ignore[no-untyped-def]
    seen, labels = data.without("chunk"), data.coded("chunk")
    encoder = make_encoder(seen, templates, None, min_count, None)
    rows, classes = encoder.fit_transform(seen), find_classes(labels)
    gold = encode_labels(labels, classes, rows.offsets)
    layout = rows.layout(gold.codes, len(classes), every)
    return encoder, layout, classes, rows.pack(layout), gold.codes


def same_as_one_pass(pack: Pack, data: Columns, templates: object, min_count: int, every: bool = False) -> None:
    encoder, layout, classes = restore_chain(pack.header, pack.arrays)
    theirs = in_one_pass(data, templates, min_count, every)
    assert classes == theirs[2] and encoder.names() == theirs[0].names()
    for name in ("rank", "mask", "pair_start", "pair_output"):
        np.testing.assert_array_equal(getattr(layout, name), getattr(theirs[1], name))
    shards = list(pack)
    for name in ROWS:
        found = np.concatenate([shard[name] for shard in shards])
        np.testing.assert_array_equal(found, getattr(theirs[3], name))
        assert found.dtype == getattr(theirs[3], name).dtype
    for name in ("offsets", "indptr", "pair_indptr"):
        found = np.concatenate([np.diff(shard[name]) for shard in shards])
        np.testing.assert_array_equal(found, np.diff(getattr(theirs[3], name)))
    np.testing.assert_array_equal(np.concatenate([shard["labels"] for shard in shards]), theirs[4])


@pytest.mark.parametrize(
    ("tokens", "min_count", "features"), [(100, 1, "observed"), (333, 3, "observed"), (150, 2, "all")]
)
def test_shards_are_those_of_one_pass(text: Path, tmp_path: Path, tokens: int, min_count: int, features: str) -> None:
    pack = partwise.pack(
        text, tmp_path / "a.pack", templates=LINES, min_count=min_count, shard_tokens=tokens, features=features
    )
    assert len(pack.shards) > 3
    data = read_columns(text, columns=("word", "pos", "chunk"))
    assert (len(pack), pack.tokens) == (len(data), data.tokens)
    same_as_one_pass(pack, data, LINES, min_count, features == "all")
    pack.verify()
    assert not list(tmp_path.glob(".*")), "something temporary is left"


def test_documents_stay_whole(tmp_path: Path) -> None:
    data = load_sample(split="train").without("ner")
    assert data.docstart is not None and len(set(data.documents.tolist())) > 3
    path = tmp_path / "train.txt"
    write_columns(path, data)
    lines = ["word[0]", "doc_lower(word)[0]", "doc_label(word,pos)[0]"]
    pack = partwise.pack(path, tmp_path / "a.pack", templates=lines, shard_tokens=400)
    assert len(pack.shards) > 2
    same_as_one_pass(pack, read_columns(path, columns=("word", "pos", "chunk")), lines, 1)


@pytest.mark.parametrize("whole", ["sentence", "document"])
def test_byte_ranges_cut_nothing(tmp_path: Path, whole: str) -> None:
    path = tmp_path / "t.txt"
    lines = []
    for k in range(40):
        lines.append(["-DOCSTART- -X-\n\n"] * (k % 5 == 0) + [f"w{k}é a\n", "x b\n" * (k % 3), "  \n", "\n" * (k % 2)])
    path.write_text("".join(map("".join, lines)), "utf-8")
    expected = read_columns(path)
    reading = Reading(whole=whole)
    for size in range(1, path.stat().st_size + 10, 7):
        tasks = plan_spans([str(path)], reading, size)
        parts = [part for task in tasks for part in read_shards(task, reading, None)]
        joined = Columns.joined(parts)
        assert joined.column(0) == expected.column(0) and joined.column(1) == expected.column(1)
        if whole == "document":
            lengths = [len(set(part.documents.tolist())) for part in parts]
            assert sum(lengths) == len(set(expected.documents.tolist()))


def test_sources(text: Path, tmp_path: Path) -> None:
    plain = partwise.pack(text, tmp_path / "plain.pack", templates=LINES, shard_tokens=10**6)
    content = text.read_bytes()
    for end, opened in (("gz", gzip.open), ("bz2", bz2.open), ("xz", lzma.open)):
        with opened(tmp_path / f"t.txt.{end}", "wb") as file:
            file.write(content)
    half = content.index(b"\n\n", len(content) // 2) + 2
    (tmp_path / "part-1.txt").write_bytes(content[:half])
    (tmp_path / "part-2.txt").write_bytes(content[half:])
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://partwise/t.txt", "wb") as file:
        file.write(content)
    sources = [*(tmp_path / f"t.txt.{end}" for end in ("gz", "bz2", "xz")), str(tmp_path / "part-*.txt")]
    for source in [*sources, "memory://partwise/t.txt", "memory://partwise/t*.txt"]:
        pack = partwise.pack(source, tmp_path / "a.pack", templates=LINES, shard_tokens=300)
        assert pack.tokens == plain.tokens
        for name in ROWS:
            ours, theirs = (np.concatenate([shard[name] for shard in p]) for p in (pack, plain))
            np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(FormatError, match="no file matches"):
        partwise.pack(tmp_path / "none-*.txt", tmp_path / "b.pack", templates=LINES)


def test_processes_make_the_same_pack(text: Path, tmp_path: Path) -> None:
    made = [
        partwise.pack(text, tmp_path / f"{n}.pack", templates=LINES, shard_tokens=400, workers=n, min_count=2)
        for n in (1, 2)
    ]
    for first, second in zip(*made, strict=True):
        for name in first:
            np.testing.assert_array_equal(first[name], second[name])


def test_streams_of_strings(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"a{j}" for j in range(30)]
    X = [[list(rng.choice(names, 3)) for _ in range(rng.integers(1, 6))] for _ in range(40)]
    y = [[rng.choice(["N", "V", "X"]) for _ in x] for x in X]
    model = partwise.SequenceLabeler(max_passes=8, min_count=3)
    whole = model.fit(X, y)
    theta, attributes = whole.theta_.copy(), whole.attribute_names()
    for stream in ((iter(X), iter(y)), (zip(X, y, strict=True), None)):
        again = partwise.SequenceLabeler(max_passes=8, min_count=3).fit(*stream)
        assert again.attribute_names() == attributes
        np.testing.assert_array_equal(again.theta_, theta)  # a single shard is the problem itself
        assert again.predict(X) == whole.predict(X)
    pack = partwise.pack(X, tmp_path / "s.pack", y, min_count=3, shard_tokens=20)
    assert len(pack.shards) > 3
    sharded = partwise.SequenceLabeler(max_passes=8).fit(pack)
    assert sharded.attribute_names() == attributes
    np.testing.assert_allclose(sharded.theta_, theta, rtol=0, atol=1e-8)
    with pytest.raises(InputError, match="sequence 1 has 1 positions in X but 2 in y"):
        model.fit(iter([[["a"]], [["a"]]]), [["N"], ["N", "N"]])
    with pytest.raises(InputError, match="pair"):
        model.fit(iter([[["a"]]]))
    with pytest.raises(InputError, match="packs hold attributes of strings"):
        partwise.pack([np.ones((2, 3))], tmp_path / "d.pack", [["N", "V"]])


def test_training_from_a_pack(text: Path, tmp_path: Path) -> None:
    pack = partwise.pack(text, tmp_path / "a.pack", templates=LINES, shard_tokens=300)
    data = read_columns(text, columns=("word", "pos", "chunk"))
    seen, labels = data.without("chunk"), data.coded("chunk")
    whole = partwise.SequenceLabeler(LINES, max_passes=10).fit(seen, labels)
    model = partwise.SequenceLabeler(max_passes=10).fit(pack)
    np.testing.assert_allclose(model.theta_, whole.theta_, rtol=0, atol=1e-8)
    assert model.predict(seen) == whole.predict(seen)
    model.save(tmp_path / "m.pw")
    assert partwise.load_model(tmp_path / "m.pw").predict(seen) == model.predict(seen)
    by_path = partwise.SequenceLabeler(max_passes=10, n_jobs=2).fit(
        str(tmp_path / "a.pack"), checkpoint=tmp_path / "c.pw"
    )
    np.testing.assert_array_equal(by_path.theta_, model.theta_)
    # a checkpoint of this pack, and of no other
    half = partwise.SequenceLabeler(max_passes=5).fit(pack, checkpoint=tmp_path / "half.pw")
    assert len(half.result_.trace) == 5
    with pytest.raises(InputError, match="another run"):
        partwise.SequenceLabeler(max_passes=5, C=2.0).fit(pack, checkpoint=tmp_path / "half.pw")
    with pytest.raises(ParameterError, match="templates"):
        partwise.SequenceLabeler("ner").fit(pack)
    with pytest.raises(ParameterError, match="min_count"):
        partwise.SequenceLabeler(min_count=4).fit(pack)
    with pytest.raises(InputError, match="contains its labels"):
        partwise.SequenceLabeler().fit(pack, labels)


def test_damage_is_told(text: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.pack"
    partwise.pack(text, path, templates=LINES, shard_tokens=500)
    fit = partwise.SequenceLabeler(max_passes=1).fit

    def copied(name: str) -> Path:
        return Path(shutil.copytree(path, tmp_path / name))

    cut = copied("cut.pack") / "shard-00001.pw"
    cut.write_bytes(cut.read_bytes()[:-100])
    with pytest.raises(StorageError, match=r"shard-00001\.pw: truncated"):
        fit(cut.parent)
    gone = copied("gone.pack") / "shard-00000.pw"
    gone.unlink()
    with pytest.raises(StorageError, match="shard-00000"):
        fit(gone.parent)
    swapped = copied("swapped.pack")
    shutil.copy(swapped / "shard-00000.pw", swapped / "shard-00001.pw")
    with pytest.raises(StorageError, match="not shard 1 of this pack"):
        fit(swapped)
    flipped = copied("flipped.pack") / "shard-00000.pw"
    data = bytearray(flipped.read_bytes())
    data[-1] ^= 1
    flipped.write_bytes(bytes(data))
    with pytest.raises(StorageError, match="checksum"):
        Pack(flipped.parent).verify()
    old = copied("old.pack") / "pack.pw"
    stored = load(old)
    for other in (1, 99):
        save(old, "pack", {**stored.header, "format": other}, stored.arrays)
        with pytest.raises(StorageError, match=rf"in format {other}; this version reads.*pack the data again"):
            fit(old.parent)
    with pytest.raises(StorageError, match="no such folder"):
        fit(tmp_path / "nothing.pack")


def test_what_is_in_a_pack_belongs_to_its_format(text: Path, tmp_path: Path) -> None:
    """Other names or types of arrays take another PACK_FORMAT: packs that are there cannot be read any more."""
    pack = partwise.pack(text, tmp_path / "a.pack", templates=LINES)
    assert PACK_FORMAT == 2
    types = {name: array.dtype.name for name, array in pack.arrays.items()}
    assert types == {
        "encoder/key_counts": "int64", "encoder/keys": "int64", "encoder/vocab_bytes": "uint8",
        "encoder/vocab_counts": "int64", "encoder/vocab_offsets": "int64", "layout/mask": "uint8",
        "layout/pair_count": "uint8", "layout/pair_output": "uint8", "layout/rank": "int32",
    }  # fmt: skip
    assert sorted(pack.shard(0)) == [
        "attributes", "indptr", "labels", "offsets", "outputs", "pair_indptr", "pair_values", "values", "weights",
    ]  # fmt: skip


def test_bad_lines_and_full_disks(text: Path, tmp_path: Path) -> None:
    lines = text.read_text("utf-8").split("\n")
    place = next(k for k in range(900, len(lines)) if lines[k].strip())
    lines[place] += " more"
    bad = tmp_path / "bad.txt"
    bad.write_text("\n".join(lines), "utf-8")
    with pytest.raises(FormatError, match=rf"bad\.txt:{place + 1}: expected 3 columns"):
        partwise.pack(bad, tmp_path / "a.pack", templates=LINES, shard_tokens=200)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
        with pytest.raises(StorageError, match="cannot be written"):
            partwise.pack(text, tmp_path / "a.pack", templates=LINES)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(os.listdir(tmp_path)) == ["bad.txt"]
    with pytest.raises(StorageError, match="something that is not a pack"):
        partwise.pack(text, tmp_path, templates=LINES)


def test_merging_in_order() -> None:
    for n in range(12):
        assert merge_in_order(map(str, range(n)), "".join) == ("".join(map(str, range(n))) or None)


def test_learners_of_single_instances_are_refused(text: Path, tmp_path: Path) -> None:
    pack = partwise.pack(text, tmp_path / "a.pack", templates=LINES)
    with pytest.raises(CapabilityError, match="NSlack visits single instances and cannot train on shards"):
        partwise.SequenceLabeler(learner="n_slack", loss="svm").fit(pack)


def test_encoding(text: Path, tmp_path: Path) -> None:
    content = text.read_text("utf-8").encode("latin-1", "ignore").replace(b"the ", b"th\xe9 ")
    (tmp_path / "t.txt").write_bytes(content)
    pack = partwise.pack(tmp_path / "t.txt", tmp_path / "a.pack", templates=LINES, encoding="latin-1", shard_tokens=300)
    assert any("thé" in name for name in partwise.SequenceLabeler(max_passes=1).fit(pack).attribute_names())


def test_tags_are_repaired_once(tmp_path: Path) -> None:
    lines = ["a I-X", "b I-X", "", "c O", "d I-Y", "", "e B-X", "f I-X", "", "g B-Y", "h O", ""] * 8
    (tmp_path / "t.txt").write_text("\n".join([*lines, *["g B-Y", "h I-Y", ""] * 60]))
    settings: dict[str, Any] = {"templates": ["word[0]"], "columns": ("word", "ner"), "shard_tokens": 60}
    with pytest.warns(
        UserWarning, match=r"16 of 184 labels are ill-formed in IOB2 and were repaired, such as I-X → B-X"
    ):
        made = partwise.pack(tmp_path / "t.txt", tmp_path / "a.pack", scheme="iob2", **settings)
    assert len(made.shards) > 2
    data = read_columns(tmp_path / "t.txt", columns=("word", "ner"))
    with pytest.warns(UserWarning, match="16 of 184 labels"):
        held = partwise.SequenceLabeler(["word[0]"], scheme="IOB2", max_passes=5).fit(
            data.without("ner"), data.coded("ner")
        )
    found = partwise.SequenceLabeler(scheme="IOB2", max_passes=5).fit(made)
    np.testing.assert_allclose(found.theta_, held.theta_, rtol=0, atol=1e-9)
    with pytest.raises(InputError, match=r"t\.txt, shard .*label I-X at position 0 of sequence 0: it should be B-X"):
        partwise.pack(tmp_path / "t.txt", tmp_path / "b.pack", scheme="IOB2", repair=False, **settings)
    raw = partwise.pack(tmp_path / "t.txt", tmp_path / "c.pack", **settings)
    with pytest.raises(InputError, match="pack the data with scheme='IOB2' to have its tags repaired"):
        partwise.SequenceLabeler(scheme="IOB2", max_passes=1).fit(raw)


def test_weights_of_sentences(text: Path, tmp_path: Path) -> None:
    made = partwise.pack(text, tmp_path / "a.pack", templates=LINES, shard_tokens=400)
    assert len(made.shards) > 2
    weights = np.random.default_rng(0).integers(0, 3, size=len(made)).astype(float)
    weights[: made.shards[0]["instances"]] = 0.0  # a whole shard that does not count
    data = read_columns(text, columns=("word", "pos", "chunk"))
    held = partwise.SequenceLabeler(LINES, max_passes=8)
    held.fit(data.without("chunk"), data.coded("chunk"), sample_weight=weights)
    found = partwise.SequenceLabeler(max_passes=8).fit(made, sample_weight=weights)
    np.testing.assert_allclose(found.theta_, held.theta_, rtol=0, atol=1e-8)
    with pytest.raises(InputError, match="expected one number per instance"):
        partwise.SequenceLabeler(max_passes=1).fit(made, sample_weight=weights[:-1])
    with pytest.raises(CapabilityError, match="ShardedEG cannot weight instances"):
        partwise.SequenceLabeler(learner="eg", max_passes=1).fit(made, sample_weight=weights)
