"""A small corpus of four classes, made of sentences of our own: for examples, tests and quick experiments.

Each class has two themes of its own, and all share two more (work days, and talk on a mailing list), so that there is
something for class topics and something for shared topics to find.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from partwise.exceptions import unknown_name

__all__ = ["Documents", "load_sample_documents"]


class Documents(NamedTuple):
    """Texts and the class of each."""

    texts: list[str]
    labels: list[str]


# A theme is a list of nouns, of verbs, and of things said of the nouns.
_THEMES: dict[str, tuple[str, str, str]] = {
    "baking": (
        "dough flour loaf crust yeast oven rye sourdough bread roll",
        "knead bake proof fold shape score cool slice weigh rest",
        "sticky golden warm risen floury sour dense crisp airy brown",
    ),
    "soup": (
        "broth onion carrot lentil pot ladle stock leek celery thyme",
        "simmer stir chop season taste strain reduce serve salt peel",
        "hearty clear salty thick fragrant peppery mild rich smoky clean",
    ),
    "telescope": (
        "telescope mirror lens eyepiece mount tripod finder filter dome camera",
        "focus align point collimate track photograph observe polish adjust balance",
        "sharp dark steady faint bright narrow wide blurred sturdy clear",
    ),
    "planets": (
        "planet comet moon orbit crater ring eclipse meteor star nebula",
        "rise set transit drift shine fade cross wane appear circle",
        "distant icy red dim dusty giant gaseous pale round silent",
    ),
    "bicycle": (
        "bicycle chain wheel brake spoke saddle pedal tyre gear hub",
        "ride patch oil tighten pump climb shift repair coast steer",
        "rusty light flat steep worn quick smooth wobbly new loose",
    ),
    "trail": (
        "trail hill gravel puddle ridge valley map signpost forest bridge",
        "cross follow descend pass reach turn explore rest wander return",
        "muddy steep rocky shady long winding narrow lonely green wet",
    ),
    "choir": (
        "choir alto tenor soprano chorus hymn motet verse score conductor",
        "sing hum rehearse breathe phrase tune listen conduct repeat open",
        "loud soft slow pure sacred joyful solemn quiet festive unsure",
    ),
    "strings": (
        "violin cello bow string bridge peg fingering sonata quartet viola",
        "play pluck practise tune vibrate record bow shift perform rosin",
        "mellow bright nervous old warm squeaky even rapid gentle precise",
    ),
    "workday": (
        "morning evening week hour friend neighbour garage kitchen shop visit",
        "start finish wait plan call buy carry ask hurry pause",
        "early late busy tired cheap small useful careful empty usual",
    ),
    "mailing": (
        "question answer reply list member advice mistake idea reader thread",
        "write read explain wonder suggest agree quote post thank doubt",
        "helpful wrong short friendly odd polite recent common honest brief",
    ),
}
_CLASSES = {
    "cooking": ("baking", "soup"),
    "astronomy": ("telescope", "planets"),
    "cycling": ("bicycle", "trail"),
    "music": ("choir", "strings"),
}
_SHARED = ("workday", "mailing")
_SENTENCES = (
    "You {verb} the {adjective} {noun} before you {verb2} the {noun2}.",
    "The {noun} was {adjective}, so I had to {verb} it and {verb2} the {noun2} again.",
    "If a {noun} is too {adjective}, {verb} it for a while; a {noun2} will do as well.",
    "My {adjective} {noun} and the {noun2} never {verb} as they should.",
    "How do you {verb} a {noun} without a {adjective2} {noun2}?",
    "After the {adjective} {noun} I {verb}, and then the {noun2} seems {adjective2}.",
)
_PER_CLASS, _TEST_EVERY = 45, 3


def _sentence(theme: str, chance: random.Random) -> str:
    nouns, verbs, adjectives = (words.split() for words in _THEMES[theme])
    noun, noun2 = chance.sample(nouns, 2)
    verb, verb2 = chance.sample(verbs, 2)
    adjective, adjective2 = chance.sample(adjectives, 2)
    words = {"noun": noun, "noun2": noun2, "verb": verb, "verb2": verb2}
    return chance.choice(_SENTENCES).format(**words, adjective=adjective, adjective2=adjective2)


def load_sample_documents(split: str | None = None) -> Documents:
    """180 short letters to clubs of four kinds: cooking, astronomy, cycling and music.

    ``split`` is "train" (two thirds), "test" (the other third) or None (all). The same on every machine.

    Examples
    --------
    >>> train, test = load_sample_documents("train"), load_sample_documents("test")
    >>> len(train.texts), len(test.texts), sorted(set(train.labels))
    (120, 60, ['astronomy', 'cooking', 'cycling', 'music'])
    """
    if split not in (None, "train", "test"):
        raise unknown_name("split", split, ("train", "test"))
    found = Documents([], [])
    for label, own in _CLASSES.items():
        for number in range(_PER_CLASS):
            chance = random.Random(f"{label} {number}")
            themes = [chance.choice(_SHARED if chance.random() < 0.55 else own) for _ in range(chance.randint(3, 7))]
            if split is None or (split == "test") == (number % _TEST_EVERY == 0):
                found.texts.append(" ".join(_sentence(theme, chance) for theme in themes))
                found.labels.append(label)
    return found
