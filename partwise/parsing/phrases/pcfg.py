"""TreebankParser: the grammar of a treebank with relative frequencies, the baseline of phrase parsing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from partwise.batch import Batch
from partwise.estimation.base import thread_count
from partwise.estimation.estimator import Estimator, check_is_fitted
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import InputError
from partwise.parsing.phrases.binary import collapse_chains
from partwise.parsing.phrases.metrics import BracketScores, bracket_scores
from partwise.parsing.phrases.model import PhraseModel
from partwise.parsing.phrases.trees import PhraseTree
from partwise.structures.grammar import Grammar

__all__ = ["TreebankParser", "check_sentences", "check_trees", "log_probabilities"]


def check_trees(X: Sequence[PhraseTree]) -> list[PhraseTree]:
    """Trees to train on, each with words and a phrase at its top."""
    X = as_list(X, "X")
    if not len(X):
        raise InputError("there are no trees to train on")
    for i, tree in enumerate(X):
        if not isinstance(tree, PhraseTree):
            raise InputError(f"tree {i} is a {type(tree).__name__}; expected a PhraseTree")
        if tree.word is not None or not len(tree):
            raise InputError(f"{tree.source or f'tree {i}'}: a tree must have a phrase over its words")
    return [collapse_chains(tree) for tree in X]


def check_sentences(X: Sequence[Any]) -> list[list[str]]:
    """The words of sentences that are lists of words or trees."""
    found = []
    for i, sentence in enumerate(as_list(X, "X")):
        words = sentence.words if isinstance(sentence, PhraseTree) else sentence
        if isinstance(words, str) or not all(isinstance(word, str) for word in words):
            raise InputError(f"sentence {i} must be a list of words or a PhraseTree")
        if not len(words):
            raise InputError(f"sentence {i} has no words")
        found.append(list(words))
    return found


def warn_of_fallbacks(sentences: Sequence[Sequence[str]], parsed: Sequence[int]) -> int:
    """How many sentences have no parse; a warning says so."""
    missing = sorted(set(range(len(sentences))) - set(parsed))
    if missing:
        start = " ".join(sentences[missing[0]][:8])
        warnings.warn(
            f"{len(missing)} of {len(sentences)} sentences have no parse under the grammar and get a flat tree "
            f"with the label FALLBACK; the first is sentence {missing[0]}: {start!r}",
            stacklevel=3,
        )
    return len(missing)


def log_probabilities(model: PhraseModel, space: Grammar, sentences: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """log p of the rules, chains and words of all forests, packed as scores: Σ over a derivation is log p(tree, words).

    Up to a constant of each word, which all trees share.
    """
    pack, fine, S = space.pack, model.fine, len(model.fine.symbols)
    U = len(model.rules.ends)
    rules, chains, stay = fine.probabilities()
    sizes, _ = space.instance_sizes()
    counts = np.diff(pack.edges)
    instance = np.repeat(np.arange(len(space)), counts)
    node = np.repeat(np.arange(len(pack.state)), np.diff(pack.first))
    scores = np.zeros(len(node))
    with np.errstate(divide="ignore"):
        log_rules, log_chains, log_stay = np.log(rules), np.log(chains), np.log(stay)
    state, first = pack.state[node].astype(np.int64), pack.nodes[instance]
    left, right = pack.left.astype(np.int64), pack.right.astype(np.int64)
    below = np.where(left >= 0, pack.state[first + np.maximum(left, 0)], -1).astype(np.int64)
    beside = np.where(right >= 0, pack.state[first + np.maximum(right, 0)], -1).astype(np.int64)
    symbols = pack.symbols.astype(np.int64)
    two = right >= 0
    keys = (fine.binary[:, 0] * S + fine.binary[:, 1]) * S + fine.binary[:, 2]  # sorted, as the rules are
    wanted = (symbols[state[two]] * S + symbols[below[two]]) * S + symbols[beside[two]]
    scores[two] = log_rules[np.searchsorted(keys, wanted)]
    # a symbol that a rule takes as it was built has chosen to head no chain
    for child in (below, beside):
        takes = (child >= 0) & (child < S) & (two | (state >= 2 * S + U))
        scores[takes] += log_stay[child[takes]]
    heads = np.repeat(np.arange(S), np.diff(model.rules.chains))
    chain_keys = heads * (S + U) + model.rules.below
    order = np.argsort(chain_keys)
    chained = (state >= S + U) & (state < 2 * S + U)
    wanted = symbols[state[chained]] * (S + U) + below[chained]
    scores[chained] = log_chains[order[np.searchsorted(chain_keys[order], wanted)]]
    roots = symbols[state] < 0
    scores[roots] += np.log(fine.root / fine.root.sum() + 1e-300)[symbols[below[roots]]]
    for e in np.flatnonzero(left < 0):
        tags, weights = model.coarse.lexicon.weights(
            sentences[instance[e]][pack.start[node[e]]], pack.start[node[e]] == 0
        )
        scores[e] += np.log(weights[tags.index(int(state[e]))])
    parts = np.zeros(int(sizes.sum()))
    starts = np.cumsum(sizes) - counts  # where the edges of each instance begin
    parts[np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(len(scores))] = scores
    return parts


class TreebankParser(Estimator):
    """argmax over trees of p(tree, words) = Π p(rule | its head): a probabilistic grammar estimated from a treebank.

    Relative frequencies of rules and chains; rare and unknown words get parts of speech by their form. The
    predicted tree is the most probable one among those that the coarse pass keeps.

    Parameters
    ----------
    vertical, horizontal : int
        Memory of symbols: parent annotation (2) or none (1); how many children to the left the inner symbols of a
        long rule remember. A large ``horizontal`` keeps the rules of the treebank unchanged.
    threshold : float
    n_jobs : int

    Attributes
    ----------
    fallbacks_ : int
        How many sentences of the last prediction had no parse.

    Examples
    --------
    >>> from partwise.parsing import load_sample_phrases
    >>> parser = TreebankParser().fit(load_sample_phrases("train"))
    >>> str(parser.predict([["the", "dog", "slept", "."]])[0])
    '(S (NP (DT the) (NN dog)) (VP (VBD slept)) (. .))'
    """

    def __init__(self, *, vertical: int = 1, horizontal: int = 99, threshold: float = 1e-5, n_jobs: int = 1) -> None:
        self.vertical, self.horizontal, self.threshold, self.n_jobs = vertical, horizontal, threshold, n_jobs

    def fit(self, X: Sequence[PhraseTree], y: None = None) -> Self:
        """Count the rules of the trees."""
        self.model_ = PhraseModel(self.vertical, self.horizontal, self.threshold).fit(check_trees(X))
        return self

    def predict(self, X: Sequence[Any]) -> list[PhraseTree]:
        """The most probable tree of every sentence (a list of words or a tree, of which the words are taken)."""
        check_is_fitted(self, "model_")
        sentences = check_sentences(X)
        forests = self.model_.forests(sentences, thread_count(self.n_jobs))
        trees = [self.model_.fallback(words, tags) for words, tags in zip(sentences, forests.tags, strict=True)]
        self.fallbacks_ = warn_of_fallbacks(sentences, forests.parsed)
        if forests.parsed:
            scores = log_probabilities(self.model_, forests.space, [sentences[i] for i in forests.parsed])
            outputs = Batch(forests.space, n_threads=thread_count(self.n_jobs)).outputs(scores)
            for i, rows in zip(forests.parsed, outputs, strict=True):
                trees[i] = self.model_.tree(rows, sentences[i])
        return Outputs(trees)

    def evaluate(self, X: Sequence[PhraseTree]) -> BracketScores:
        """Labelled brackets of the parser's trees against those of X."""
        return bracket_scores(as_list(X, "X"), self.predict(X))

    def score(self, X: Sequence[PhraseTree], y: None = None) -> float:
        """Labelled F1 as a share."""
        return self.evaluate(X).f1 / 100.0
