"""
Word alignment: from posteriors to links
========================================

An HMM learns from raw sentence pairs; an aligner on top of it learns from gold links which of its posteriors to trust.
"""

# %%
# The embedded sample holds 150 English–French pairs with gold links.

import matplotlib.pyplot as plt

from partwise import WordAligner
from partwise.alignment import GenerativeAligner
from partwise.data import load_sample_alignments
from partwise.metrics import alignment_scores

train, test = load_sample_alignments("train"), load_sample_alignments("test")
hmm = GenerativeAligner(model="hmm", also=("model1",)).fit(train.bitext + test.bitext)
aligner = WordAligner(hmm).fit(train.bitext, train.gold)
for name, model in (("HMM", hmm), ("learned", aligner)):
    print(f"{name:9s} AER {100 * alignment_scores(test.gold, model.predict(test.bitext)).aer:.1f}%")

# %%
# One pair: posteriors of the HMM as shading, the links of the matching as rings, gold links as crosses.

source, target = test.bitext[1]
posterior = hmm.posteriors(test.bitext[1:2]).product[0]
figure, axes = plt.subplots(figsize=(6, 5), layout="constrained")
axes.imshow(posterior, cmap="Greys", vmin=0, vmax=1)
for i, j in aligner.predict(test.bitext[1:2])[0]:
    axes.plot(j, i, "o", markersize=16, fillstyle="none", color="tab:blue")
for i, j in test.gold[1].sure:
    axes.plot(j, i, "x", color="tab:orange")
axes.set_xticks(range(len(target)), target, rotation=60, ha="right")
axes.set_yticks(range(len(source)), source)
plt.show()
