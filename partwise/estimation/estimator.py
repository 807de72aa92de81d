"""scikit-learn's interface without importing scikit-learn, which would add a second to every command.

An estimator by itself needs only ``get_params``, ``set_params`` and ``repr``. What scikit-learn asks for (tags,
metadata routing, the HTML representation, the error for an unfitted model) is imported on demand.
"""

from __future__ import annotations

import inspect
from typing import Any, Self

from partwise.exceptions import ParameterError

__all__ = ["Estimator", "check_is_fitted"]


class Estimator:
    """An estimator whose ``__init__`` only stores its keyword arguments.

    Examples
    --------
    >>> class Mean(Estimator):
    ...     def __init__(self, *, power=1.0, verbose=0):
    ...         self.power, self.verbose = power, verbose
    >>> Mean(power=2.0)
    Mean(power=2.0)
    >>> Mean().set_params(verbose=1).get_params()
    {'power': 1.0, 'verbose': 1}
    """

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Constructor arguments and their defaults, in order.

        A constructor with ``**others`` passes those to its parent class, whose arguments come first.
        """
        found: dict[str, Any] = {}
        for kind in cls.__mro__:
            if "__init__" not in vars(kind):
                continue
            parameters = list(inspect.signature(vars(kind)["__init__"]).parameters.values())[1:]
            own = {p.name: p.default for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
            found = {**own, **found}
            if not any(p.kind == p.VAR_KEYWORD for p in parameters):
                break
        return found

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor arguments by name; with ``deep`` also those of estimators among them, as name__argument."""
        params: dict[str, Any] = {}
        for name in self._defaults():
            value = params[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                params.update({f"{name}__{key}": item for key, item in value.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Change constructor arguments by name."""
        known = self._defaults()
        for name, value in params.items():
            own, _, inner = name.partition("__")
            if own not in known:
                raise ParameterError("set_params", type(self).__name__, f"among {', '.join(known)}", name)
            if inner:
                getattr(self, own).set_params(**{inner: value})
            else:
                setattr(self, own, value)
        return self

    def unfitted(self) -> Self:
        """A new estimator with the same settings."""
        return type(self)(**self.get_params(deep=False))

    def __repr__(self) -> str:
        changed = []
        for name, default in self._defaults().items():
            value = getattr(self, name)
            if repr(value) != repr(default):
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)

    # notebooks

    def _repr_html_(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def _get_params_html(self, *args: Any, **kwargs: Any) -> Any:
        """The table of parameters in scikit-learn's diagrams."""
        from sklearn.base import BaseEstimator

        return BaseEstimator._get_params_html(self, *args, **kwargs)

    # routing of metadata such as sample_weight

    def _requester(self) -> Any:
        """scikit-learn's object that records which metadata the methods of this estimator request."""
        from sklearn.utils._metadata_requests import SIMPLE_METHODS, _MetadataRequester

        own = type(self)
        methods = {name: getattr(own, name) for name in SIMPLE_METHODS if hasattr(own, name)}
        kind = type(own.__name__, (_MetadataRequester,), {**methods, "__repr__": lambda _: repr(self)})
        requester = kind()
        if "_metadata_request" in self.__dict__:
            requester._metadata_request = self._metadata_request
        return requester

    def get_metadata_routing(self) -> Any:
        """The metadata that scikit-learn should pass to each method, as set by ``set_fit_request`` and the like."""
        return self._get_metadata_request()

    def _get_metadata_request(self) -> Any:
        return self._requester()._get_metadata_request()

    def __getattr__(self, name: str) -> Any:
        """``set_fit_request(sample_weight=True)`` and the like, which scikit-learn derives from the signatures."""
        if not (name.startswith("set_") and name.endswith("_request")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        requester = self._requester()
        request = getattr(requester, name)

        def ask(**requests: Any) -> Estimator:
            request(**requests)
            self._metadata_request = requester._metadata_request
            return self

        return ask


def check_is_fitted(estimator: Any, attribute: str) -> None:
    """Raise scikit-learn's NotFittedError unless the estimator has the attribute."""
    if not hasattr(estimator, attribute):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"This {type(estimator).__name__} is not fitted yet; call fit first.")
