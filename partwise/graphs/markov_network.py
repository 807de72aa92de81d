"""MarkovNetwork: the potentials of a given graph, learned from a table of samples, and queries on the result."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from partwise.estimation.base import StoredModel, params_from_json, params_to_json
from partwise.exceptions import InputError, ParameterError, StorageError
from partwise.graphs.encoding import is_missing
from partwise.structures.factor_graph import FactorGraph
from partwise.structures.graphs.model import Graph

__all__ = ["MarkovNetwork"]

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class MarkovNetwork(StoredModel, BaseEstimator):
    """p(y) ∝ exp( Σ_v θ_v(y_v) + Σ_C θ_C(y_C) ) with θ of maximum penalised likelihood:

        max_θ Σ_rows log p(known values of the row) − λ/2 ‖θ‖²,     λ = l2.

    Rows without missing values enter by their counts alone. One with missing values is marginalised over them,
    log Z(θ; known) − log Z(θ), which makes the problem non-convex and assumes that values are missing at random.

    Parameters
    ----------
    cliques : sequence of sequences of columns
        Columns by name (or by number, for an array) of every factor. Every column has a factor of its own besides.
    states : mapping, optional
        {column: its values}; by default, the values that occur in the table.
    l2 : float
        Strength of the prior.
    inference : str
        Engine of :class:`~partwise.structures.FactorGraph`. With ``"trw"`` the likelihood is a lower bound, with
        ``"loopy_bp"`` an estimate.
    max_iter, tol : int, float
        Of L-BFGS: iterations, and the largest entry of the gradient per row at which it stops.

    Attributes
    ----------
    columns_ : list of columns
    states_ : dict of lists of values
    theta_ : (n_parts,) weights
    converged_ : bool

    Examples
    --------
    >>> X = np.array([["rain", "wet"], ["rain", "wet"], ["sun", "dry"], ["sun", "dry"], ["sun", "wet"]])
    >>> network = MarkovNetwork([(0, 1)], l2=0.1).fit(X)
    >>> round(network.probability({1: "wet"}, given={0: "sun"}), 2)
    0.35
    >>> network.map(given={1: "dry"})
    {0: 'sun', 1: 'dry'}
    """

    kind = "markov-network"

    def __init__(
        self,
        cliques: Sequence[Sequence[Hashable]],
        *,
        states: Mapping[Hashable, Sequence[Any]] | None = None,
        l2: float = 1.0,
        inference: str = "auto",
        max_iter: int = 200,
        tol: float = 1e-5,
    ) -> None:
        self.cliques, self.states, self.l2 = cliques, states, l2
        self.inference, self.max_iter, self.tol = inference, max_iter, tol

    # ----------------------------------------------------------------------------------------------
    # Learning

    def fit(self, X: Any, y: Any = None) -> MarkovNetwork:
        """Learn from a DataFrame or a 2-D array of values; None, NaN and pandas' NA are missing."""
        from scipy.optimize import minimize  # asking needs none of it

        if not self.l2 >= 0:
            raise ParameterError("l2", "MarkovNetwork", "a number ≥ 0", self.l2)
        columns, table = _columns(X)
        self.columns_ = columns
        self.states_ = {name: self._states_of(name, values) for name, values in zip(columns, table, strict=True)}
        self._space = self._make_space()
        codes = self._codes(X)
        rows, counts = np.unique(codes, axis=0, return_counts=True)
        whole = (rows >= 0).all(axis=1)
        n = len(codes)
        fixed = np.zeros(self._space.n_parts(0))
        for row, count in zip(rows[whole], counts[whole], strict=True):
            fixed += count * self._space.encode(0, row)
        partial = [(self._mask(row), count) for row, count in zip(rows[~whole], counts[~whole], strict=True)]

        def objective(theta: Floats) -> tuple[float, Floats]:
            log_z, mean = self._space.marginals(0, theta)
            value, gradient = n * log_z - fixed @ theta, n * mean - fixed
            for mask, count in partial:
                known, expected = self._space.marginals(0, np.where(mask, theta, -np.inf))
                value -= count * known
                gradient -= count * expected
            return float(value + 0.5 * self.l2 * theta @ theta) / n, (gradient + self.l2 * theta) / n

        found = minimize(objective, np.zeros(len(fixed)), jac=True, method="L-BFGS-B",
                         options={"maxiter": self.max_iter, "gtol": self.tol, "ftol": 1e-12})  # fmt: skip
        self.theta_, self.converged_, self.n_iter_ = found.x, bool(np.abs(found.jac).max() <= 10 * self.tol), found.nit
        if not self.converged_:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"training has not converged: L-BFGS stopped after {found.nit} iterations, where the largest entry of "
                f"the gradient is {np.abs(found.jac).max():.2g} (tol {self.tol:g}). Allow more (max_iter, now "
                f"{self.max_iter}), a larger tol, or a larger l2.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _make_space(self) -> FactorGraph:
        number = {name: v for v, name in enumerate(self.columns_)}
        for c, clique in enumerate(self.cliques):
            if isinstance(clique, str):
                raise InputError(f"clique {c} is the string {clique!r}; expected a sequence of columns")
            if len(set(clique)) < len(clique):
                raise InputError(f"clique {c} names a column twice: {list(clique)}")
            for name in clique:
                if name not in number:
                    raise InputError(f"clique {c} names column {name!r}; the table has {self.columns_}")
        sizes = [len(self.states_[name]) for name in self.columns_]
        scopes = [tuple(number[name] for name in clique) for clique in self.cliques]
        return FactorGraph([Graph(sizes, [scope for scope in scopes if len(scope) > 1])], inference=self.inference)

    def _states_of(self, name: Hashable, values: list[Any]) -> list[Any]:
        seen = list(dict.fromkeys(value for value in values if not is_missing(value)))
        if self.states is not None and name in self.states:
            return list(self.states[name])
        if not seen:
            raise InputError(f"column {name!r} has no known value; pass its states")
        try:
            return sorted(seen)
        except TypeError:  # values of several types
            return sorted(seen, key=lambda value: (type(value).__name__, str(value)))

    def _codes(self, X: Any) -> Codes:
        """(rows, columns) numbers of states, −1 where a value is missing."""
        columns, table = _columns(X)
        if columns != self.columns_:
            raise InputError(f"the table has columns {columns}; expected {self.columns_}")
        codes = np.empty((len(table[0]), len(columns)), np.int64)
        for v, (name, values) in enumerate(zip(columns, table, strict=True)):
            index = {value: k for k, value in enumerate(self.states_[name])}
            for r, value in enumerate(values):
                if is_missing(value):
                    codes[r, v] = -1
                elif value in index:
                    codes[r, v] = index[value]
                else:
                    raise InputError(f"row {r}: {value!r} is not a state of column {name!r}: {self.states_[name]}")
        return codes

    def _mask(self, row: Codes) -> NDArray[np.bool_]:
        """Parts that a row with missing values leaves open; those of factors follow from the states."""
        mask = np.ones(self._space.n_parts(0), bool)
        atoms = self._space.atoms(0)
        mask[: len(atoms.node)] = (row[atoms.node] < 0) | (row[atoms.node] == atoms.state)
        return mask

    # ----------------------------------------------------------------------------------------------
    # Asking

    def _evidence(self, given: Mapping[Hashable, Any] | None) -> FactorGraph:
        check_is_fitted(self, "theta_")
        return self._space.given(0, self._numbers(given or {})) if given else self._space

    def _numbers(self, values: Mapping[Hashable, Any]) -> dict[int, int]:
        found = {}
        for name, value in values.items():
            if name not in self.states_:
                raise InputError(f"there is no column {name!r}; the network has {self.columns_}")
            if value not in self.states_[name]:
                raise InputError(f"{value!r} is not a state of column {name!r}: {self.states_[name]}")
            found[self.columns_.index(name)] = self.states_[name].index(value)
        return found

    def probability(self, query: Mapping[Hashable, Any], given: Mapping[Hashable, Any] | None = None) -> float:
        """p(query | given), both {column: value}: a ratio of two partition functions."""
        space = self._evidence(given)
        wanted = self._numbers(query)
        known = self._numbers(given or {})
        if any(known.get(v, x) != x for v, x in wanted.items()):
            return 0.0
        both = self._space.given(0, {**known, **wanted})
        return float(np.exp(both.marginals(0, self.theta_)[0] - space.marginals(0, self.theta_)[0]))

    def marginals(self, given: Mapping[Hashable, Any] | None = None) -> dict[Hashable, dict[Any, float]]:
        """{column: {value: p(value | given)}}."""
        space = self._evidence(given)
        _, parts = space.marginals(0, self.theta_)
        atoms, answer = space.atoms(0), {}
        for v, name in enumerate(self.columns_):
            answer[name] = dict(
                zip(self.states_[name], parts[: len(atoms.node)][atoms.node == v].tolist(), strict=True)
            )
        return answer

    def map(self, given: Mapping[Hashable, Any] | None = None) -> dict[Hashable, Any]:
        """The most probable values of all columns."""
        space = self._evidence(given)
        y = space.decode(0, space.argmax(0, self.theta_))
        return {name: self.states_[name][int(x)] for name, x in zip(self.columns_, y, strict=True)}

    def sample(
        self, size: int, given: Mapping[Hashable, Any] | None = None, random_state: int | None = None
    ) -> NDArray[np.object_]:
        """(size, columns) draws from p(· | given)."""
        space = self._evidence(given)
        draws = space.sample(0, self.theta_, size, np.random.default_rng(random_state))
        states = [self.states_[name] for name in self.columns_]
        rows = [[states[v][x] for v, x in enumerate(space.decode(0, row))] for row in draws]
        return np.array(rows, dtype=object).reshape(size, len(states))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log p of the known values of a row; exact if the engine is."""
        check_is_fitted(self, "theta_")
        codes = self._codes(X)
        log_z, _ = self._space.marginals(0, self.theta_)
        total = 0.0
        for row, count in zip(*np.unique(codes, axis=0, return_counts=True), strict=True):
            if (row >= 0).all():
                value = float(self._space.encode(0, row) @ self.theta_)
            else:
                value = self._space.marginals(0, np.where(self._mask(row), self.theta_, -np.inf))[0]
            total += count * (value - log_z)
        return total / len(codes)

    # ----------------------------------------------------------------------------------------------
    # Storage

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Settings, columns and their values as JSON, weights as an array."""
        check_is_fitted(self, "theta_")
        settings = {name: getattr(self, name) for name in ("l2", "inference", "max_iter", "tol")}
        header = {
            "params": params_to_json(settings),
            "columns": [_plain(name, "the name of a column") for name in self.columns_],
            "states": [
                [_plain(value, f"a value of column {name!r}") for value in self.states_[name]] for name in self.columns_
            ],
            "cliques": [[self.columns_.index(name) for name in clique] for clique in self.cliques],
            "converged": self.converged_,
            "iterations": int(self.n_iter_),
        }
        return header, {"theta": self.theta_}

    @classmethod
    def from_state(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> MarkovNetwork:
        """The network of a stored state, ready for queries."""
        columns = list(header["columns"])
        cliques = [[columns[v] for v in clique] for clique in header["cliques"]]
        states = dict(zip(columns, map(list, header["states"]), strict=True))
        model = cls(cliques, states=states, **params_from_json(header["params"]))
        model.columns_, model.states_ = columns, states
        model.theta_, model._space = np.asarray(arrays["theta"], float), model._make_space()
        model.converged_, model.n_iter_ = bool(header["converged"]), int(header["iterations"])
        if model.theta_.shape != (model._space.n_parts(0),):
            raise StorageError(f"there are {len(model.theta_)} weights; the graph has {model._space.n_parts(0)} parts")
        return model


def _plain(value: Any, what: str) -> Any:
    """A value that survives a JSON round trip; any other is an error that names it."""
    found = value.item() if isinstance(value, np.generic) else value
    if isinstance(found, str | int | float | bool):
        return found
    raise InputError(f"{what} is {value!r}, a {type(value).__name__}; a file holds strings and numbers only")


def _columns(X: Any) -> tuple[list[Hashable], list[list[Any]]]:
    """(names, values) of the columns of a DataFrame or a 2-D array; arrays number them."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        names = list(X.columns)
        twice = [name for k, name in enumerate(names) if name in names[:k]]
        if twice:
            raise InputError(f"the table has two columns {twice[0]!r}; names must differ")
        table = [X[name].tolist() for name in names]
    else:
        array = X if isinstance(X, np.ndarray) else np.asarray(X, dtype=object)  # lists keep the types of their values
        if array.ndim != 2:
            raise InputError(f"expected a table of two dimensions; got shape {array.shape}")
        names, table = list(range(array.shape[1])), [column.tolist() for column in array.T]
    if not names or not table[0]:
        raise InputError("expected a table with at least one row and one column")
    return names, table
