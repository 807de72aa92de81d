"""Profiles of the random tests: "fixed", the same cases every time; ``PARTWISE_PROFILE=nightly``, fresh ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("fixed", max_examples=70, derandomize=True, database=None, deadline=None)
settings.register_profile("nightly", max_examples=1000, derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("PARTWISE_PROFILE", "fixed"))
