"""GraphLabeler: labels of the nodes of graphs, with the dependence along their edges."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from partwise.batch import Batch
from partwise.costs import Cost, PartCost
from partwise.estimation.base import make_learner, make_loss, thread_count
from partwise.estimation.estimator import check_is_fitted
from partwise.estimation.learned import LearnedEstimator, cost_for
from partwise.estimation.outputs import Outputs, as_list
from partwise.exceptions import CapabilityError, InputError, ParameterError, StorageError
from partwise.graphs.attributed import AttributedGraph
from partwise.graphs.encoding import EdgeType, GraphEncoder, GraphFeatures, NodeType, accuracy, graph_list
from partwise.graphs.interaction import INTERACTIONS, choose_interaction
from partwise.graphs.spaces import CUTS, choose_inference, label_costs, make_space, pinned_states
from partwise.graphs.unknown import KnownLabels
from partwise.learners import Learner
from partwise.learners.base import Callback
from partwise.learners.frank_wolfe import FrankWolfe
from partwise.losses import LossFunction
from partwise.problem import Problem
from partwise.structures.base import Structure
from partwise.structures.factor_graph import FactorGraph

__all__ = ["GraphLabeler"]

ROUNDS = 10  # of filling in unknown labels and training, at most

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class GraphLabeler(LearnedEstimator):
    """argmax_y Σ_j x_jᵀw(y_j) − Σ_{jk} u_jkᵀv [y_j ≠ y_k], or with a weight for every pair of labels in place of v.

    Parameters
    ----------
    interaction : {"auto", "associative", "full", "none"}
        What edges can express. ``associative``: neighbours tend to agree, with a strength uᵀv given by the edge
        features u ≥ 0 and the weights v ≥ 0. ``full``: a table of weights over pairs of labels for every edge feature,
        of any sign. ``none``: the edges are ignored. ``auto``: ``full`` on trees, on narrow graphs
        whose joined nodes tend to differ, and where edges cannot ask for agreement (types with different labels,
        negative features); else ``associative``, which is also chosen if you set a loss with margins, a learner or
        costs.
    inference : str
        ``auto``: with two labels and associative edges the minimum cut, which is exact; with more labels α-expansion
        (``expansion``); with full tables an exact junction tree if it fits, else ``trw``, chosen for the graphs
        of every call. Otherwise the name of an engine of
        :class:`~partwise.structures.factor_graph.FactorGraph`.
    inference_options : dict, optional
        Settings of that engine.
    scale : bool
        Centre node features and scale them to deviation 1, as measured in training. A constant is always added.
    loss, learner, C, cost, max_passes, learner_options, patience, random_state, n_jobs, verbose
        As in :class:`SequenceLabeler`. The learner must keep weights ≥ 0 if edges are associative. By default the
        likelihood by L-BFGS with full tables, and margins by ``one_slack`` with cuts and engines without marginals.

    Attributes
    ----------
    encoder_ : types, labels and scales found in training
    interaction_, inference_ : what edges express, and the inference that training used
    theta_ : (dim,) weights: of nodes by type (features × labels), then of edges by type
    result_ : Result with the trace, the certificate and the status
    n_rounds_ : how often unknown labels were filled in; only where there are some and the loss has a cost

    Examples
    --------
    A row of six nodes; the third would be labelled wrongly on its own:

    >>> from partwise.graphs import AttributedGraph
    >>> row = [(j, j + 1) for j in range(5)]
    >>> train = [AttributedGraph([[1.0], [0.8], [-0.2], [1.1], [-0.9], [-1.2]], row)] * 3
    >>> labels = [["sky", "sky", "sky", "sky", "sea", "sea"]] * 3
    >>> model = GraphLabeler(interaction="associative", C=10.0).fit(train, labels)
    >>> model.predict([AttributedGraph([[0.9], [-0.3], [0.7], [-0.8], [-1.0], [-0.6]], row)])[0].tolist()
    ['sky', 'sky', 'sky', 'sea', 'sea', 'sea']
    >>> model.inference_
    'cut'
    """

    kind = "graph-labeler"
    not_stored = ("cost",)

    def __init__(
        self,
        *,
        interaction: str = "auto",
        inference: str = "auto",
        inference_options: dict[str, Any] | None = None,
        scale: bool = True,
        loss: Any = None,
        learner: Any = None,
        C: float = 1.0,
        cost: Cost | Callable[[Any, Any], Cost] | None = None,
        max_passes: int | None = None,
        learner_options: dict[str, Any] | None = None,
        patience: int | None = None,
        random_state: int = 0,
        n_jobs: int = 1,
        verbose: int = 0,
    ) -> None:
        self.interaction, self.inference, self.inference_options = interaction, inference, inference_options
        self.scale, self.loss, self.learner, self.C, self.cost = scale, loss, learner, C, cost
        self.max_passes, self.learner_options, self.patience = max_passes, learner_options, patience
        self.random_state, self.n_jobs, self.verbose = random_state, n_jobs, verbose

    # training

    def check_settings(self) -> None:
        """Raise an error for settings that cannot work, before anything is computed."""
        if self.interaction not in INTERACTIONS:
            wanted = "'auto', 'associative', 'full' or 'none'"
            raise ParameterError("interaction", "GraphLabeler", wanted, self.interaction)
        super().check_settings()

    def _choose_interaction(self, graphs: Sequence[AttributedGraph], labels: Sequence[Any], priced: bool) -> None:
        """Set ``interaction_``: what the user wants, or what suits the graphs."""
        self.interaction_ = self.interaction
        if self.interaction == "auto":
            if len(graphs) != len(labels):
                raise InputError(f"there are {len(graphs)} graphs but labels for {len(labels)}")
            if not len(graphs):
                raise InputError("there are no graphs to train on")
            likelihood = self.loss is not None and np.isfinite(make_loss(self.loss).beta)
            margins = priced or any(given is not None for given in (self.loss, self.learner, self.learner_options))
            self.interaction_ = choose_interaction(
                graphs, labels, inference=self.inference, likelihood=bool(likelihood), margins=margins
            )

    def _settings(self, max_passes: int | None = None) -> tuple[Learner, LossFunction]:
        name, tables = self.learner, getattr(self, "interaction_", self.interaction) == "full"
        tables = tables and self.inference not in ("ad3", "branch_and_bound")  # which have no marginals
        if name is None:  # exact likelihood where there are tables, margins where there are cuts
            smooth = tables if self.loss is None else make_loss(self.loss).smooth
            name = "lbfgs" if smooth else "one_slack"
        options, limit = dict(self.learner_options or {}), self.max_passes if max_passes is None else max_passes
        learner = make_learner(name, self.C, limit, self.random_state, options)
        return learner, make_loss(self.loss, learner, usual="crf" if tables else "svm")

    def fit(
        self,
        X: Sequence[AttributedGraph],
        y: Sequence[Any],
        *,
        node_weights: Sequence[Any] | None = None,
        dev: tuple[Sequence[AttributedGraph], Sequence[Any]] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on graphs with a label for every node. Ctrl-C ends training and keeps the best weights so far.

        Parameters
        ----------
        X : the graphs
        y : labels, one sequence per graph, in the order of its nodes; or a mapping from node types to sequences
            None or NaN stands for an unknown label. A likelihood is summed over unknown labels; with margins they are
            filled in and the model is trained again, ``n_rounds_`` times; the certificate is that of the last round.
        node_weights : one (N,) array per graph, optional
            What a mistake at each node costs, for example the pixels of a superpixel; 1 if absent.
        dev : (X, y), optional
            Held-out graphs: the pass with most labels right on them is kept.
        callbacks : of (record, θ) → True to stop
        checkpoint : path, optional
            Save the state there after every pass; if it exists, continue from it.
        sample_weight : (n,), optional
            Weight of the loss of each graph; 2 counts it twice. Learners that do not support this raise an error.
        """
        graphs, labels = graph_list(X), as_list(y)
        given: dict[str, Any] = {"dev": dev, "callbacks": callbacks, "sample_weight": sample_weight}
        self.check_settings()
        self._choose_interaction(graphs, labels, node_weights is not None or self.cost is not None)
        if self._settings()[1].uses_cost:
            known = KnownLabels(graphs, labels)
            if not known.whole:
                if checkpoint is not None or self.cost is not None:
                    name = "checkpoint" if checkpoint is not None else "cost"
                    raise ParameterError(
                        name, "GraphLabeler.fit", "None where labels are unknown", checkpoint or self.cost
                    )
                return self._fit_known(graphs, known, node_weights, given)
        return self._fit(graphs, labels, checkpoint=checkpoint, node_weights=node_weights, **given)

    def _fit_known(
        self, graphs: Sequence[AttributedGraph], known: KnownLabels, node_weights: Any, given: dict[str, Any]
    ) -> Self:
        """Max-margin training with unknown labels, see :mod:`partwise.graphs.unknown`; from the known nodes alone."""
        weights, filled = known.weights(node_weights), None
        if not known.graphs:
            raise InputError("no node has a known label")
        self._fit(known.graphs, known.labels, node_weights=[weights[i][known.masks[i]] for i in known.having])
        for self.n_rounds_ in range(1, ROUNDS + 1):
            before, filled = filled, self.predict(graphs, pinned=known.pinned)
            if before is not None and all(map(np.array_equal, before, filled)):
                return self
            self._fit(graphs, filled, node_weights=weights, **given)
            if self.result_.status == "interrupted":
                return self
        from sklearn.exceptions import ConvergenceWarning  # a training that converged does not pay for it

        warnings.warn(
            f"the unknown labels still change after {ROUNDS} rounds of training", ConvergenceWarning, stacklevel=3
        )
        return self

    def _make_problem(self, X: Any, y: Any, learner: Learner, loss: LossFunction, **data: Any) -> Problem:
        problem = self._problem(X, y, data.get("node_weights"))
        learner.check(problem)
        if isinstance(learner, FrankWolfe) and problem.nonnegative is not None:
            raise CapabilityError(
                "FrankWolfe keeps weights ≥ 0 only at the end of a pass, and a cut needs that at every step. Learners "
                "that can: one_slack, n_slack, batch_frank_wolfe, extragradient, projected_gradient, subgradient."
            )
        return problem

    def problem(
        self, graphs: Sequence[AttributedGraph], labels: Sequence[Any], *, node_weights: Sequence[Any] | None = None
    ) -> Problem:
        """The packed training problem, for calling learners directly; sets ``encoder_`` and ``inference_``."""
        self._choose_interaction(graphs, labels, node_weights is not None or self.cost is not None)
        return self._problem(graphs, labels, node_weights)

    def _problem(self, graphs: Sequence[AttributedGraph], labels: Sequence[Any], node_weights: Any) -> Problem:
        if len(graphs) != len(labels):
            raise InputError(f"there are {len(graphs)} graphs but labels for {len(labels)}")
        if not len(graphs):
            raise InputError("there are no graphs to train on")
        used = self._without_edges(graphs)
        self.encoder_ = GraphEncoder.found(used, labels, full=self.interaction_ == "full", scale=self.scale)
        self.inference_ = choose_inference(self.encoder_, self.inference)
        _, loss = self._settings()
        codes = [self.encoder_.codes(i, graph, y) for i, (graph, y) in enumerate(zip(used, labels, strict=True))]
        space, features = self._space(used), self._features(used)
        if isinstance(space, FactorGraph):
            self.inference_ = space.inference
        outputs: Any = codes
        if any((code < 0).any() for code in codes):
            outputs = self._space(used, [{int(j): [c] for j, c in enumerate(code) if c >= 0} for code in codes])
        cost = cost_for(self.cost, graphs, labels)
        if node_weights is not None:
            if cost is not None:
                raise ParameterError("cost", "GraphLabeler", "omitted if nodes have weights", cost)
            cost = PartCost(label_costs(self.encoder_, used, codes, node_weights))
        return Problem(
            space, features, outputs, loss, cost,
            nonnegative=self.encoder_.nonnegative, n_threads=thread_count(self.n_jobs),
        )  # fmt: skip

    def _without_edges(self, graphs: Sequence[AttributedGraph]) -> Sequence[AttributedGraph]:
        if self.interaction != "none":
            return graphs
        return [AttributedGraph(g.nodes) if isinstance(g, AttributedGraph) else g for g in graphs]

    def _space(
        self, graphs: Sequence[AttributedGraph], open_states: Any = None, hard: Any = None, inference: str | None = None
    ) -> Structure:
        options = dict(self.inference_options or {}) if inference is None else {}
        if inference is None:  # tables: other graphs may be wider than those of training
            inference = self.inference if self.encoder_.full else self.inference_
        return make_space(self.encoder_, graphs, inference, options, open_states, hard)

    def _features(self, graphs: Sequence[AttributedGraph], inference: str | None = None) -> GraphFeatures:
        return self.encoder_.features(graphs, tables=(inference or self.inference_) not in CUTS)

    def _make_score(self, X: Sequence[AttributedGraph], y: Sequence[Any]) -> Callable[[Floats], float]:
        used = self._without_edges(X)
        self.encoder_.check(used)
        space, features = self._space(used), self._features(used)
        codes = [self.encoder_.codes(i, graph, labels) for i, (graph, labels) in enumerate(zip(used, y, strict=True))]
        return lambda theta: accuracy(codes, self._decode(space, features, theta))

    # prediction

    def _decode(self, space: Structure, features: Any, theta: Floats) -> list[Ints]:
        found = Batch(space, features, n_threads=thread_count(self.n_jobs)).outputs(theta)
        return [np.asarray(labels, np.int64) for labels in found]

    def _ready(
        self, graphs: Sequence[AttributedGraph], pinned: Any, constraints: Any = None, inference: str | None = None
    ) -> tuple[Any, Structure]:
        check_is_fitted(self, "theta_")
        used = self._without_edges(graph_list(graphs))
        self.encoder_.check(used)
        open_states = None if pinned is None else pinned_states(self.encoder_, used, pinned)
        wanted = None if inference is None else choose_inference(self.encoder_, inference)
        return used, self._space(used, open_states, constraints, wanted)

    def predict(
        self,
        graphs: Sequence[AttributedGraph],
        *,
        pinned: Sequence[Mapping[int, Any] | None] | None = None,
        constraints: Sequence[Sequence[Any] | None] | None = None,
        inference: str | None = None,
    ) -> list[NDArray[Any]]:
        """One array of labels per graph: the best that the inference finds.

        Parameters
        ----------
        pinned : one {node: label or set of labels} or None per graph, optional
        constraints : one list of hard factors or None per graph, optional
            Logic over labels, such as ``at_most_one([(3, "head"), (8, "head")])`` of
            :mod:`partwise.structures.graphs.model`, with nodes as variables and labels as states. Needs an engine of
            factor graphs.
        inference : str, optional
            A different inference from that of training, such as ``ad3`` for constraints on a model of cuts.
        """
        if not len(graph_list(graphs)):
            check_is_fitted(self, "theta_")
            return Outputs([])
        used, space = self._ready(graphs, pinned, constraints, inference)
        found = self._decode(space, self._features(used, inference), self.theta_)
        return Outputs(self.encoder_.labels(graph, codes) for graph, codes in zip(used, found, strict=True))

    def predict_marginals(
        self,
        graphs: Sequence[AttributedGraph],
        *,
        pinned: Sequence[Mapping[int, Any] | None] | None = None,
        inference: str | None = None,
    ) -> list[NDArray[np.float64] | list[NDArray[np.float64]]]:
        """P(y_j = b) for every node and label, one (N, L) array per graph; a list of arrays if types differ in L.

        Exact or approximate, depending on the inference. Uses the inverse temperature of the loss, or 1 if that is
        infinite.
        """
        if not len(graph_list(graphs)):
            check_is_fitted(self, "theta_")
            return []
        used, space = self._ready(graphs, pinned, None, inference)
        if "marginals" not in space.oracles:
            raise CapabilityError(
                f"{type(space).__name__} has no marginals; use inference='trw', 'loopy_bp' or 'junction_tree', or "
                "see predict_margins"
            )
        beta = self._settings()[1].beta
        features = self._features(used, inference)
        found: list[NDArray[np.float64] | list[NDArray[np.float64]]] = []
        for i, graph in enumerate(used):
            scores = (beta if np.isfinite(beta) else 1.0) * features.scores(i, self.theta_)
            atoms = space.marginals(i, scores)[1][: space.n_atoms(i)]
            rows = np.split(atoms, np.cumsum(self.encoder_.states(graph))[:-1])
            same = len({len(row) for row in rows}) == 1
            found.append(np.array(rows) if same else rows)
        return found

    def predict_margins(self, graphs: Sequence[AttributedGraph]) -> list[Floats]:
        """Best score with the second label minus best score with the first, one (N,) array per graph; for cuts.

        Exact, with all edges taken into account: how much the evidence at a node would have to change to flip its
        label.
        """
        if not len(graph_list(graphs)):
            check_is_fitted(self, "theta_")
            return []
        used, space = self._ready(graphs, None)
        if not hasattr(space, "max_marginals"):
            raise CapabilityError(f"{type(space).__name__} has no max-marginals; see predict_marginals")
        features = self._features(used)
        tables = [space.max_marginals(i, features.scores(i, self.theta_)) for i in range(len(used))]
        return [table[:, 1] - table[:, 0] for table in tables]

    def score(self, X: Sequence[AttributedGraph], y: Sequence[Any]) -> float:
        """Share of the nodes with a known label that are labelled correctly."""
        check_is_fitted(self, "theta_")
        graphs = graph_list(X)
        if len(graphs) != len(y):
            raise InputError(f"there are {len(graphs)} graphs but labels for {len(y)}")
        return float(self._make_score(graphs, as_list(y))(self.theta_))

    # storage

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        encoder = self.encoder_
        header = {
            "inference": self.inference_,
            "full": encoder.full,
            "nodes": [[name, kind.dim, kind.classes] for name, kind in encoder.node_types.items()],
            "edges": [[name, kind.dim, kind.ends] for name, kind in encoder.edge_types.items()],
        }
        arrays = {}
        for n, kind in enumerate(encoder.node_types.values()):
            arrays[f"mean/{n}"], arrays[f"scale/{n}"] = kind.mean, kind.scale
        return header, arrays

    def _restore(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        encoder = GraphEncoder(bool(header["full"]))
        for n, (name, dim, classes) in enumerate(header["nodes"]):
            mean, scale = np.asarray(arrays[f"mean/{n}"]), np.asarray(arrays[f"scale/{n}"])
            if mean.shape != (dim,) or scale.shape != (dim,):
                raise StorageError(f"the scales of nodes of type {name!r} are not those of {dim} features")
            encoder.node_types[name] = NodeType(int(dim), list(classes), mean, scale)
        for name, dim, ends in header["edges"]:
            encoder.edge_types[name] = EdgeType(int(dim), None if ends is None else tuple(ends))
        self.interaction_ = self.interaction
        if self.interaction == "auto":
            self.interaction_ = "full" if encoder.full else "associative"
        self.encoder_, self.inference_ = encoder, choose_inference(encoder, header["inference"])
        if len(self.theta_) != sum(encoder.dims):
            raise StorageError(
                f"there are {len(self.theta_)} weights; the types of nodes and edges have {sum(encoder.dims)}"
            )
