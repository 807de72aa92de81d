"""A treebank of our own making: English sentences from a small grammar, so that tests and demos need no data.

Everything here was written for this purpose. Prepositions attach by the words around them (people look *with*
telescopes, gardens lie *behind* houses), relative clauses may move behind the verb (crossing arcs), commas, questions,
coordination, complements and passives occur. The same call always gives the same sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from partwise.exceptions import ParameterError
from partwise.parsing.conllu import DependencySentence

__all__ = ["load_sample_treebank"]

TRAIN, TEST, DEV = 200, 60, 60

PEOPLE = ["teacher", "farmer", "sailor", "neighbour", "doctor", "painter", "child", "baker", "judge", "singer"]
THINGS = ["house", "boat", "letter", "picture", "garden", "bridge", "table", "story", "window", "bicycle"]
PLACES = ["river", "village", "harbour", "forest", "market", "hill"]
TOOLS = ["telescope", "hammer", "brush", "pencil", "rope", "lamp"]
NAMES = ["Anna", "Boris", "Clara", "David", "Edith", "Frank", "Greta", "Hugo"]
ADJECTIVES = ["old", "small", "green", "quiet", "heavy", "bright", "young", "strange"]
ADVERBS = ["slowly", "often", "yesterday", "quietly", "again", "carefully"]
TRANSITIVE = {"see": "saw", "paint": "painted", "repair": "repaired", "find": "found", "buy": "bought", "like": "liked"}
INTRANSITIVE = {"sleep": "slept", "arrive": "arrived", "laugh": "laughed", "work": "worked", "wait": "waited"}
CLAUSAL = {"say": "said", "think": "thought", "know": "knew", "hope": "hoped"}
BESIDE = ["near", "behind", "beside"]


@dataclass
class Node:
    """A word with what hangs from it on the left and on the right, in order."""

    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str = "_"
    relation: str = "root"
    left: list[Node] = field(default_factory=list)
    right: list[Node] = field(default_factory=list)
    last: list[Node] = field(default_factory=list)  # moved to the end of the sentence

    def order(self) -> list[Node]:
        """The words in order, without what moved to the end."""
        nodes = [node for child in self.left for node in child.order()]
        return [*nodes, self, *(node for child in self.right for node in child.order())]

    def everything(self) -> list[Node]:
        """This node and all below it, what moved included."""
        return [self, *(node for child in [*self.left, *self.right, *self.last] for node in child.everything())]


class Grammar:
    """Draws sentences, with all choices from one generator of random numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, words: list[str] | dict[str, str]) -> str:
        return str(list(words)[self.rng.integers(len(words))])

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def name(self, relation: str) -> Node:
        name = self.pick(NAMES)
        return Node(name, name, "PROPN", "NNP", "Number=Sing", relation)

    def noun_phrase(self, relation: str, words: list[str] | None = None, depth: int = 0) -> Node:
        if words is None and self.chance(0.25):
            return self.name(relation)
        words = words or (PEOPLE if self.chance(0.5) else THINGS)
        lemma, plural = self.pick(words), self.chance(0.3)
        form = lemma if not plural else {"child": "children", "story": "stories"}.get(lemma, lemma + "s")
        tag, number = ("NNS", "Number=Plur") if plural else ("NN", "Number=Sing")
        noun = Node(form, lemma, "NOUN", tag, number, relation)
        if plural and self.chance(0.5):
            amount = self.pick(["two", "three", "five"])
            noun.left.append(Node(amount, amount, "NUM", "CD", "NumType=Card", "nummod"))
        elif not (plural and self.chance(0.5)):
            the = "the" if plural or self.chance(0.6) else "a"
            noun.left.append(Node(the, the, "DET", "DT", "PronType=Art", "det"))
        if self.chance(0.35):
            adjective = self.pick(ADJECTIVES)
            noun.left.append(Node(adjective, adjective, "ADJ", "JJ", "Degree=Pos", "amod"))
        if noun.left and noun.left[0].form == "a" and (noun.left[1:] or [noun])[0].form[0] in "aeiou":
            noun.left[0].form = "an"
        if depth < 2 and self.chance(0.2):
            noun.right.append(
                self.prepositional(self.pick(BESIDE), "nmod", PLACES if self.chance(0.5) else THINGS, depth + 1)
            )
        if depth < 1 and self.chance(0.12):
            other = self.noun_phrase("conj", words, depth + 1)
            other.left.insert(0, Node("and", "and", "CCONJ", "CC", "_", "cc"))
            noun.right.append(other)
        return noun

    def prepositional(self, word: str, relation: str, words: list[str], depth: int = 0) -> Node:
        noun = self.noun_phrase(relation, words, depth + 1)
        noun.left.insert(0, Node(word, word, "ADP", "IN", "_", "case"))
        return noun

    def verb(self, forms: dict[str, str], relation: str) -> Node:
        lemma = self.pick(forms)
        return Node(forms[lemma], lemma, "VERB", "VBD", "Tense=Past", relation)

    def relative_clause(self) -> Node:
        verb = self.verb(TRANSITIVE, "acl:relcl")
        verb.left.append(Node("who", "who", "PRON", "WP", "PronType=Rel", "nsubj"))
        verb.right.append(self.noun_phrase("obj", THINGS, 2))
        return verb

    def clause(self, relation: str = "root", depth: int = 0) -> Node:
        kind = self.rng.random()
        forms = CLAUSAL if kind < 0.15 and depth < 2 else TRANSITIVE if kind < 0.7 else INTRANSITIVE
        verb = self.verb(forms, relation)
        subject = self.noun_phrase("nsubj", PEOPLE) if self.chance(0.75) else self.name("nsubj")
        verb.left.append(subject)
        if forms is TRANSITIVE:
            verb.right.append(self.noun_phrase("obj"))
        if forms is CLAUSAL:
            inner = self.clause("ccomp", depth + 1)
            inner.left.insert(0, Node("that", "that", "SCONJ", "IN", "_", "mark"))
            verb.right.append(inner)
            return verb
        if self.chance(0.3):
            adverb = Node(word := self.pick(ADVERBS), word, "ADV", "RB", "_", "advmod")
            (verb.left if self.chance(0.5) else verb.right).append(adverb)
        if forms is TRANSITIVE and self.chance(0.3):
            verb.right.append(self.prepositional("with", "obl", TOOLS))
        if self.chance(0.25):
            verb.right.append(self.prepositional(self.pick(["in", "at"]), "obl", PLACES))
        if subject.upos == "NOUN" and not subject.right and depth == 0 and self.chance(0.5):
            (subject.last if self.chance(0.5) else subject.right).append(self.relative_clause())
        if depth == 0 and self.chance(0.12):
            other = self.clause("conj", depth + 1)
            other.left.insert(0, Node(",", ",", "PUNCT", ",", "_", "punct"))
            other.left.insert(1, Node("and", "and", "CCONJ", "CC", "_", "cc"))
            verb.right.append(other)
        return verb

    def passive(self) -> Node:
        lemma = self.pick(["paint", "repair", "like"])
        verb = Node(TRANSITIVE[lemma], lemma, "VERB", "VBN", "VerbForm=Part|Voice=Pass")
        subject = self.noun_phrase("nsubj:pass", THINGS)
        plural = subject.xpos == "NNS" or any(child.relation == "conj" for child in subject.right)
        be = Node("were" if plural else "was", "be", "AUX", "VBD", "Tense=Past", "aux:pass")
        verb.left += [subject, be]
        verb.right.append(self.prepositional("by", "obl:agent", PEOPLE))
        return verb

    def question(self) -> Node:
        lemma = self.pick(TRANSITIVE)
        verb = Node(lemma, lemma, "VERB", "VB", "VerbForm=Inf")
        verb.left.append(Node("What", "what", "PRON", "WP", "PronType=Int", "obj"))
        verb.left.append(Node("did", "do", "AUX", "VBD", "Tense=Past", "aux"))
        verb.left.append(self.noun_phrase("nsubj", PEOPLE))
        return verb

    def sentence(self, number: int) -> DependencySentence:
        kind = self.rng.random()
        root = self.passive() if kind < 0.12 else self.question() if kind < 0.2 else self.clause()
        nodes = root.order()
        nodes += [node for moved in [m for n in nodes for m in n.last] for node in moved.order()]
        root.right.append(Node(stop := "?" if nodes[0].form == "What" else ".", stop, "PUNCT", stop, "_", "punct"))
        nodes.append(root.right[-1])
        nodes[0].form = nodes[0].form[0].upper() + nodes[0].form[1:]
        place = {id(node): m for m, node in enumerate(nodes, 1)}
        heads = {id(root): 0}
        for node in root.everything():
            heads.update({id(child): place[id(node)] for child in [*node.left, *node.right, *node.last]})
        rows: list[tuple[str, ...]] = [
            (str(m), n.form, n.lemma, n.upos, n.xpos, n.feats, str(heads[id(n)]), n.relation, "_", "_")
            for m, n in enumerate(nodes, 1)
        ]
        return DependencySentence(rows, [f"# sent_id = sample-{number}"], f"sample {number}")


def load_sample_treebank(split: str = "train") -> list[DependencySentence]:
    """Sentences with their trees: 200 for training ("train"), 60 to tune on ("dev"), 60 for testing ("test").

    Examples
    --------
    >>> train = load_sample_treebank("train")
    >>> len(train), " ".join(train[0].forms)[:3].isalpha()
    (200, True)
    """
    places = {"train": (0, TRAIN), "test": (TRAIN, TRAIN + TEST), "dev": (TRAIN + TEST, TRAIN + TEST + DEV)}
    if split not in places:
        raise ParameterError("split", "load_sample_treebank", "'train', 'dev' or 'test'", split)
    grammar = Grammar(np.random.default_rng(2010))
    sentences = [grammar.sentence(number) for number in range(1, places[split][1] + 1)]
    return sentences[places[split][0] :]
