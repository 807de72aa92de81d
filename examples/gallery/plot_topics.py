"""
Topics that distinguish classes
===============================

DiscLDA gives every class topics of its own and lets all share others: what distinguishes the classes ends up in the
former.
"""

# %%
# The embedded letters were written to clubs of four kinds.

import matplotlib.pyplot as plt

from partwise.topics import DiscLDA, TextTopics, load_sample_documents

train, test = load_sample_documents("train"), load_sample_documents("test")
model = TextTopics(DiscLDA(class_topics=2, shared_topics=3, n_iterations=100, n_samples=200, random_state=0))
model.fit(train.texts, train.labels)
print(f"letters classified correctly: {(model.predict(test.texts) == test.labels).mean():.3f}")

# %%
# The words of each group of topics, and how much likelier they are there than if all words were equally likely:

groups = model.groups()
figure, panels = plt.subplots(1, len(groups), figsize=(2.4 * len(groups), 3.2), layout="constrained")
for axes, group in zip(panels, groups, strict=True):
    words = model.top_words(group.topics, 8)[::-1]
    axes.barh([word for word, _ in words], [strength for _, strength in words])
    axes.set_title(group.name)
plt.show()
