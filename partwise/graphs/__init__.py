"""Labels of the nodes of graphs (images, point clouds, networks): estimators, features, builders, commands."""

from partwise._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
