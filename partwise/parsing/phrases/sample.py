"""A small treebank of phrases, written by hand for this library, so that tests and demos need no data.

Prepositional phrases attach high and low by their words, there are coordination, relative and complement clauses,
questions, passives, infinitives, particles and unary chains.
"""

from __future__ import annotations

from partwise.exceptions import ParameterError
from partwise.parsing.phrases.trees import PhraseTree, parse_trees

__all__ = ["load_sample_phrases"]

#: How many of the trees are for training; the rest are for testing.
TRAIN = 60

TREES = """\
(S (NP (DT the) (NN cat)) (VP (VBD slept)) (. .))
(S (NP (DT a) (NN dog)) (VP (VBD barked)) (. .))
(S (NP (PRP she)) (VP (VBD saw) (NP (DT the) (NN boat))) (. .))
(S (NP (DT the) (NN sailor)) (VP (VBD painted) (NP (DT the) (JJ old) (NN boat))) (. .))
(S (NP (NNP Anna)) (VP (VBD found) (NP (DT a) (NN letter)) (PP (IN on) (NP (DT the) (NN table)))) (. .))
(S (NP (NNP Boris)) (VP (VBD saw) (NP (DT the) (NN bird)) (PP (IN with) (NP (DT a) (NN telescope)))) (. .))
(S (NP (NNP Clara)) (VP (VBD met) (NP (NP (DT the) (NN man)) (PP (IN with) (NP (DT the) (JJ red) (NN hat))))) (. .))
(S (NP (NP (DT the) (NN house)) (PP (IN near) (NP (DT the) (NN river)))) (VP (VBZ is) (ADJP (JJ old))) (. .))
(S (NP (PRP they)) (VP (VBD walked) (PP (IN to) (NP (DT the) (NN harbour)))) (. .))
(S (NP (NP (DT the) (NN garden)) (PP (IN behind) (NP (DT the) (NN house)))) (VP (VBD was) (ADJP (JJ green))) (. .))
(S (NP (DT the) (NN baker)) (VP (MD will) (VP (VB open) (NP (DT the) (NN shop)) (NP (NN tomorrow)))) (. .))
(S (NP (DT the) (NNS children)) (VP (VBP are) (VP (VBG playing) (PP (IN in) (NP (DT the) (NN park))))) (. .))
(S (NP (DT the) (NN bridge)) (VP (VBD was) (VP (VBN built) (PP (IN by) (NP (DT the) (NNS farmers))))) (. .))
(S (NP (DT the) (NN letter)) (VP (VBZ has) (VP (VBN been) (VP (VBN found)))) (. .))
(S (NP (PRP he)) (VP (VBD said) (SBAR (IN that) (S (NP (DT the) (NN boat)) (VP (VBD was) (ADJP (JJ small)))))) (. .))
(S (NP (NNP Anna)) (VP (VBZ thinks) (SBAR (S (NP (DT the) (NN judge)) (VP (VBD slept))))) (. .))
(S (NP (PRP we)) (VP (VBP know) (SBAR (WHNP (WP who)) (S (VP (VBD painted) (NP (DT the) (NN house)))))) (. .))
(S (NP (NP (DT the) (NN dog)) (SBAR (WHNP (WDT that)) (S (VP (VBD barked))))) (VP (VBD ran) (ADVP (RB away))) (. .))
(S (NP (NP (DT the) (NN man)) (SBAR (WHNP (WP who)) (S (VP (VBZ lives) (ADVP (RB here)))))) (VP (VBZ sings)) (. .))
(S (NP (PRP she)) (VP (VBZ wants) (S (VP (TO to) (VP (VB buy) (NP (DT a) (NN boat)))))) (. .))
(S (NP (PRP they)) (VP (VBD tried) (S (VP (TO to) (VP (VB open) (NP (DT the) (NN window)))))) (. .))
(S (NP (DT the) (NN teacher) (CC and) (DT the) (NN doctor)) (VP (VBD laughed)) (. .))
(S (NP (NP (NNP Anna)) (CC and) (NP (NNP Boris))) (VP (VBD bought) (NP (DT the) (NN house))) (. .))
(S (NP (PRP he)) (VP (VP (VBD opened) (NP (DT the) (NN letter))) (CC and) (VP (VBD laughed))) (. .))
(S (S (NP (DT the) (NN cat)) (VP (VBD slept))) (CC and) (S (NP (DT the) (NN dog)) (VP (VBD barked))) (. .))
(S (NP (PRP she)) (VP (VBD picked) (PRT (RP up)) (NP (DT the) (NN hat))) (. .))
(S (NP (DT the) (NN child)) (VP (VBD looked) (PRT (RP up)) (ADVP (RB quickly))) (. .))
(S (ADVP (RB yesterday)) (NP (DT the) (NNS sailors)) (VP (VBD arrived)) (. .))
(S (PP (IN in) (NP (DT the) (NN morning))) (, ,) (NP (PRP we)) (VP (VBD walked) (PP (IN to) (NP (NN work)))) (. .))
(S (NP (NNP Clara)) (, ,) (NP (DT the) (NN painter)) (, ,) (VP (VBD smiled)) (. .))
(SBARQ (WHNP (WP who)) (SQ (VP (VBD saw) (NP (DT the) (NN cat)))) (. ?))
(SBARQ (WHADVP (WRB where)) (SQ (VBD did) (NP (DT the) (NN dog)) (VP (VB sleep))) (. ?))
(SQ (VBD did) (NP (PRP you)) (VP (VB see) (NP (DT the) (NN bird))) (. ?))
(SQ (VBZ is) (NP (DT the) (NN table)) (ADJP (JJ heavy)) (. ?))
(S (NP (DT the) (JJ young) (NN singer)) (VP (VBD gave) (NP (DT the) (NN child)) (NP (DT a) (NN book))) (. .))
(S (NP (DT the) (NN farmer)) (VP (VBD sold) (NP (CD three) (NNS horses)) (PP (TO to) (NP (DT the) (NN baker)))) (. .))
(S (NP (CD two) (NNS boats)) (VP (VBD waited) (PP (IN near) (NP (DT the) (NN bridge)))) (. .))
(S (NP (PRP$ her) (NN son)) (VP (VBD repaired) (NP (DT the) (NN bicycle)) (PP (IN with) (NP (DT a) (NN rope)))) (. .))
(S (NP (NP (NNP Boris) (POS 's)) (NN dog)) (VP (VBZ is) (ADJP (RB very) (JJ quiet))) (. .))
(S (NP (NP (DT the) (NN teacher) (POS 's)) (NN house)) (VP (VBZ has) (NP (DT a) (JJ green) (NN door))) (. .))
(S (NP (DT the) (NN story)) (VP (VBD was) (ADJP (JJR longer) (PP (IN than) (NP (DT the) (NN letter))))) (. .))
(S (NP (PRP it)) (VP (VBD rained) (SBAR (IN when) (S (NP (PRP they)) (VP (VBD arrived))))) (. .))
(S (SBAR (IN if) (S (NP (PRP it)) (VP (VBZ rains)))) (, ,) (NP (DT the) (NNS children)) (VP (VBP sleep)) (. .))
(S (NP (DT the) (NN judge)) (VP (VBD did) (RB not) (VP (VB laugh))) (. .))
(S (NP (PRP I)) (VP (MD can) (RB not) (VP (VB find) (NP (DT the) (JJ small) (NN window)))) (. .))
(S (NP (EX there)) (VP (VBZ is) (NP (NP (DT a) (NN bridge)) (PP (IN over) (NP (DT the) (NN river))))) (. .))
(S (NP (NP (DT all)) (PP (IN of) (NP (DT the) (NNS boats)))) (VP (VBD were) (ADJP (JJ red))) (. .))
(S (NP (NP (NNS pictures)) (PP (IN of) (NP (NNS horses)))) (VP (VBP are) (PP (IN on) (NP (DT the) (NN wall)))) (. .))
(S (NP (NNP Greta)) (VP (VBD read) (NP (NP (DT a) (NN story)) (PP (IN about) (NP (DT the) (NN sea))))) (. .))
(S (NP (DT the) (NN painter)) (VP (VBD put) (NP (DT the) (NN brush)) (PP (IN on) (NP (DT the) (NN table)))) (. .))
(S (NP (NNP Hugo)) (VP (VBD hoped) (SBAR (IN that) (S (NP (NNP Clara)) (VP (MD would) (VP (VB come)))))) (. .))
(S (VP (VB open) (NP (DT the) (NN window))) (. .))
(S (VP (VB give) (NP (PRP me)) (NP (DT the) (JJ old) (NN book))) (. .))
(S (NP (VBG walking)) (VP (VBZ is) (ADJP (JJ healthy))) (. .))
(S (S (VP (VBG painting) (NP (NNS boats)))) (VP (VBZ takes) (NP (NN time))) (. .))
(S (NP (DT the) (NN boat) (VBN painted) (PP (IN by) (NP (NNP Anna)))) (VP (VBZ is) (ADJP (JJ bright))) (. .))
(S (NP (DT both) (NNS sisters)) (VP (VBP live) (PP (IN in) (NP (DT the) (JJ same) (NN village)))) (. .))
(S (NP (NP (DT the) (NN market)) (PP (IN in) (NP (DT the) (NN village)))) (VP (VBZ opens) (ADVP (RB early))) (. .))
(S (NP (DT the) (JJ strange) (NN picture)) (VP (VBD fell) (PP (IN from) (NP (DT the) (NN wall)))) (. .))
(FRAG (NP (DT the) (JJ old) (NN harbour)) (. .))
(S (NP (DT the) (NN doctor)) (VP (VBD slept)) (. .))
(S (NP (DT the) (JJ young) (NN man)) (VP (VBD bought) (NP (DT a) (JJ red) (NN bicycle))) (. .))
(S (NP (NNP Greta)) (VP (VBD saw) (NP (DT the) (NN boat)) (PP (IN with) (NP (DT a) (NN telescope)))) (. .))
(S (NP (NP (DT the) (NN table)) (PP (IN near) (NP (DT the) (NN window)))) (VP (VBZ is) (ADJP (JJ heavy))) (. .))
(S (NP (NNP Hugo)) (VP (VBD said) (SBAR (IN that) (S (NP (DT the) (NN dog)) (VP (VBD barked))))) (. .))
(S (NP (NP (DT the) (NN singer)) (SBAR (WHNP (WP who)) (S (VP (VBD arrived))))) (VP (VBD laughed)) (. .))
(S (NP (PRP we)) (VP (VBP want) (S (VP (TO to) (VP (VB see) (NP (DT the) (NN garden)))))) (. .))
(S (NP (DT the) (NN house)) (VP (VBD was) (VP (VBN painted) (PP (IN by) (NP (DT the) (NN sailor))))) (. .))
(S (NP (NP (NNP Clara)) (CC and) (NP (NNP Hugo))) (VP (VBD walked) (PP (IN to) (NP (DT the) (NN market)))) (. .))
(SBARQ (WHNP (WP who)) (SQ (VP (VBD found) (NP (DT the) (NN letter)))) (. ?))
(S (PP (IN in) (NP (DT the) (NN park))) (, ,) (NP (DT the) (NNS children)) (VP (VBD laughed)) (. .))
(S (NP (PRP she)) (VP (MD will) (VP (VB open) (NP (DT the) (NN door)))) (. .))
"""


def load_sample_phrases(split: str = "all") -> list[PhraseTree]:
    """Hand-made English trees: 60 for training, 12 for testing.

    Parameters
    ----------
    split : {"train", "test", "all"}

    Examples
    --------
    >>> len(load_sample_phrases("train")), len(load_sample_phrases("test"))
    (60, 12)
    """
    trees = list(parse_trees(TREES.splitlines(), "phrases"))
    found = {"train": trees[:TRAIN], "test": trees[TRAIN:], "all": trees}
    if split not in found:
        raise ParameterError("split", "load_sample_phrases", "'train', 'test' or 'all'", split)
    return found[split]
