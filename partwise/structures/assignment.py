"""Assignment: matchings whose neighbouring links score together, a quadratic assignment; exact, or relaxed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError, ParameterError, SolverError, unknown_name
from partwise.structures._assignment_polish import nearest_point
from partwise.structures._assignment_program import Answer, Program, penalty_faults, solve, worthwhile
from partwise.structures._links import Links
from partwise.structures.atoms import LinkAtoms
from partwise.structures.base import Floats, Solution, Structure, score_of
from partwise.structures.matching import Matching
from partwise.structures.registry import register_structure

__all__ = ["PAIRS", "Assignment", "RelaxedAssignment"]

Ints = NDArray[np.int64]

#: The kinds of pairs of links, Figure 3.1(c).
PAIRS = {
    "monotone": "(j, k) and (j + 1, k + 1)",
    "inverted": "(j, k + 1) and (j + 1, k)",
    "one_to_two": "(j, k) and (j, k + 1), then (j, k) and (j + 1, k)",
}


@lru_cache(maxsize=4096)
def pair_table(n_rows: int, n_cols: int, kinds: tuple[str, ...]) -> Ints:
    """(P, 5) rows (kind, j, k, l, m): the pairs of links (j, k), (l, m) in the order of their parts."""
    rows, cols = np.arange(n_rows), np.arange(n_cols)
    shifts = {"monotone": [(0, 0, 1, 1)], "inverted": [(0, 1, 1, 0)], "one_to_two": [(0, 0, 0, 1), (0, 0, 1, 0)]}
    blocks = [np.zeros((0, 5), np.int64)]
    for kind in kinds:
        for j, k, to_j, to_k in shifts[kind]:
            down, right = np.meshgrid(rows[: n_rows - max(j, to_j)], cols[: n_cols - max(k, to_k)], indexing="ij")
            number = np.full(down.size, list(PAIRS).index(kind))
            a, b = down.ravel(), right.ravel()
            blocks.append(np.stack([number, a + j, b + k, a + to_j, b + to_k], axis=1))
    table = np.concatenate(blocks)
    table.flags.writeable = False
    return table


class Assignment(Structure):
    """A matching with score Σ_jk s_jk y_jk + Σ_jklm s_jklm y_jk y_lm over pairs of neighbouring links.

    Lacoste-Julien (2009), eq. (3.3).

    Parts: the J·K links, row-major, which are the atoms; with ``max_fertility`` D > 1 the fertility parts of
    :class:`Matching`, eq. (3.2); then the pairs, kind by kind as in ``PAIRS``; ``pair_links`` lists them.

    ``argmax`` is exact, by an integer program (HiGHS): the problem is NP-hard, but links that cannot pay are left out
    first, and the rest is small for sentences. Scores of pairs and fertilities may have any sign, −inf forbids. A
    search that a time limit ends raises a :class:`SolverError`; :meth:`solve` returns what was found, marked, with its
    gap.
    There is no projection onto the hull of the outputs; :meth:`relax` gives the polytope that has one.

    Parameters
    ----------
    sizes : (n, 2) ints
        Numbers (J, K) of source and target words of each instance.
    max_fertility : int
        D, the largest number of links of a word.
    pairs : sequence of names in ``PAIRS``, optional
        The kinds of pairs that have parts; by default all that D allows (one word in two links needs D > 1).
    allowed : sequence of n (J, K) bool arrays, optional
        Links that each instance may have. Candidates make everything faster.
    time_limit : float, optional
        Seconds for one search.

    Examples
    --------
    Alone, link 1-0 beats 1-1; next to 0-0 the monotone pair decides:

    >>> space = Assignment([(2, 2)])
    >>> scores = np.array([1.0, 0.0, 1.2, 0.5, 2.0, 0.0])
    >>> space.decode(0, space.argmax(0, scores)).tolist()
    [[0, 0], [1, 1]]
    >>> space.solve(0, scores, relaxed=True).status
    'optimal'
    """

    concurrent: ClassVar[bool] = True  # HiGHS keeps nothing between calls

    def __init__(
        self,
        sizes: ArrayLike | Sequence[tuple[int, int]],
        *,
        max_fertility: int = 1,
        pairs: Sequence[str] | None = None,
        allowed: Sequence[ArrayLike] | None = None,
        time_limit: float | None = None,
    ) -> None:
        self.matching = Matching(sizes, max_fertility=max_fertility, allowed=allowed)
        self.max_fertility = self.matching.max_fertility
        if pairs is None:
            pairs = [kind for kind in PAIRS if kind != "one_to_two" or self.max_fertility > 1]
        for kind in pairs:
            if kind not in PAIRS:
                raise unknown_name("pairs", kind, PAIRS)
        if "one_to_two" in pairs and self.max_fertility == 1:
            raise ParameterError("pairs", type(self).__name__, "without 'one_to_two' where max_fertility is 1", pairs)
        if time_limit is not None and not time_limit > 0:
            raise ParameterError("time_limit", type(self).__name__, "a positive number of seconds", time_limit)
        self.pairs = tuple(kind for kind in PAIRS if kind in pairs)
        self.time_limit = time_limit

    def __len__(self) -> int:
        return len(self.matching)

    def size(self, i: int) -> tuple[int, int]:
        """(J, K) of instance i."""
        return self.matching.size(i)

    def default_cost(self) -> tuple[float, float]:
        """That of a matching: wrong links and missed links."""
        return self.matching.default_cost()

    def atoms(self, i: int) -> LinkAtoms:
        """(row, column) of every atom: source and target word of the link."""
        return self.matching.atoms(i)

    def n_atoms(self, i: int) -> int:
        return self.matching.n_atoms(i)

    def n_parts(self, i: int) -> int:
        return self.matching.n_parts(i) + len(self.pair_links(i))

    def pair_links(self, i: int) -> Ints:
        """(P, 5) rows (kind, j, k, l, m) of the pair parts in order; kind is the place in ``PAIRS``."""
        return pair_table(*self.size(i), self.pairs)

    def _pair_numbers(self, i: int) -> tuple[Ints, Ints]:
        """The links of every pair, as numbers of parts."""
        table, (_, n_cols) = self.pair_links(i), self.size(i)
        return table[:, 1] * n_cols + table[:, 2], table[:, 3] * n_cols + table[:, 4]

    def encode(self, i: int, y: Any) -> Floats:
        """χ(y) of links: an (n, 2) array, a list or a set of pairs (j, k). ``allows`` sees too many links of a word."""
        parts = self.matching.encode(i, y)
        first, second = self._pair_numbers(i)
        return np.concatenate([parts, parts[first] * parts[second]])

    def decode(self, i: int, parts: Floats) -> Links:
        """(n, 2) links in order."""
        return self.matching.decode(i, parts)

    def allows(self, i: int, parts: Floats) -> bool:
        return self.matching.allows(i, parts)

    def forbidden_part(self, i: int, parts: Floats) -> str:
        return self.matching.forbidden_part(i, parts)

    def nearest_feasible(self, i: int, links: Any) -> Links:
        """The largest set of the given links that is an output; see :meth:`Matching.nearest_feasible`."""
        return self.matching.nearest_feasible(i, links)

    def relax(self) -> RelaxedAssignment:
        """The same instances over the polytope of the linear relaxation."""
        sizes = [self.size(i) for i in range(len(self))]
        allowed = None
        if len(self.matching.pack.allowed):
            allowed = [self.matching._allowed(i).reshape(self.size(i)) for i in range(len(self))]
        settings: dict[str, Any] = {"max_fertility": self.max_fertility, "pairs": self.pairs, "allowed": allowed}
        return RelaxedAssignment(sizes, time_limit=self.time_limit, **settings)

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        found = self.solve(i, scores)
        if found.status != "optimal":
            raise SolverError(
                f"the search for the best output of instance {i} reached its time limit of {self.time_limit:g} s; the "
                f"output found has score {found.value:g}, the best may have {found.bound:g}. "
                "solve() returns it; relax() or 'allowed' make the search easier"
            )
        return found.parts

    def solve(self, i: int, scores: ArrayLike, *, relaxed: bool = False) -> Solution:
        """The best output; with ``relaxed`` the rounded solution of the linear relaxation, about as good and faster.

        Rounding keeps the links above one half, or where those are too many at a word, the best of them.
        """
        program = self._program(i, scores)
        if relaxed:
            self._check_penalties(i, program)
        keep = worthwhile(program)
        if not self._has_pairs(program, keep) and not penalty_faults(program.nodes).any():
            parts = self._from_matching(i, program, keep)
            value = self._value(i, program, parts)
            return Solution(parts, value, value, "optimal")
        answer = solve(program, keep, integral=not relaxed, time_limit=self.time_limit)
        parts = self._from_matching(i, program, keep) if answer.links is None else self._rounded(i, answer.links)
        value = self._value(i, program, parts)
        if answer.optimal and (not relaxed or _integral(answer)):
            return Solution(parts, value, value, "optimal")
        bound = max(min(answer.bound, self._loose_bound(i, program)), value)
        return Solution(parts, value, bound, "rounded" if answer.optimal else "time limit")

    def bound(self, i: int, scores: ArrayLike) -> float:
        """An upper bound on the score of every output: the value of the linear relaxation, where there is one."""
        relaxed = not penalty_faults(self._program(i, scores).nodes).any()
        return self.solve(i, scores, relaxed=relaxed).bound

    def _program(self, i: int, scores: ArrayLike) -> Program:
        values = np.asarray(scores, float)
        n = self.n_parts(i)
        if values.shape != (n,):
            raise InputError(f"scores of instance {i} have shape {values.shape}; expected ({n},)")
        if not (values < np.inf).all():
            raise InputError(f"scores of instance {i} hold NaN or +inf at part {int(np.argmax(~(values < np.inf)))}")
        (n_rows, n_cols), n_links, n_words = self.size(i), self.n_atoms(i), sum(self.size(i))
        n_nodes = n_words * (self.max_fertility - 1)
        links, allowed = values[:n_links], self.matching._allowed(i)
        if len(allowed):
            links = np.where(allowed != 0, links, -np.inf)
        nodes = values[n_links : n_links + n_nodes].reshape(n_words, -1)
        first, second = self._pair_numbers(i)
        return Program(n_rows, n_cols, first, second, links, nodes, values[n_links + n_nodes :])

    def _check_penalties(self, i: int, program: Program) -> None:
        if penalty_faults(program.nodes).any():
            self.matching._check_penalties(i, np.concatenate([program.links, program.nodes.ravel()]))

    @staticmethod
    def _has_pairs(program: Program, keep: NDArray[np.bool_]) -> bool:
        return bool((program.pairs[keep[program.first] & keep[program.second]] != 0).any())

    def _from_matching(self, i: int, program: Program, keep: NDArray[np.bool_]) -> Floats:
        """The best links where pairs have no score."""
        nodes = np.where(penalty_faults(program.nodes), 0.0, program.nodes)
        scores = np.concatenate([np.where(keep, program.links, -np.inf), np.minimum.accumulate(nodes, axis=1).ravel()])
        return self.encode(i, self.matching.decode(i, self.matching.argmax(i, scores)))

    def _loose_bound(self, i: int, program: Program) -> float:
        """The best matching where a link has half the score of each pair that could help it: w_q ≤ (x_e + x_f)/2."""
        half = 0.5 * np.maximum(program.pairs, 0.0)
        size = len(program.links)
        links = program.links + np.bincount(program.first, half, size) + np.bincount(program.second, half, size)
        nodes = program.nodes if not penalty_faults(program.nodes).any() else np.zeros_like(program.nodes)
        scores = np.concatenate([links, nodes.ravel()])
        return score_of(scores, self.matching.argmax(i, scores)) + float(np.maximum(program.nodes, 0.0).sum())

    def _rounded(self, i: int, links: Floats) -> Floats:
        chosen = links - 0.5
        scores = np.concatenate([chosen, np.zeros(self.matching.n_parts(i) - len(links))])
        return self.encode(i, self.matching.decode(i, self.matching.argmax(i, scores)))

    @staticmethod
    def _value(i: int, program: Program, parts: Floats) -> float:
        return score_of(np.concatenate([program.links, program.nodes.ravel(), program.pairs]), parts)


def _integral(answer: Answer) -> bool:
    assert answer.links is not None
    return bool(((answer.links == 0) | (answer.links == 1)).all())


class RelaxedAssignment(Assignment):
    """The polytope of the linear relaxation of Lacoste-Julien (2009), eq. (3.3), as if it were the output space.

        z_jk, z_dj, z_dk as in eq. (3.2),   0 ≤ z_jklm ≤ z_jk, z_lm,   z_jklm ≥ z_jk + z_lm − 1

    ``argmax`` is a corner of it (a linear program, HiGHS), fractional for some scores, and its score bounds that of
    every output; ``project`` the nearest point. Training with it minimises an upper bound on the hinge loss, eq. (3.6).
    ``decode`` rounds. Fertility scores must be penalties as for :class:`Matching`.

    Examples
    --------
    >>> space = Assignment([(2, 2)]).relax()
    >>> z = space.project(0, np.array([0.6, 0.0, 0.0, 0.2, 0.8, 0.0]))
    >>> z.round(3).tolist()
    [0.6, 0.0, 0.0, 0.5, 0.5, 0.0]
    >>> space.decode(0, z).tolist()
    [[0, 0]]
    """

    def guarantee(self, oracle: str) -> str:
        return "outer"

    def relax(self) -> RelaxedAssignment:
        return self

    def solve(self, i: int, scores: ArrayLike, *, relaxed: bool = True) -> Solution:
        """The rounded solution of the linear relaxation, with its value as the bound."""
        return super().solve(i, scores, relaxed=relaxed)

    def argmax(self, i: int, scores: ArrayLike) -> Floats:
        program = self._program(i, scores)
        self._check_penalties(i, program)
        keep = worthwhile(program)
        if not self._has_pairs(program, keep):
            return self._from_matching(i, program, keep)
        answer = solve(program, keep, integral=False, time_limit=self.time_limit)
        if not answer.optimal:
            raise SolverError(f"the linear program of instance {i} reached its time limit of {self.time_limit:g} s")
        assert answer.links is not None and answer.nodes is not None and answer.pairs is not None
        return np.concatenate([answer.links, answer.nodes, answer.pairs])

    def decode(self, i: int, parts: Floats) -> Links:
        """(n, 2) links above one half in order; where those are too many at a word, the best of them."""
        return self.matching.decode(i, self._rounded(i, np.asarray(parts, float)[: self.n_atoms(i)]))

    def allows(self, i: int, parts: Floats) -> bool:
        return self._outside(i, parts) is None

    def forbidden_part(self, i: int, parts: Floats) -> str:
        reason = self._outside(i, parts)
        return "nothing is forbidden" if reason is None else reason

    def _outside(self, i: int, parts: Floats) -> str | None:
        """Why a point is outside the polytope; None if it is inside."""
        n = self.n_atoms(i)
        links = np.asarray(parts, float)[:n]
        if ((links == 0) | (links == 1)).all():
            return None if self.matching.allows(i, parts) else self.matching.forbidden_part(i, parts)
        table, slack = links.reshape(self.size(i)), 1e-6
        allowed = self.matching._allowed(i)
        nodes = np.asarray(parts[n : self.matching.n_parts(i)]).reshape(sum(self.size(i)), -1).sum(axis=1)
        degrees = np.concatenate([table.sum(axis=1), table.sum(axis=0)])
        first, second = self._pair_numbers(i)
        pairs = parts[self.matching.n_parts(i) :]
        inside = (
            not (len(allowed) and links[allowed == 0].any())
            and parts.min() >= -slack
            and parts.max() <= 1 + slack
            and (degrees <= 1 + nodes + slack).all()
            and (pairs <= np.minimum(links[first], links[second]) + slack).all()
            and (pairs >= links[first] + links[second] - 1 - slack).all()
        )
        return None if inside else "the point is outside the relaxed polytope"

    def project(self, i: int, point: ArrayLike) -> Floats:
        """The nearest point of the polytope; a coordinate of −inf stays 0.

        An interior point method, and where its active constraints are right, an exact finish: to 1e-8, and to 1e-5
        at worst, where slacks of that size are indistinguishable from 0.
        """
        program = self._program(i, point)
        found = nearest_point(program)
        if found is not None:
            return np.concatenate(found)
        plain = self.matching.project(i, np.concatenate([program.links, program.nodes.ravel()]))
        return np.concatenate([plain, np.zeros(len(program.pairs))])


register_structure("Assignment", lambda: Assignment([(2, 2)]))
register_structure("RelaxedAssignment", lambda: RelaxedAssignment([(2, 2)]))
