"""
Named entities with probabilities
=================================

Train a tagger, find the entities of a sentence with their probabilities, and ask why a token got its label.
"""

# %%
# The embedded corpus has words, part-of-speech tags, chunks and entities. ``"ner"`` is a preset of feature templates;
# the scheme rules out tag sequences such as ``O I-PER``.

import matplotlib.pyplot as plt

from partwise import SequenceLabeler
from partwise.data import load_sample

train, test = load_sample(split="train"), load_sample(split="test")
model = SequenceLabeler(templates="ner", scheme="IOB2", max_passes=60)
model.fit(train, train.column("ner"))
print(f"F1 on unseen documents: {model.score(test, test.column('ner')):.3f}")

# %%
# Every entity of a sentence comes with the probability that exactly this span is an entity of this type.

sentence = test.subset([1])
words = sentence.sentence(0, "word")
for span in model.predict_spans(sentence)[0]:
    print(f"{' '.join(words[span.start : span.stop]):24s} {span.type:5s} {span.probability:.3f}")

# %%
# The marginals of all labels at all positions:

marginals = model.predict_marginals(sentence)[0]
figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
image = axes.imshow(marginals.T, aspect="auto", cmap="Blues", vmin=0, vmax=1)
axes.set_xticks(range(len(words)), words, rotation=60, ha="right")
axes.set_yticks(range(len(model.classes_)), model.classes_)
figure.colorbar(image, label="probability")
plt.show()

# %%
# And the reasons for one of them:

print(model.explain(sentence, 5))
