"""Search problems of the user's own: the estimator for them."""
