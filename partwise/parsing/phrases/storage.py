"""What a model file holds of a treebank: symbols, rules with their counts, and the lexicon."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.exceptions import StorageError
from partwise.parsing.phrases.coarse import CoarsePass
from partwise.parsing.phrases.lexicon import Lexicon
from partwise.parsing.phrases.model import PhraseModel
from partwise.parsing.phrases.treebank import TreebankGrammar
from partwise.storage import pack_strings, unpack_strings

__all__ = ["model_from_state", "model_to_state"]

Arrays = dict[str, NDArray[Any]]


def model_to_state(model: PhraseModel) -> tuple[dict[str, Any], Arrays]:
    """(header, arrays) of a model."""
    header: dict[str, Any] = {"tags": model.tags, "labels": model.labels}
    arrays: Arrays = {}
    for name, grammar in (("coarse", model.coarse.grammar), ("fine", model.fine)):
        header[f"{name}_symbols"], found = grammar.to_arrays()
        arrays |= {f"{name}_{key}": value for key, value in found.items()}
    lexicon = model.coarse.lexicon
    words = sorted(lexicon.words)
    pairs = [(k, tag, n) for k, word in enumerate(words) for tag, n in sorted(lexicon.words[word].items())]
    arrays["word_bytes"], arrays["word_offsets"] = pack_strings(words)
    arrays["word_tags"] = np.array(pairs, np.int32).reshape(-1, 3)
    arrays["word_known"] = np.array([word in model.known for word in words], np.uint8)
    classes = sorted(lexicon.classes)
    arrays["class_bytes"], arrays["class_offsets"] = pack_strings(classes)
    arrays["class_counts"] = np.array([lexicon.classes[name] for name in classes]).reshape(len(classes), -1)
    arrays["tag_counts"] = lexicon.tag_counts
    return header, arrays


def model_from_state(
    header: dict[str, Any], arrays: Arrays, vertical: int, horizontal: int, threshold: float
) -> PhraseModel:
    """The model of a stored state."""
    model = PhraseModel(vertical, horizontal, threshold)
    model.tags, model.labels = list(header["tags"]), list(header["labels"])
    grammars = []
    for name in ("coarse", "fine"):
        own = {key.removeprefix(f"{name}_"): value for key, value in arrays.items() if key.startswith(f"{name}_")}
        symbols = header[f"{name}_symbols"]
        if len(own["built"]) != len(symbols) or (own["binary"].size and own["binary"].max() >= len(symbols)):
            raise StorageError("the rules are not those of the symbols in the file")
        grammars.append(TreebankGrammar.from_arrays(symbols, model.labels, own))
    lexicon = Lexicon(len(model.tags))
    words = unpack_strings(arrays["word_bytes"], arrays["word_offsets"])
    lexicon.words = {word: {} for word in words}
    for k, tag, n in arrays["word_tags"].tolist():
        lexicon.words[words[k]][tag] = n
    classes = unpack_strings(arrays["class_bytes"], arrays["class_offsets"])
    lexicon.classes = {name: np.asarray(row, float) for name, row in zip(classes, arrays["class_counts"], strict=True)}
    lexicon.tag_counts = np.asarray(arrays["tag_counts"], float)
    model.known = {word for word, known in zip(words, arrays["word_known"].tolist(), strict=True) if known}
    model.coarse = CoarsePass(grammars[0], lexicon)
    model._take(grammars[1])
    return model
