"""Bracketed trees, binary forms, brackets by EVALB's rules, lexicon, coarse pass."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from helpers import data_file
from hypothesis import given
from hypothesis import strategies as st

from partwise.exceptions import InputError
from partwise.parsing import (
    PhraseTree,
    TreebankParser,
    bracket_scores,
    clean_tree,
    load_sample_phrases,
    parse_trees,
    read_trees,
    write_trees,
)
from partwise.parsing.phrases._pcfg_kernels import posteriors
from partwise.parsing.phrases.binary import binary_rows, collapse_chains, tree_of_rows
from partwise.parsing.phrases.lexicon import Lexicon
from partwise.parsing.phrases.model import PhraseModel
from partwise.parsing.phrases.pcfg import log_probabilities
from partwise.structures._grammar_space import span_number

WORDS = st.builds(lambda tag, word: PhraseTree(tag, (), word), st.sampled_from(["N", "V", "D"]), st.sampled_from("abc"))
TREES = st.recursive(
    WORDS,
    lambda child: st.builds(
        lambda label, children: PhraseTree(label, tuple(children)),
        st.sampled_from(["S", "NP", "VP"]),
        st.lists(child, min_size=1, max_size=4),
    ),
    max_leaves=8,
).filter(lambda tree: tree.word is None)


def tree(text: str) -> PhraseTree:
    return next(parse_trees([text]))


@given(TREES, st.integers(1, 2), st.integers(0, 3))
def test_binary_forms_have_an_exact_inverse(made: PhraseTree, vertical: int, horizontal: int) -> None:
    rows = binary_rows(made, vertical, horizontal)
    assert tree_of_rows(rows, made.words) == made
    assert tree(str(made)) == made


@given(TREES)
def test_collapsed_chains_repeat_no_label(made: PhraseTree) -> None:
    collapsed = collapse_chains(made)
    assert collapsed.words == made.words
    assert len(set(collapsed.constituents())) == len(collapsed.constituents())
    assert set(collapsed.constituents()) <= set(made.constituents())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (NP (NN a))\n", r"x\.mrg:1: the tree that begins here is not complete; 1 bracket is open"),
        ("(S (NN a))\n)", r"x\.mrg:2: '\)' without a '\(' before it"),
        ("(S (NN a))\n\nword", r"x\.mrg:3: 'word' outside of brackets"),
        ("()", r"x\.mrg:1: empty brackets"),
        ("(S\n (NP ))", r"x\.mrg:2: 'NP' has neither children nor a word"),
        ("(NN a b)", r"x\.mrg:1: the word 'b' next to others under 'NN'"),
        ("(S (NN a) b)", r"x\.mrg:1: the word 'b' next to others under 'S'"),
        ("(S a (NN b))", r"x\.mrg:1: a bracket after the word 'a'"),
        ("\n((S (-NONE- *)))", r"x\.mrg:2: empty tree: it contains only traces"),
    ],
)
def test_faults_are_named_by_file_and_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        [clean_tree(t) for t in parse_trees(text.splitlines(), "x.mrg")]


def test_files_and_streams(tmp_path) -> None:
    trees = load_sample_phrases()
    write_trees(trees, tmp_path / "a.mrg")
    assert read_trees(tmp_path / "a.mrg") == trees
    stream = io.StringIO()
    write_trees([PhraseTree("X", (PhraseTree("-LRB-", (), "("),))], stream)
    assert stream.getvalue() == "(X (-LRB- -LRB-))\n"
    with pytest.raises(InputError, match="cannot be read"):
        read_trees(tmp_path / "none.mrg")
    (tmp_path / "latin.mrg").write_bytes("(NN \xe9)".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        read_trees(tmp_path / "latin.mrg")


def test_depth_is_no_limit() -> None:
    deep = "(S (NP (PRP he)) (VP (VBD said) (SBAR (IN that) " * 700 + "(S (VP (VB go)))" + ")))" * 700
    made = clean_tree(tree(deep))
    assert str(made) == deep.replace(" (S (VP (VB go)))", " (S (VP (VB go)))")
    rows = binary_rows(collapse_chains(made), 2, 1)
    assert str(tree_of_rows(rows, made.words)) == str(made)
    assert len(made.constituents()) == 4 * 700 + 2


def test_cleaning_follows_the_penn_treebank() -> None:
    raw = (
        "( (S (NP-SBJ-1 (NNP A)) (VP (VBD was) (VP (VBN b) (NP (-NONE- *-1)) (PP-LOC=2 (IN in) (NP (NN c))))) (. .)) )"
    )
    assert str(clean_tree(tree(raw))) == ("(S (NP (NNP A)) (VP (VBD was) (VP (VBN b) (PP (IN in) (NP (NN c))))) (. .))")
    assert str(clean_tree(tree("(-LRB- -LRB-)"))) == "(-LRB- -LRB-)"
    assert clean_tree(tree("((NP (NN a)) (. .))")).label == "TOP"


def test_the_penn_sample_survives_the_way_to_binary_forms_and_back() -> None:
    with data_file("ptb_sample/wsj_combined.mrg").open(encoding="utf-8") as file:
        trees = [clean_tree(made) for made in itertools.islice(parse_trees(file), 400)]
    assert sum(map(len, trees)) > 8000
    for made in map(collapse_chains, trees):
        assert tree_of_rows(binary_rows(made, 2, 1), made.words) == made
    assert bracket_scores(trees, trees).f1 == 100.0
    assert bracket_scores(trees, [collapse_chains(made) for made in trees]).f1 > 99.0


def test_brackets_follow_evalb() -> None:
    gold = tree("(S (NP (NP (DT a) (NN b)) (, ,) (NP (NN c)) (, ,)) (VP (VBD d) (PRT (RP e))) (. .))")
    # punctuation attached elsewhere, ADVP for PRT: all equal
    same = tree("(S (NP (NP (DT a) (NN b) (, ,)) (NP (NN c))) (, ,) (VP (VBD d) (ADVP (RP e)) (. .)))")
    assert bracket_scores([gold], [same]).f1 == 100.0
    other = tree("(TOP (S (NP (DT a) (NN b) (, ,) (NN c)) (, ,) (VP (VBD d) (PP (IN e))) (. .)))")
    scores = bracket_scores([gold], [other])
    assert (scores.matched, scores.gold, scores.predicted) == (3, 6, 4)
    assert scores.f1 == pytest.approx(60.0)
    assert (scores.tags_right, scores.words) == (4, 5)
    # a bracket counts as often as both trees have it
    double = tree("(S (NP (NP (NN a))))")
    assert bracket_scores([double], [tree("(S (NP (NN a)))")]).matched == 2
    # a phrase of nothing but punctuation is no bracket
    assert bracket_scores([tree("(S (NN a) (X (. .)))")], [tree("(S (NN a) (. .))")]).f1 == 100.0
    with pytest.raises(InputError, match="different words"):
        bracket_scores([gold], [double])


def test_unknown_words_take_the_tags_of_words_like_them() -> None:
    pairs = [(["walking", "talking", "cats", "dogs", "1990"], [0, 0, 1, 1, 2])] * 2
    lexicon = Lexicon(3).fit(pairs)
    best = [int(np.argmax(lexicon.probabilities(word, False))) for word in ("parking", "rats", "1789")]
    assert best == [0, 1, 2]
    for word in ("parking", "cats", "", "§"):
        assert lexicon.probabilities(word, False).sum() == pytest.approx(1.0)


def test_the_coarse_pass_agrees_with_inside_outside_on_forests() -> None:
    """Two algorithms for one quantity: posteriors of (span, symbol) by the scaled chart and by the log domain."""
    trees = load_sample_phrases("train")
    model = PhraseModel(1, 0, 1e-300).fit(trees)
    sentences = [tree.words for tree in load_sample_phrases("test")] + [trees[6].words, trees[24].words]
    forests = model.forests(sentences)
    assert forests.parsed == list(range(len(sentences)))
    scores, offset = log_probabilities(model, forests.space, sentences), 0
    compared = 0
    for i, words in enumerate(sentences):
        space, size = forests.space, forests.space.n_parts(i)
        log_partition, parts = space.marginals(i, scores[offset : offset + size])
        offset += size
        pack, n_atoms = space.pack, space.n_atoms(i)
        masses: list[dict[tuple[int, int], float]] = [{}, {}]  # of what is built, of what chains hold above it
        for v in range(pack.nodes[i], pack.nodes[i + 1]):
            symbol = pack.symbols[pack.state[v]]
            edges = slice(pack.first[v] - pack.edges[i] + n_atoms, pack.first[v + 1] - pack.edges[i] + n_atoms)
            if symbol >= 0 and pack.state[v] < len(pack.symbols) - 1 - space.n_symbols:
                key = (int(span_number.py_func(int(pack.start[v]), int(pack.stop[v]))), int(symbol))
                mass = masses[int(pack.state[v] >= space.n_symbols)]
                mass[key] = mass.get(key, 0.0) + float(parts[edges].sum())
        threshold = 1e-3
        allowed, coarse = model.coarse.prune(words, threshold).allowed, model.coarse
        tagged, best = coarse.tag_weights(words), np.zeros(len(words), np.int64)
        value = posteriors(coarse.pack, len(words), *tagged, threshold, allowed.copy(), best)
        assert value == pytest.approx(log_partition, abs=1e-6)
        for key in masses[0].keys() | masses[1].keys():
            p = max(mass.get(key, 0.0) for mass in masses)
            if not 0.9 * threshold < p < 1.1 * threshold:
                assert bool(allowed[key]) == (p >= threshold)
                compared += 1
    assert compared > 500


def test_a_treebank_grammar_parses_and_marks_what_it_cannot() -> None:
    parser = TreebankParser().fit(load_sample_phrases("train"))
    assert parser.score(load_sample_phrases("test")) > 0.85
    assert parser.fallbacks_ == 0
    with pytest.warns(UserWarning, match="1 of 2 sentences have no parse .* sentence 1"):
        whole, flat = parser.predict([["the", "cat", "slept", "."], [".", ".", "?", "."]])
    assert (whole.label, flat.label, parser.fallbacks_) == ("S", "FALLBACK", 1)
    assert flat.words == [".", ".", "?", "."]


@pytest.mark.parametrize("bad", [[[]], ["words"], [[1, 2]]])
def test_sentences_are_lists_of_words(bad: list) -> None:
    parser = TreebankParser().fit(load_sample_phrases("train"))
    with pytest.raises(InputError, match="sentence 0"):
        parser.predict(bad)
