"""
A search space of your own
==========================

Where no exact inference exists, describe a search and let it learn where to go: words of a text without spaces, cut by
a beam search that is trained on its own mistakes (learning as search optimisation).
"""

# %%
# A state is the list of words so far, an operator adds the next one, a state is good if it begins the right answer.

import matplotlib.pyplot as plt

from partwise import Beam, SearchPredictor, SearchProblem


class Cutting(SearchProblem):
    """Cut a string into words of at most eight letters."""

    def initial(self, x):
        return ()

    def operators(self, x, state):
        start = sum(map(len, state))
        return [(*state, x[start:stop]) for stop in range(start + 1, min(start + 8, len(x)) + 1)]

    def goal(self, x, state):
        return sum(map(len, state)) == len(x)

    def good(self, x, y, state):
        return tuple(y[: len(state)]) == state

    def features(self, x, state):
        before = state[-2] if len(state) > 1 else ""
        return [f"word {state[-1]}", f"length {len(state[-1])}", f"pair {before} {state[-1]}"]


texts = """the cat sat on the mat|the dog ran to the door|a cat ran on the mat|the door sat on a cat
a dog sat on the door|the mat ran to a dog|a cat sat to the dog|the dog sat on a mat""".replace("\n", "|").split("|")
answers = [tuple(text.split()) for text in texts]
inputs = [text.replace(" ", "") for text in texts]

# %%
# Training stops when a whole pass brings no mistake.

model = SearchPredictor(Cutting(), queue=Beam(5)).fit(inputs, answers)
print(" ".join(model.predict(["adogranonthemat"])[0]))

# %%
# Corrections per pass:

trace = model.result_.trace
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot([line.step for line in trace], [line.extra["updates"] for line in trace], "o-")
axes.set_xlabel("pass")
axes.set_ylabel("updates")
plt.show()
