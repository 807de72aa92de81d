"""The UAI format: models, evidence and answers of probabilistic inference, as solvers of the field exchange them.

A model is ``MARKOV`` or ``BAYES``, the number of variables, their numbers of states, the number of factors, a line per
factor (arity, then its variables), and for each factor the size of its table and the entries, the last variable
running fastest. Evidence is a count and pairs "variable state". Answers are ``MPE``, ``MAR`` (marginals) and ``PR``
(log10 of Z).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.exceptions import FormatError, InputError
from partwise.structures.graphs.model import Graph, Hard

__all__ = ["UaiModel", "format_answer", "read_evidence", "read_uai", "write_uai"]

Floats = NDArray[np.float64]
LARGEST = 2**22  # entries of a table that a hard factor may become


@dataclass(frozen=True)
class UaiModel:
    """Potentials Ψ_C ≥ 0 over discrete variables: p(y) ∝ Π_C Ψ_C(y_C).

    Examples
    --------
    >>> model = UaiModel([2, 2], [(0,), (0, 1)], [np.array([1.0, 3.0]), np.array([[2.0, 1.0], [1.0, 2.0]])])
    >>> graph, scores, constant = model.factor_graph()
    >>> graph
    Graph(2 variables, 1 soft factor, 0 hard factors)
    >>> scores.round(2).tolist()
    [0.0, 1.1, 0.0, 0.0, 0.69, 0.0, 0.0, 0.69]
    """

    states: Sequence[int]
    scopes: Sequence[tuple[int, ...]]
    tables: Sequence[Floats] = field(repr=False)
    kind: str = "MARKOV"

    def factor_graph(self) -> tuple[Graph, Floats, float]:
        """(graph, part scores, log of the constant factors): tables of one variable become scores of its states."""
        starts = np.append(0, np.cumsum(self.states))
        atoms, constant = np.zeros(starts[-1]), 0.0
        scopes, tables = [], [np.zeros(0)]
        with np.errstate(divide="ignore"):  # a potential of 0 forbids
            for scope, table in zip(self.scopes, self.tables, strict=True):
                logs = np.log(np.asarray(table, float))
                if len(scope) == 0:
                    constant += float(logs.ravel()[0])
                elif len(scope) == 1:
                    atoms[starts[scope[0]] : starts[scope[0] + 1]] += logs.ravel()
                else:
                    scopes.append(scope)
                    tables.append(logs.ravel())
        return Graph(self.states, scopes), np.concatenate([atoms, *tables]), constant

    @classmethod
    def from_graph(cls, graph: Graph, scores: ArrayLike) -> UaiModel:
        """Potentials exp(s) of a graph with part scores; hard factors become tables of 0 and 1."""
        values, sizes = np.exp(np.asarray(scores, float)), graph.states.tolist()
        starts = np.append(0, np.cumsum(graph.states))
        scopes: list[tuple[int, ...]] = [(v,) for v in range(len(sizes))]
        tables = [values[a:b] for a, b in pairwise(starts)]
        at = int(starts[-1])
        for a, b in pairwise(graph.scope_start):
            scope = tuple(graph.scope[a:b].tolist())
            shape = [sizes[v] for v in scope]
            scopes.append(scope)
            tables.append(values[at : at + math.prod(shape)].reshape(shape))
            at += math.prod(shape)
        for factor in graph.hard:
            scope, table = _hard_table(factor, sizes)
            scopes.append(scope)
            tables.append(table)
        return cls(sizes, scopes, tables)


def _hard_table(factor: Hard, sizes: Sequence[int]) -> tuple[tuple[int, ...], Floats]:
    """A hard factor as a table over its variables."""
    scope = tuple(dict.fromkeys(a.variable for a in factor.literals))
    shape = [sizes[v] for v in scope]
    if math.prod(shape) > LARGEST:
        raise InputError(f"{factor} has {math.prod(shape)} configurations, too many for a table in a UAI file")
    if factor.allowed is not None:
        return scope, factor.allowed.astype(float)
    table = np.zeros(shape)
    for y in np.ndindex(*shape):
        table[y] = factor.holds(dict(zip(scope, y, strict=True)))
    return scope, table


class _Tokens:
    """Words of a file with the lines they stand on."""

    def __init__(self, path: Path | str) -> None:
        self.path = str(path)
        self.words = self._read()
        self.line = 0

    def _read(self) -> Iterator[tuple[int, str]]:
        with open(self.path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                for word in line.split():
                    yield number, word

    def next(self, what: str) -> str:
        found = next(self.words, None)
        if found is not None:
            self.line = found[0]
            return found[1]
        raise FormatError(f"the file ends where {what} should be", self.path, self.line + 1)

    def number(self, what: str, least: int = 0, below: int | None = None) -> int:
        word = self.next(what)
        expected = f"{what}, a whole number from {least}" + (f" to {below - 1}" if below is not None else " on")
        try:
            value = int(word)
        except ValueError:
            raise FormatError(f"expected {expected}; got {word!r}", self.path, self.line) from None
        if value < least or (below is not None and value >= below):
            raise FormatError(f"expected {expected}; got {value}", self.path, self.line)
        return value

    def potential(self, what: str) -> float:
        word = self.next(what)
        try:
            value = float(word)
        except ValueError:
            raise FormatError(f"expected {what}, a number ≥ 0; got {word!r}", self.path, self.line) from None
        if not 0 <= value < math.inf:
            raise FormatError(f"expected {what}, a number ≥ 0; got {word}", self.path, self.line)
        return value

    def rest(self) -> tuple[int, str] | None:
        return next(self.words, None)


def read_uai(path: Path | str) -> UaiModel:
    """The model of a UAI file, ``MARKOV`` or ``BAYES``. Errors name the line."""
    tokens = _Tokens(path)
    kind = tokens.next("MARKOV or BAYES")
    if kind not in ("MARKOV", "BAYES"):
        raise FormatError(f"expected MARKOV or BAYES; got {kind!r}", tokens.path, tokens.line)
    n = tokens.number("the number of variables", 1)
    states = [tokens.number(f"the number of states of variable {v}", 1) for v in range(n)]
    count = tokens.number("the number of factors")
    scopes = []
    for f in range(count):
        arity = tokens.number(f"the number of variables of factor {f}")
        scope = tuple(tokens.number(f"a variable of factor {f}", 0, n) for _ in range(arity))
        if len(set(scope)) < arity:
            raise FormatError(f"factor {f} names a variable twice", tokens.path, tokens.line)
        scopes.append(scope)
    tables = []
    for f, scope in enumerate(scopes):
        shape = [states[v] for v in scope]
        size = tokens.number(f"the size of the table of factor {f}", 1)
        if size != math.prod(shape):
            words = f"the table of factor {f} has {size} entries; its variables have {math.prod(shape)} configurations"
            raise FormatError(words, tokens.path, tokens.line)
        entries = [tokens.potential(f"entry {c} of the table of factor {f}") for c in range(size)]
        tables.append(np.array(entries).reshape(shape))
    left = tokens.rest()
    if left is not None:
        raise FormatError(f"expected the end of the file after {count} factors; got {left[1]!r}", tokens.path, left[0])
    return UaiModel(states, scopes, tables, kind)


def write_uai(path: Path | str, model: UaiModel) -> None:
    """Write a model; reading it back gives the same numbers."""
    lines = [model.kind, str(len(model.states)), " ".join(map(str, model.states)), str(len(model.scopes))]
    lines += [" ".join(map(str, (len(scope), *scope))) for scope in model.scopes]
    for table in model.tables:
        flat = np.asarray(table, float).ravel()
        lines += ["", str(len(flat)), " ".join(repr(float(value)) for value in flat)]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_evidence(path: Path | str, states: Sequence[int]) -> dict[int, int]:
    """{variable: state} of an evidence file, with or without the number of samples (1) in front."""
    tokens = _Tokens(path)
    words = list(tokens.words)
    numbers = []
    for line, word in words:
        if not word.isdigit():
            raise FormatError(f"expected a whole number; got {word!r}", tokens.path, line)
        numbers.append(int(word))
    if len(numbers) >= 2 and numbers[0] == 1 and len(numbers) == 2 + 2 * numbers[1]:
        numbers, words = numbers[1:], words[1:]
    if not numbers or len(numbers) != 1 + 2 * numbers[0]:
        line = words[-1][0] if words else 1
        expected = "a count and as many pairs of variable and state"
        raise FormatError(f"expected {expected}; got {len(numbers)} numbers", tokens.path, line)
    evidence: dict[int, int] = {}
    for k in range(numbers[0]):
        (v, x), line = numbers[1 + 2 * k : 3 + 2 * k], words[1 + 2 * k][0]
        if v >= len(states):
            raise FormatError(f"evidence on variable {v}; the model has {len(states)}", tokens.path, line)
        if x >= states[v]:
            raise FormatError(f"evidence for state {x} of variable {v}, which has {states[v]}", tokens.path, line)
        if evidence.setdefault(v, x) != x:
            raise FormatError(f"evidence for variable {v} twice, with different states", tokens.path, line)
    return evidence


def format_answer(task: str, answer: Any) -> str:
    """The text of a result file: states (MAP), a list of distributions (MAR), or the natural log of Z (PR).

    Examples
    --------
    >>> print(format_answer("PR", math.log(100.0)))
    PR
    2.0
    """
    if task == "PR":
        return f"PR\n{answer / math.log(10.0)}"
    if task == "MAP":
        return "MPE\n" + " ".join(map(str, [len(answer), *(int(x) for x in answer)]))
    words = [str(len(answer))]
    for row in answer:
        words += [str(len(row)), *(repr(float(p)) for p in row)]
    return "MAR\n" + " ".join(words)
