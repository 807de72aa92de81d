"""
A Markov network from a table with missing values
=================================================

Potentials of a given graph are learned from samples, some of whose values are missing; then questions are asked of it.
"""

# %%
# Rain makes the grass wet, and so does the sprinkler, which is turned on when it is dry.

import matplotlib.pyplot as plt
import numpy as np

from partwise import MarkovNetwork

rng = np.random.default_rng(0)
n = 600
rain = rng.random(n) < 0.3
sprinkler = rng.random(n) < np.where(rain, 0.05, 0.5)
wet = rng.random(n) < np.where(rain | sprinkler, 0.95, 0.05)
table = np.column_stack([rain, sprinkler, wet]).astype(float)
table[rng.random(table.shape) < 0.1] = np.nan  # one value in ten is missing

network = MarkovNetwork([(0, 1), (0, 2), (1, 2)]).fit(table)

# %%
# How likely is rain, given what is seen?

seen = {"nothing": {}, "wet grass": {2: 1}, "wet grass, sprinkler on": {2: 1, 1: 1}, "dry grass": {2: 0}}
shares = [network.probability({0: 1}, given=given) for given in seen.values()]
figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.barh(list(seen), shares)
axes.invert_yaxis()
axes.set_xlabel("probability of rain")
plt.show()
