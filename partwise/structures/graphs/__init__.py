"""Engines of factor graphs: the packed graph, local solvers of factors, and inference over them."""
