"""
Dependency trees with probabilities
===================================

A first-order parser gives the best tree, the probability of every arc, and the next-best trees.
"""

# %%
# The embedded treebank is small, so a few passes are enough.

import matplotlib.pyplot as plt

from partwise.parsing import DependencyParser, load_sample_treebank

train, test = load_sample_treebank("train"), load_sample_treebank("test")
parser = DependencyParser(arc_bits=18, row_bits=12, max_passes=5).fit(train[:-40])
print(parser.evaluate(test))

# %%
# The two best trees of a sentence, with the probability of each:

sentence = test[0]
parser.calibrate(train[-40:])  # held out above
for tree in parser.predict_kbest([sentence], 2)[0]:
    print(f"{tree.probability:.3f}", tree.heads.tolist())

# %%
# The probability of every head of every word; the root is row 0.

arcs = parser.predict_marginals([sentence])[0]
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
image = axes.imshow(arcs, cmap="Blues", vmin=0, vmax=1)
axes.set_xticks(range(len(sentence)), sentence.forms, rotation=60, ha="right")
axes.set_yticks(range(len(sentence) + 1), ["(root)", *sentence.forms])
axes.set_xlabel("word")
axes.set_ylabel("head")
figure.colorbar(image, label="probability")
plt.show()
