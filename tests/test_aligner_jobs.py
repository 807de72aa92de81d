"""Aligners predict in threads, or where HiGHS would hold Python's lock in processes: the same links, in order."""

from __future__ import annotations

import os
from typing import Any

import pytest

from partwise import WordAligner
from partwise.alignment import GenerativeAligner
from partwise.alignment import link_prediction as module
from partwise.alignment.searches import best_links, search_blocks
from partwise.data import load_sample_alignments
from partwise.exceptions import SolverError
from partwise.structures import Assignment

TRAIN, TEST = load_sample_alignments("train"), load_sample_alignments("test")


@pytest.mark.parametrize("exact", [True, False])
def test_processes_find_the_same_links(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    raw = GenerativeAligner().fit(TRAIN.bitext + TEST.bitext)
    aligner = WordAligner(raw, model="M+Q", infeasible="nearest", C=0.1, max_passes=3, exact=exact)
    aligner.fit(TRAIN.bitext[:15], TRAIN.gold[:15])
    expected = aligner.predict(TEST.bitext)
    seen: list[int] = []

    def spy(blocks: Any, n_jobs: int) -> Any:
        kept = list(blocks)
        seen.append(len(kept))
        return search_blocks(kept, n_jobs)

    monkeypatch.setattr(module, "search_blocks", spy)
    assert aligner.set_params(n_jobs=2).predict(TEST.bitext) == expected and not seen  # few pairs: threads
    monkeypatch.setattr(module, "PROCESS_PAIRS", 10)
    monkeypatch.setattr(module, "SEARCH_EDGES", 400)
    assert aligner.predict(TEST.bitext) == expected and seen and seen[0] > 2
    assert aligner.predict([]) == []


class Where(Assignment):
    """Says which process searched, or fails."""

    def argmax(self, i: int, scores: Any) -> Any:
        if scores[0] < 0:
            raise SolverError("the search took too long")
        raise SystemError(str(os.getpid()))


def test_searches_leave_this_process() -> None:
    space = Where([(1, 1)])
    with pytest.raises(SystemError) as caught:
        search_blocks([(space, space.encode(0, [(0, 0)]))] * 2, 2)
    assert int(str(caught.value)) != os.getpid()
    with pytest.raises(SolverError, match="too long"):
        search_blocks([(space, -space.encode(0, [(0, 0)]))] * 2, 2)
    plain = Assignment([(1, 1)])
    assert best_links(plain, [plain.encode(0, [(0, 0)])]) == [[(0, 0)]]
