"""Mutated model files and column files: an error of ours or success, never a crash or a foreign exception.

``PARTWISE_FUZZ=100000 pytest tests/test_fuzz.py`` runs the long version.
"""

from __future__ import annotations

import copy
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.data import iter_blocks, load_sample, read_columns
from partwise.estimators import SequenceLabeler, load_model
from partwise.exceptions import PartwiseError
from partwise.storage import load, save

COUNT = int(os.environ.get("PARTWISE_FUZZ", "400"))
WORDS = [["The", "harbour", "of", "Porto", "opened"], ["Rain", "<s>", "x"]]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The bytes with a few bits flipped, a piece cut out, repeated, or put elsewhere."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        if not out:
            break
        place = rng.randrange(len(out))
        kind = rng.randrange(5)
        if kind == 0:
            out[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[place : place + rng.randint(1, 40)]
        elif kind == 2:
            piece = out[place : place + rng.randint(1, 40)]
            out[place:place] = piece
        elif kind == 3:
            out[place:place] = bytes(rng.choices(b'\n\t \x00\xff\xc3#{}[]"0-', k=rng.randint(1, 8)))
        else:
            del out[place:]
    return bytes(out)


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fuzz") / "model.pw"
    data = load_sample("news").subset(range(12))
    templates = ["word[-1..1]", "suffix(word,1..2)[0]", "shape(word)[0]"]
    model = SequenceLabeler(templates, max_passes=2).fit(data.column("word"), data.column("ner"))
    model.save(path)
    return path


def outcome(path: Path) -> bool:
    """Whether the file loads; a model that loads must also predict or refuse in our words."""
    try:
        model = load_model(path)
        model.predict(WORDS)
        model.predict_marginals(WORDS)
    except PartwiseError:
        return False
    return True


def test_mutated_model_files(model_file: Path, tmp_path: Path) -> None:
    rng, data, target = random.Random(1), model_file.read_bytes(), tmp_path / "mutated.pw"
    loaded = 0
    for _ in range(COUNT):
        target.write_bytes(mutated(data, rng))
        loaded += outcome(target)
    assert outcome(model_file)
    assert loaded < 0.05 * COUNT  # the checksums see nearly everything


def scrambled(value: Any, rng: random.Random) -> Any:
    """One leaf of a JSON tree replaced by something else."""
    odd: list[Any] = [None, -1, 0, 3, 2**40, 1.5, float("nan"), "", "O", "word[0]", [], {}, True, [1], "\x00"]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: scrambled(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        place = rng.randrange(len(value))
        return [*value[:place], scrambled(value[place], rng), *value[place + 1 :]]
    return rng.choice(odd)


def test_sound_files_with_wrong_contents(model_file: Path, tmp_path: Path) -> None:
    """The checksums are right, what they protect is not: the deep checks must hold."""
    rng, stored, target = random.Random(2), load(model_file), tmp_path / "wrong.pw"
    for _ in range(COUNT):
        header, arrays = copy.deepcopy(stored.header), dict(stored.arrays)
        if rng.random() < 0.5:
            header = scrambled(header, rng)
            if not isinstance(header, dict):
                continue
        else:
            name = rng.choice(list(arrays))
            array = arrays[name].copy()
            kind = rng.randrange(4)
            if kind == 0 and array.size:
                flat = array.reshape(-1)
                high = 2 if array.dtype == bool else 2**7
                flat[rng.randrange(array.size)] = rng.choice([0, 1, high - 1, -1 if array.dtype.kind in "if" else 0])
            elif kind == 1:
                array = array[: rng.randrange(array.shape[0] + 1)] if array.ndim else array
            elif kind == 2:
                array = array.astype(rng.choice([np.int64, np.float64, np.int32, np.uint8]))
            else:
                del arrays[name]
                array = None
            if array is not None:
                arrays[name] = array
        try:
            save(target, stored.kind, header, arrays)
        except PartwiseError:
            continue
        outcome(target)


def test_mutated_column_files(tmp_path: Path) -> None:
    rng, target = random.Random(3), tmp_path / "columns.txt"
    lines = b"-DOCSTART- -X- O O\n\nThe DT B-NP O\nharbour NN I-NP O\n\nPorto NNP B-NP B-LOC\n# x y z\n\n"
    for _ in range(COUNT):
        target.write_bytes(mutated(lines * rng.randint(1, 3), rng))
        options: dict[str, Any] = rng.choice([{}, {"comment": "#"}, {"separator": " "}, {"columns": tuple("abcd")}])
        try:
            whole = read_columns(target, **options)
            blocks = list(iter_blocks(target, **options))
            assert sum(map(len, blocks)) == len(whole)
        except PartwiseError:
            continue
