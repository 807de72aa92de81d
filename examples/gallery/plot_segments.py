"""
Chunks as whole segments
========================

A semi-Markov CRF scores whole chunks instead of single tags, and gives every chunk its probability.
"""

# %%
# Chunks of the embedded corpus; tokens have a word and a part-of-speech tag.

import matplotlib.pyplot as plt

from partwise import SegmentLabeler
from partwise.data import load_sample

train, test = load_sample("english", split="train"), load_sample("english", split="test")
model = SegmentLabeler(max_passes=10).fit(train, train.column("chunk"))
print(f"chunk F1 on unseen documents: {model.score(test, test.column('chunk')):.3f}")

# %%
# The best segmentation of a sentence, each chunk with the probability that it is exactly a chunk, and the next-best
# segmentations:

sentence = test.subset([1])
words = sentence.sentence(0, "word")
spans = model.predict_spans(sentence)[0]
for tags, probability in model.predict_kbest(sentence, 3)[0]:
    print(f"{probability:.3f} {' '.join(tags)}")

# %%
# More probable chunks are darker:

figure, axes = plt.subplots(figsize=(9, 2.2), layout="constrained")
colours = plt.get_cmap("Blues")
for span in spans:
    axes.barh(0, span.stop - span.start, left=span.start, color=colours(0.15 + 0.7 * span.probability), edgecolor="w")
    label = f"{span.type}\n{100 * span.probability:.0f}%"
    shade = "white" if span.probability > 0.6 else "black"
    axes.text((span.start + span.stop) / 2, 0, label, ha="center", va="center", fontsize=9, color=shade)
axes.set_xticks([t + 0.5 for t in range(len(words))], words, rotation=45, ha="right")
axes.set_yticks([])
axes.set_xlim(0, len(words))
plt.show()
