"""
One problem, several learners
=============================

Every learner sees the same objective. Those that know a lower bound on it report a duality gap, so they can be compared
by something better than accuracy: how far from the optimum they can still be.
"""

# %%
# A max-margin chunker, the same problem for each learner.

import matplotlib.pyplot as plt

from partwise import SequenceLabeler
from partwise.data import load_sample

train = load_sample("news", split="train")
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for learner in ("n_slack", "one_slack", "frank_wolfe", "batch_frank_wolfe"):
    model = SequenceLabeler(templates="chunking", loss="svm", learner=learner, C=0.01, max_passes=60)
    model.fit(train, train.column("chunk"))
    trace = model.result_.trace
    gaps = [line.gap / abs(line.objective) for line in trace]
    axes.plot([line.step for line in trace], gaps, label=learner)
    print(f"{learner:18s} {model.result_.status:12s} gap {model.result_.certificate.relative_gap:.1e}")

# %%
# The gap after every pass:

axes.set_yscale("log")
axes.set_xlabel("passes over the data")
axes.set_ylabel("relative duality gap")
axes.legend()
plt.show()
