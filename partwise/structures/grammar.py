"""Grammar: the derivations of sentences under a context-free grammar in binary form with unary chains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from partwise._threads import Threads
from partwise.exceptions import InputError, ParameterError
from partwise.structures import _grammar_kernels as _grammar_kernels  # registers the oracles
from partwise.structures import _grammar_polytope as _grammar_polytope
from partwise.structures._grammar_space import GrammarRules, GrammarSpace, grow, span_number, tree_parts, tree_rows
from partwise.structures.atoms import ConstituentAtoms
from partwise.structures.base import CompiledStructure, Floats, Polytope
from partwise.structures.registry import register_structure

__all__ = ["Grammar", "compile_rules", "grow_forests"]

Ints = NDArray[np.int64]
Tags = Sequence[Sequence[Iterable[int]]]


class Grammar(CompiledStructure):
    """y = a derivation with score Σ_A s(A, i, j) + Σ_r s(A → B C, i, m, j): Bartlett et al. (2004), Example 2.

    Parts are constituents (the atoms: a symbol over a span) and anchored rules, those that occur in a derivation of the
    sentence and no others. They form a forest whose nodes are shared by derivations; every oracle is one pass over it.

    An output is an integer array (k, 3) of rows (start, stop, symbol): the nodes of the tree, top down and left to
    right. A row over the same words as the row before it is its only child.

    Parameters
    ----------
    tags : sequence, per instance, of sequences, per word, of symbols
        Symbols allowed over each word, as if by a rule A → word.
    n_symbols : int
        S; symbols are 0 … S − 1.
    binary : (R, 3) array
        Rules A → B C.
    unary : sequence of sequences
        Unary chains (A, …, B) from the top down, each with two symbols or more. The last is made of two children or of
        a word. Chains are used as listed: (A, B) and (B, C) do not make (A, B, C).
    root : sequence of int, optional
        Symbols allowed over the whole sentence; any by default.
    labels : (S,) array, optional
        The label of each symbol, −1 for one that is no constituent (a part of speech, the inside of a long rule).
        The symbols themselves if absent.
    allowed : sequence of (k, 3) arrays, optional
        Rows (start, stop, symbol) per instance: the constituents kept by a coarse pass. All by default.
    n_threads : int
        Number of threads that build the forests.

    Notes
    -----
    Complexity: every oracle O(edges of the forest), at most O(R n³); k-best times k log k; slack times the square of
    the number of costs.

    There is no ``project``: projection does not decompose over spans.

    Examples
    --------
    >>> S, NP, VP, V = range(4)
    >>> space = Grammar([[[NP], [V], [NP]]], 4, [(S, NP, VP), (VP, V, NP)], root=[S])
    >>> space.decode(0, space.argmax(0, np.zeros(space.n_parts(0)))).tolist()
    [[0, 3, 0], [0, 1, 1], [1, 3, 2], [1, 2, 3], [2, 3, 1]]
    >>> space.atoms(0).stop.tolist()
    [1, 2, 3, 3, 3]
    """

    def __init__(
        self,
        tags: Tags,
        n_symbols: int,
        binary: ArrayLike,
        unary: Sequence[Sequence[int]] = (),
        *,
        root: Sequence[int] | None = None,
        labels: ArrayLike | None = None,
        allowed: Sequence[ArrayLike] | None = None,
        n_threads: int = 1,
    ) -> None:
        rules = compile_rules(n_symbols, binary, unary, root)
        if allowed is not None and len(allowed) != len(tags):
            raise InputError(f"'allowed' has {len(allowed)} entries for {len(tags)} instances")
        offsets, flat = _packed_tags(tags, n_symbols)
        tables = None if allowed is None else [
            _allowed_table(i, len(words), n_symbols, np.asarray(allowed[i])) for i, words in enumerate(tags)
        ]  # fmt: skip
        forests = grow_forests(rules, offsets, flat, tables, n_threads)
        self._take(rules, np.array([len(words) for words in tags], np.int64), forests, labels)
        empty = np.flatnonzero(np.diff(self._pack.nodes) == 0)
        if len(empty):
            raise InputError(f"the grammar derives no tree for instance {int(empty[0])} (and {len(empty) - 1} others)")

    def _take(self, rules: GrammarRules, lengths: Ints, forests: list[Any], labels: ArrayLike | None) -> None:
        S, U = rules.n_symbols, len(rules.ends)
        names = np.arange(S) if labels is None else np.asarray(labels)
        if names.shape != (S,) or names.dtype.kind not in "iu":
            raise ParameterError("labels", "Grammar", f"{S} integers, one per symbol", labels)
        symbols = np.concatenate([np.arange(S), rules.ends, np.arange(S), np.arange(S), [-1]]).astype(np.int32)
        state, start, stop, counts, left, right = (
            np.concatenate([np.zeros(0, np.int32), *(forest[k] for forest in forests)]) for k in range(6)
        )
        sizes = np.array([len(forest[0]) for forest in forests], np.int64)
        nodes = np.append(0, np.cumsum(sizes))
        counted = (state < 2 * S + U) & (names[np.minimum(symbols[state], S - 1)] >= 0)
        before = np.append(0, np.cumsum(counted))
        atom = np.where(counted, before[:-1] - np.repeat(before[nodes[:-1]], sizes), -1)
        self.rules, self.lengths, self.n_symbols = rules, lengths, S
        self._pack = GrammarSpace(
            lengths,
            nodes,
            np.append(0, np.cumsum([len(forest[4]) for forest in forests])).astype(np.int64),
            before[nodes].astype(np.int64),
            state,
            start,
            stop,
            atom.astype(np.int32),
            np.append(0, np.cumsum(counts, dtype=np.int64)),
            left,
            right,
            symbols,
            names.astype(np.int32),
            S,
        )

    @classmethod
    def of_forests(
        cls, rules: GrammarRules, lengths: ArrayLike, forests: list[Any], labels: ArrayLike | None = None
    ) -> Grammar:
        """The space of forests that :func:`grow_forests` has grown, none of them empty."""
        space = cls.__new__(cls)
        space._take(rules, np.asarray(lengths, np.int64), forests, labels)
        return space

    @property
    def pack(self) -> GrammarSpace:
        return self._pack

    def __len__(self) -> int:
        return len(self.lengths)

    def instance_sizes(self) -> tuple[Ints, Ints]:
        """As ``part_count`` and ``work_size`` have it, in closed form: nothing to compile."""
        parts = np.diff(self._pack.atoms) + np.diff(self._pack.edges)
        return parts, parts + 2 * np.diff(self._pack.nodes)

    def n_parts(self, i: int) -> int:
        pack = self._pack
        return int(pack.atoms[i + 1] - pack.atoms[i] + pack.edges[i + 1] - pack.edges[i])

    def n_atoms(self, i: int) -> int:
        return int(self._pack.atoms[i + 1] - self._pack.atoms[i])

    def default_cost(self) -> tuple[float, float]:
        """Wrong and missed constituents: trees differ in how many they have."""
        return 1.0, 1.0

    def atoms(self, i: int) -> ConstituentAtoms:
        """The constituents of instance i that some tree has, in the order of their parts."""
        pack = self._pack
        here = slice(pack.nodes[i], pack.nodes[i + 1])
        used = pack.atom[here] >= 0
        symbol = pack.symbols[pack.state[here][used]].astype(np.int64)
        start, stop = pack.start[here][used].astype(np.int64), pack.stop[here][used].astype(np.int64)
        return ConstituentAtoms(start, stop, pack.labels[symbol].astype(np.int64), symbol)

    def encode(self, i: int, y: Any) -> Floats:
        parts = np.zeros(self.n_parts(i))
        parts[self._numbers(i, y)] = 1.0
        return parts

    def encode_all(self, outputs: Sequence[Any]) -> tuple[Ints, NDArray[np.int32], Floats]:
        if len(outputs) != len(self):
            raise InputError(f"got {len(outputs)} outputs for {len(self)} instances")
        numbers = [np.sort(self._numbers(i, y)) for i, y in enumerate(outputs)]
        offsets = np.append(0, np.cumsum([len(row) for row in numbers])).astype(np.int64)
        flat = np.concatenate([np.zeros(0, np.int64), *numbers]).astype(np.int32)
        return offsets, flat, np.ones(len(flat))

    def _numbers(self, i: int, y: Any) -> Ints:
        """The parts of a tree."""
        rows = np.asarray(y)
        if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu" or not len(rows):
            raise InputError(f"the tree of instance {i} must be rows (start, stop, symbol) of integers")
        rows = np.ascontiguousarray(rows, np.int64)
        if rows[:, 2].min() < 0 or rows[:, 2].max() >= self.n_symbols:
            raise InputError(f"symbols of instance {i} must be in 0..{self.n_symbols - 1}")
        numbers = np.zeros(3 * len(rows) + 1, np.int64)
        count, fault = tree_parts(self.rules, self._pack, i, rows, numbers)
        if fault >= 0:
            start, stop, symbol = rows[count].tolist()
            what = "has no such constituent" if fault == 0 else "makes it with other children only"
            raise InputError(f"symbol {symbol} over words {start}..{stop - 1} of instance {i}: the forest {what}")
        return numbers[:count]

    def decode(self, i: int, parts: Floats) -> Ints:
        """Rows (start, stop, symbol) of the tree, top down and left to right."""
        longest = max(2, len(self.rules.ends) + 2)
        rows = np.zeros((2 * longest * int(self.lengths[i]), 3), np.int64)
        return rows[: tree_rows(self._pack, i, np.asarray(parts, float), rows)].copy()

    def polytope(self, i: int) -> Polytope:
        """Every node is made as often as it is used, the root once; a constituent is a node."""
        pack = self._pack
        here, edges = slice(pack.nodes[i], pack.nodes[i + 1]), slice(pack.edges[i], pack.edges[i + 1])
        n_nodes, n_atoms, n_edges = here.stop - here.start, self.n_atoms(i), edges.stop - edges.start
        node = np.repeat(np.arange(n_nodes), np.diff(pack.first[here.start : here.stop + 1]))
        left, right, number = pack.left[edges], pack.right[edges], n_atoms + np.arange(n_edges)
        flow = [
            (node, number, 1.0),
            (left[left >= 0], number[left >= 0], -1.0),
            (right[right >= 0], number[right >= 0], -1.0),
        ]
        atom = pack.atom[here]
        counted = np.flatnonzero(atom >= 0)
        inside = atom[node] >= 0
        flow += [(n_nodes + atom[counted], atom[counted], -1.0), (n_nodes + atom[node][inside], number[inside], 1.0)]
        rows, columns = (np.concatenate([entry[k] for entry in flow]) for k in range(2))
        values = np.concatenate([np.full(len(entry[0]), entry[2]) for entry in flow])
        n = self.n_parts(i)
        equal = scipy.sparse.csr_array((values, (rows, columns)), shape=(n_nodes + n_atoms, n))
        to = np.zeros(n_nodes + n_atoms)
        to[n_nodes - 1] = 1.0
        return Polytope(equal, to, scipy.sparse.csr_array((0, n)), np.zeros(0))

    def slack_obstacle(self, offsets: Ints, numbers: NDArray[np.int32], values: Floats) -> str | None:
        odd = np.flatnonzero(values != np.rint(values))
        if not len(odd):
            return None
        i = int(np.searchsorted(offsets, odd[0], side="right")) - 1
        return (
            f"part {numbers[odd[0]]} of instance {i} costs {values[odd[0]]:g}; slack rescaling on Grammar adds up "
            "integer costs: multiply them by a number that makes them whole and divide gamma by it"
        )


def compile_rules(
    n_symbols: int, binary: ArrayLike, unary: Sequence[Sequence[int]] = (), root: Sequence[int] | None = None
) -> GrammarRules:
    """The tables of a grammar: rules by their children, ends of chains by length, chains by their head.

    Examples
    --------
    >>> compile_rules(3, [(0, 1, 2)], [(0, 1), (2, 0, 1)]).ends.tolist()
    [0]
    """
    S = int(n_symbols)
    if S < 1:
        raise ParameterError("n_symbols", "Grammar", "at least 1", n_symbols)
    pairs = np.asarray(binary, np.int64).reshape(-1, 3)
    chains = sorted({tuple(int(a) for a in chain) for chain in unary})
    tops = list(range(S)) if root is None else [int(a) for a in root]
    used = [*pairs.ravel().tolist(), *(a for chain in chains for a in chain), *tops]
    if used and not 0 <= min(used) <= max(used) < S:
        raise ParameterError("n_symbols", "Grammar", f"above every symbol of the rules ({max(used)})", n_symbols)
    short = [chain for chain in chains if len(chain) < 2]
    if short:
        raise ParameterError("unary", "Grammar", "chains of two symbols or more", short[0])
    pairs = np.unique(pairs, axis=0)
    children = pairs[:, 1] * S + pairs[:, 2]
    order = np.lexsort((pairs[:, 0], children))
    starts = np.searchsorted(children[order], np.arange(S * S + 1))
    ends = sorted({chain[k:] for chain in chains for k in range(1, len(chain) - 1)}, key=lambda end: (len(end), end))
    state = {(a,): a for a in range(S)} | {end: S + u for u, end in enumerate(ends)}
    allowed = np.zeros(S, np.uint8)
    allowed[tops] = 1
    return GrammarRules(
        S,
        starts.astype(np.int32),
        pairs[order, 0].astype(np.int32),
        np.array([end[0] for end in ends], np.int32),
        np.array([state[end[1:]] for end in ends], np.int32),
        np.searchsorted([chain[0] for chain in chains], np.arange(S + 1)).astype(np.int32),
        np.array([state[chain[1:]] for chain in chains], np.int32),
        allowed,
    )


def grow_forests(
    rules: GrammarRules,
    offsets: list[Ints],
    tags: list[NDArray[np.int32]],
    allowed: list[Any] | None,
    n_threads: int = 1,
) -> list[Any]:
    """The forest of every sentence; one without nodes where the grammar derives no tree.

    The tags of word t of sentence i are tags[i][offsets[i][t]:offsets[i][t + 1]]; allowed[i], if given, is a table
    (spans, symbols) of 0 and 1 with spans numbered by ``span_number``.
    """
    forests: list[Any] = [None] * len(offsets)
    free = np.zeros((0, 0), np.uint8)

    def one(i: int) -> None:
        forests[i] = grow(rules, len(offsets[i]) - 1, offsets[i], tags[i], free if allowed is None else allowed[i])

    Threads(n_threads).each(one, [(i,) for i in range(len(offsets))])
    return forests


def _packed_tags(tags: Tags, n_symbols: int) -> tuple[list[Ints], list[NDArray[np.int32]]]:
    offsets, flat = [], []
    for i, words in enumerate(tags):
        if not len(words):
            raise InputError(f"instance {i} is an empty sentence; expected at least one word")
        rows = [sorted({int(a) for a in word}) for word in words]
        symbols = np.array([a for row in rows for a in row], np.int32)
        if len(symbols) and not 0 <= symbols.min() <= symbols.max() < n_symbols:
            raise InputError(f"tags of instance {i} must be in 0..{n_symbols - 1}")
        offsets.append(np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int64))
        flat.append(symbols)
    return offsets, flat


def _allowed_table(i: int, n: int, n_symbols: int, rows: NDArray[Any]) -> NDArray[np.uint8]:
    if rows.ndim != 2 or rows.shape[1] != 3 or rows.dtype.kind not in "iu":
        raise InputError(f"'allowed' of instance {i} must be rows (start, stop, symbol) of integers")
    start, stop, symbol = rows.astype(np.int64).T
    if len(rows) and not ((start >= 0) & (start < stop) & (stop <= n) & (symbol >= 0) & (symbol < n_symbols)).all():
        raise InputError(f"'allowed' of instance {i} has rows outside of 0 ≤ start < stop ≤ {n}, symbol < {n_symbols}")
    table = np.zeros((n * (n + 1) // 2, n_symbols), np.uint8)
    table[span_number.py_func(start, stop), symbol] = 1
    return table


register_structure("Grammar", lambda: Grammar([[[1], [1]]], 2, [(0, 1, 1), (0, 0, 1)], [(0, 1)], root=[0]))
