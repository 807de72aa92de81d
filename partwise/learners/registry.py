"""Learners by name; the first use of a name imports only that learner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from partwise.exceptions import unknown_name

if TYPE_CHECKING:
    from partwise.learners.base import Learner

__all__ = ["LEARNERS", "NAMED", "find_learner", "register_learner"]

#: The learners of this package, in the order of tables.
NAMED = {
    "n_slack": "NSlack",
    "one_slack": "OneSlack",
    "eg": "EG",
    "extragradient": "Extragradient",
    "entropic_extragradient": "EntropicExtragradient",
    "frank_wolfe": "FrankWolfe",
    "batch_frank_wolfe": "BatchFrankWolfe",
    "joint_qp": "JointQP",
    "lbfgs": "LBFGS",
    "mira": "KBestMIRA",
    "exact_dca": "ExactDCA",
    "perceptron": "Perceptron",
    "sgd": "SGD",
    "dca": "DCA",
    "online_eg": "OnlineEG",
    "projected_ascent": "ProjectedAscent",
    "projected_gradient": "ProjectedGradient",
    "sdca": "SDCA",
    "smo": "SMO",
    "smo_eg": "HybridEG",
    "subgradient": "Subgradient",
}


class _Registry(dict[str, "type[Learner]"]):
    """Learners by name. A learner of this package is imported on first use, all of them when the names are listed."""

    _complete = False

    def _load(self) -> None:
        if not self._complete:
            self._complete = True
            from partwise import learners

            for name in NAMED.values():
                getattr(learners, name)  # its import adds it here
            # one order, whatever was imported first: that of the package, then those of others
            place = {name: n for n, name in enumerate(NAMED)}
            found = sorted(super().items(), key=lambda pair: place.get(pair[0], len(place)))
            self.clear()
            self.update(found)

    def __missing__(self, name: str) -> type[Learner]:
        from partwise import learners

        if name not in NAMED:
            raise KeyError(name)
        answer: type[Learner] = getattr(learners, NAMED[name])  # its import adds it here
        return answer

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in NAMED

    def __iter__(self) -> Iterator[str]:
        self._load()
        return super().__iter__()

    def __len__(self) -> int:
        self._load()
        return super().__len__()

    def keys(self) -> Any:
        self._load()
        return super().keys()

    def values(self) -> Any:
        self._load()
        return super().values()

    def items(self) -> Any:
        self._load()
        return super().items()


LEARNERS: dict[str, type[Learner]] = _Registry()


def register_learner(name: str) -> Callable[[type[Learner]], type[Learner]]:
    """Make a learner known by name."""

    def add(kind: type[Learner]) -> type[Learner]:
        LEARNERS[name] = kind
        return kind

    return add


def find_learner(name: str) -> type[Learner]:
    """The learner of that name; an unknown one is an error with the nearest."""
    if name not in LEARNERS:
        raise unknown_name("learner", name, LEARNERS)
    return LEARNERS[name]
