"""How the tests run: profiles of the random ones, and which run in one process.

Profiles: "fixed", the same cases every time; ``PARTWISE_PROFILE=nightly``, fresh ones.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("fixed", max_examples=70, derandomize=True, database=None, deadline=None)
settings.register_profile("nightly", max_examples=1000, derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("PARTWISE_PROFILE", "fixed"))

#: Most of the time goes into compilation, and most of that into what kernels of one area share. So the tests of an
#: area run in one process (pytest -n 2): the first name whose pattern a test's id contains.
AREAS = {
    "topics": r"topic|lda|LDA",
    "sequences": r"template|column|tags|storage|sequences/",
    "graphs": r"graph|grids|2009-segmentation|horses|factor|relaxed|logic|uai|markov|test_cut\b|cut_weights"
    r"|Cut\b|associative|quadratic",
    "trees": r"pars(e|ing)|arbor|tree|grammar|phrase|second_order|SecondOrder|Dependency|transition|wcfg",
    "matchings": r"align|qap|matching|assignment|link|extragradient|saddle",
    "cluster": r"cluster|pack|shard|workers|merging",
    "learners": r"test_(structures|losses|online|cutting|eg|guarantees|frank|lbfgs|hard|slack|smo|certificates|mira"
    r"|sdca|joint_qp|subgradient|testing|problem|linear|sample_weight|features|compile|kernel)|(learners|structures|features)/",
}

COSTLIEST_FIRST = ("sequences", "learners", "graphs", "trees", "cluster", "matchings", "topics")


def area(test: str) -> str:
    return next((name for name, pattern in AREAS.items() if re.search(pattern, test)), "sequences")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands whole areas to processes (``--dist loadgroup`` would need marks, which pytest 9.2 hides from xdist 3.8)."""
    from xdist.scheduler import LoadScopeScheduling

    class AreaScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return area(nodeid)

        def _assign_work_unit(self, node: Any) -> None:
            for name in reversed(COSTLIEST_FIRST):  # so that both processes end at about the same time
                if name in self.workqueue:
                    self.workqueue.move_to_end(name, last=False)
            super()._assign_work_unit(node)

    return AreaScheduling(config, log)
