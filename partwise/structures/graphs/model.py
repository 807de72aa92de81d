"""Graph: variables, soft factors and hard factors of one instance, as a user writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import InputError
from partwise.structures.graphs import logic

__all__ = [
    "Graph",
    "Hard",
    "Literal",
    "all_equal",
    "allowed_table",
    "at_most_one",
    "budget",
    "exactly_one",
    "implies",
    "literal",
    "negated",
    "or_output",
    "some",
]

Ints = NDArray[np.int64]


class Literal(NamedTuple):
    """ "Variable has this state", or its negation."""

    variable: int
    state: int = 1
    negated: bool = False


def literal(value: Any) -> Literal:
    """A literal from a variable (state 1), a pair (variable, state) or a :class:`Literal`."""
    if isinstance(value, Literal):
        return value
    if np.ndim(value) == 0:
        return Literal(int(value))
    return Literal(*value)


def negated(value: Any) -> Literal:
    """The negation of a literal.

    Examples
    --------
    >>> negated((3, 1))
    Literal(variable=3, state=1, negated=True)
    """
    old = literal(value)
    return old._replace(negated=not old.negated)


@dataclass(frozen=True)
class Hard:
    """A hard factor: potential 1 where its condition holds, 0 elsewhere (§2.2). The functions below make them."""

    kind: int
    literals: tuple[Literal, ...]
    budget: int = 0
    allowed: NDArray[np.uint8] | None = None
    name: str = ""
    words: str = ""  # what errors call it, if not by its states

    def holds(self, states: Mapping[int, int]) -> bool:
        """Whether the condition holds for {variable: state}.

        Examples
        --------
        >>> exactly_one([0, 1]).holds({0: 1, 1: 0}), exactly_one([0, 1]).holds({0: 1, 1: 1})
        (True, False)
        """
        if self.allowed is not None:
            return bool(self.allowed[tuple(states[a.variable] for a in self.literals)])
        truth = [(states[a.variable] == a.state) != a.negated for a in self.literals]
        true = sum(truth)
        return {
            logic.XOR: true == 1,
            logic.AT_MOST_ONE: true <= 1,
            logic.OR: true > 0,
            logic.OR_OUTPUT: truth[-1] == (true - truth[-1] > 0),
            logic.BUDGET: true <= self.budget,
            logic.EQUAL: true in (0, len(truth)),
        }[self.kind]

    def __str__(self) -> str:
        if self.words:
            return self.words
        literals = self.literals
        if self.name == "implies":  # stored as a clause: some(¬conditions, conclusion)
            literals = (*map(negated, literals[:-1]), literals[-1])
        parts = [
            ("not " if a.negated else "")
            + (f"x{a.variable}" if self.allowed is not None else f"x{a.variable}={a.state}")
            for a in literals
        ]
        words = ", ".join(parts) if self.name != "implies" else f"{' and '.join(parts[:-1])} → {parts[-1]}"
        return f"{self.name}({words}{f'; {self.budget}' if self.kind == logic.BUDGET else ''})"


def _logical(kind: int, literals: Iterable[Any], name: str, limit: int = 0) -> Hard:
    found = tuple(map(literal, literals))
    if not found:
        raise InputError(f"{name} needs at least one literal")
    return Hard(kind, found, limit, None, name)


def exactly_one(literals: Iterable[Any]) -> Hard:
    """XOR: one literal is true, the others are false.

    Examples
    --------
    >>> print(exactly_one([(0, 1), (1, 2)]))
    exactly_one(x0=1, x1=2)
    """
    return _logical(logic.XOR, literals, "exactly_one")


def at_most_one(literals: Iterable[Any]) -> Hard:
    """No two literals are true."""
    return _logical(logic.AT_MOST_ONE, literals, "at_most_one")


def some(literals: Iterable[Any]) -> Hard:
    """OR: at least one literal is true."""
    return _logical(logic.OR, literals, "some")


def implies(conditions: Any, conclusion: Any) -> Hard:
    """All conditions true → the conclusion is true: some(¬conditions, conclusion).

    ``conditions`` is a list of literals, or one.

    Examples
    --------
    >>> print(implies([0, negated(2)], (1, 3)))
    implies(x0=1 and not x2=1 → x1=3)
    """
    given = conditions if isinstance(conditions, list) else [conditions]
    found = (*map(negated, given), literal(conclusion))
    return Hard(logic.OR, found, 0, None, "implies")


def or_output(literals: Iterable[Any], output: Any) -> Hard:
    """output ⇔ at least one of the literals is true."""
    return _logical(logic.OR_OUTPUT, [*map(literal, literals), literal(output)], "or_output")


def budget(literals: Iterable[Any], limit: int) -> Hard:
    """At most ``limit`` literals are true."""
    if limit < 0:
        raise InputError(f"a budget must be at least 0; got {limit}")
    return _logical(logic.BUDGET, literals, "budget", int(limit))


def all_equal(literals: Iterable[Any]) -> Hard:
    """All literals are true, or all are false."""
    return _logical(logic.EQUAL, literals, "all_equal")


def allowed_table(variables: Sequence[int], allowed: ArrayLike) -> Hard:
    """The configurations of some variables that may be: a bool array with one axis for each."""
    table = np.ascontiguousarray(np.asarray(allowed, bool).astype(np.uint8))
    if table.ndim != len(variables):
        raise InputError(f"a table over {len(variables)} variables has {table.ndim} axes")
    return Hard(logic.HARD_TABLE, tuple(Literal(int(v), 0) for v in variables), 0, table, "allowed_table")


class Graph:
    """Variables with numbers of states, soft factors over some of them, hard factors over states of some of them.

    Parameters
    ----------
    states : (n,) ints
        Number of states of each variable.
    factors : (F, arity) int array, or a sequence of scopes of any arity
        Variables of each soft factor, without repetition. Its table is row-major: the last variable runs fastest.
    hard : sequence of hard factors
        See :func:`exactly_one`, :func:`at_most_one`, :func:`some`, :func:`implies`, :func:`or_output`,
        :func:`budget`, :func:`all_equal` and :func:`allowed_table`.

    Examples
    --------
    >>> Graph([2, 3, 2], factors=[(0, 1), (1, 2)], hard=[at_most_one([0, 2])])
    Graph(3 variables, 2 soft factors, 1 hard factor)
    """

    def __init__(self, states: ArrayLike, factors: Any = (), hard: Sequence[Hard] = ()) -> None:
        self.states: Ints = np.atleast_1d(np.asarray(states))
        if self.states.ndim != 1 or self.states.dtype.kind not in "iu" or not len(self.states):
            raise InputError("a graph needs the numbers of states of at least one variable, as integers")
        self.states = self.states.astype(np.int64)
        if self.states.min() < 1:
            raise InputError(f"variable {int(self.states.argmin())} has no state")
        self.scope_start, self.scope = self._scopes(factors)
        self._check_scopes()
        self.hard = tuple(hard)
        for number, factor in enumerate(self.hard):
            self._check_hard(number, factor)

    @staticmethod
    def _scopes(factors: Any) -> tuple[Ints, Ints]:
        if isinstance(factors, np.ndarray) and factors.ndim == 2:
            starts = np.arange(len(factors) + 1, dtype=np.int64) * factors.shape[1]
            return starts, np.ascontiguousarray(factors, np.int64).ravel()
        scopes = [np.atleast_1d(np.asarray(scope)) for scope in factors]
        starts = np.append(0, np.cumsum([len(scope) for scope in scopes])).astype(np.int64)
        if not scopes:
            return starts, np.zeros(0, np.int64)
        flat = np.concatenate([np.zeros(0, np.int64), *(scope for scope in scopes if scope.size)])
        if flat.size and flat.dtype.kind not in "iu":
            raise InputError("scopes of factors must be integers")
        return starts, flat.astype(np.int64)

    def _check_scopes(self) -> None:
        n, lengths = len(self.states), np.diff(self.scope_start)
        if len(lengths) and lengths.min() < 1:
            raise InputError(f"soft factor {int(lengths.argmin())} has no variable")
        owner = np.repeat(np.arange(len(lengths)), lengths)
        wrong = np.flatnonzero((self.scope < 0) | (self.scope >= n))
        if len(wrong):
            f, v = int(owner[wrong[0]]), int(self.scope[wrong[0]])
            raise InputError(f"soft factor {f} names variable {v}; the graph has {n} variables")
        order = np.lexsort((self.scope, owner))
        twice = np.flatnonzero((np.diff(self.scope[order]) == 0) & (np.diff(owner[order]) == 0))
        if len(twice):
            f, v = int(owner[order[twice[0]]]), int(self.scope[order[twice[0]]])
            raise InputError(f"soft factor {f} names variable {v} twice; an edge needs two different ends")

    def _check_hard(self, number: int, factor: Hard) -> None:
        where, seen = f"hard factor {number}, {factor}", set()
        for a in factor.literals:
            if not 0 <= a.variable < len(self.states):
                raise InputError(f"{where}: there is no variable {a.variable}; the graph has {len(self.states)}")
            size = int(self.states[a.variable])
            if factor.allowed is None:
                if not 0 <= a.state < size:
                    raise InputError(f"{where}: variable {a.variable} has {size} states; there is no state {a.state}")
                if size == 1:
                    raise InputError(f"{where}: variable {a.variable} has only one state")
            key = (a.variable, a.state if size > 2 and factor.allowed is None else 0)
            if key in seen:
                raise InputError(f"{where}: variable {a.variable} occurs twice")
            seen.add(key)
        if factor.kind == logic.OR_OUTPUT and len(factor.literals) < 2:
            raise InputError(f"{where}: an output needs at least one input")
        if factor.allowed is not None:
            shape = tuple(int(self.states[a.variable]) for a in factor.literals)
            if factor.allowed.shape != shape:
                raise InputError(f"{where}: the table has shape {factor.allowed.shape}; the variables have {shape}")
            if not factor.allowed.any():
                raise InputError(f"{where}: the table allows nothing")

    @property
    def n_factors(self) -> int:
        """Number of soft factors."""
        return len(self.scope_start) - 1

    def __repr__(self) -> str:
        def count(n: int, noun: str) -> str:
            return f"{n} {noun}" if n == 1 else f"{n} {noun}s"

        sizes = (len(self.states), "variable"), (self.n_factors, "soft factor"), (len(self.hard), "hard factor")
        return f"Graph({', '.join(count(*pair) for pair in sizes)})"
