"""Checks for structures, losses and learners of your own: those that partwise itself is tested with.

``check_structure`` runs every oracle of a structure against enumeration, ``check_loss`` the gradient of a loss against
finite differences, ``check_learner`` the certificate, determinism and resumption of a learner. Each raises
AssertionError with what is wrong, so any test runner will do.
"""

from partwise.testing.cases import SCORES, Case, Check, draw_scores
from partwise.testing.enumeration import Enumeration, enumerated, nearest_in_hull, part_table
from partwise.testing.learners import check_learner
from partwise.testing.losses import check_loss
from partwise.testing.structures import CHECKS, check_structure, checks_of

__all__ = [
    "CHECKS",
    "SCORES",
    "Case",
    "Check",
    "Enumeration",
    "check_learner",
    "check_loss",
    "check_structure",
    "checks_of",
    "draw_scores",
    "enumerated",
    "nearest_in_hull",
    "part_table",
]
