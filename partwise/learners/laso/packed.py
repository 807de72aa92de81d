"""Packed search problems: what the compiled beam search asks of one, chosen by the type of its pack.

A packed problem is a NamedTuple of the arrays of all inputs. A state is a short row of integers, an action one
integer; the score of a node is the sum of the scores of the actions that led to it, g = wᵀΦ(x, n) with
Φ(x, n) = Σ_actions φ(x, state, action). Kernels registered for the functions below make a problem searchable by
:mod:`partwise.learners.laso._beam` and trainable by :class:`~partwise.learners.laso.learner.LaSO`.
"""

from __future__ import annotations

from partwise._compile import Generic, kernel

__all__ = [
    "action_features",
    "advance",
    "cache_size",
    "expand",
    "good_actions",
    "initial_state",
    "last_level",
    "most_actions",
    "most_features",
    "prepare",
    "reach",
    "state_size",
    "touch",
]


@Generic
def state_size(problem):
    """How many integers a state has."""


@Generic
def most_actions(problem):
    """The largest number of actions that a state can have."""


@Generic
def most_features(problem):
    """The largest number of weights that an action can touch."""


@Generic
def cache_size(problem, i):
    """Length of the float64 array that ``prepare`` fills for input i."""


@Generic
def prepare(problem, i, theta, cache):
    """cache ← whatever scores of input i can be computed before the search."""


@Generic
def initial_state(problem, i, state):
    """state ← the initial state of input i."""


@Generic
def last_level(problem, i):
    """The level of goals. Only states of one level compete for places in the beam; the initial state is of level 0."""


@Generic
def reach(problem, i, state, action):
    """The level of the state that an action leads to, above that of the state it starts from."""


@Generic
def expand(problem, i, theta, cache, state, score, bars, actions, gains):
    """actions ← what can be done in a state that is no goal, gains ← their scores; returns how many there are.

    An action may be left out if ``score``, that of the state, plus its gain is not above bars[level that it reaches].
    """


@Generic
def advance(problem, i, state, action, after):
    """after ← the state that an action leads to."""


@Generic
def good_actions(problem, i, state, actions):
    """actions ← the actions of a y-good state that lead to y-good states; returns how many there are, ≥ 1."""


@Generic
def action_features(problem, i, state, action, amount, delta, touched, n):
    """delta += amount·φ(x_i, state, action); lists what it touches in ``touched`` from n on and returns the new n."""


@kernel
def touch(delta, touched, n, at, amount):
    """delta[at] += amount, listed in ``touched`` where it was zero: what ``action_features`` is made of."""
    if delta[at] == 0.0:
        touched[n] = at
        n += 1
    delta[at] += amount
    return n
