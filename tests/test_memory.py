"""Memory goes back to the system, and comes again where it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import partwise
from partwise import _memory
from partwise._memory import LARGE, give_back

SCRIPT = """
import numba, numpy as np
from partwise._math import dot
from partwise._memory import LARGE, give_back

def resident():
    return {line.split(":")[0]: int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("Rss")}

ones = np.ones(3)
dot(ones, ones)
before = resident()
give_back(LARGE - 1)
same = resident()
give_back(LARGE)
after = resident()
assert dot(ones, ones) == 3.0
assert numba.njit(lambda x: x + 1)(2) == 3  # the compiler still works: its pages come back
print(before["RssFile"], same["RssFile"], after["RssFile"])
"""


def run(script: str, **environment: str) -> str:
    root = str(Path(partwise.__file__).parents[1])
    settings = {**os.environ, "PYTHONPATH": root, **environment}
    done = subprocess.run([sys.executable, "-c", script], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux says which pages are resident")
def test_pages_of_the_compiler_go_back_and_it_still_works() -> None:
    before, same, after = map(int, run(SCRIPT).split())
    assert same >= before - 1024, "nothing is done for small problems"
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        assert after < before - 20 * 1024, "kB"


def test_only_pages_that_nobody_wrote_to_are_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(
        "1000-3000 r-xp 00000000 08:01 7 /lib/libllvmlite.so\nRss: 8 kB\nAnonymous: 0 kB\n"
        "4000-5000 r--p 00002000 08:01 7 /lib/libllvmlite.so\nRss: 4 kB\nAnonymous: 4 kB\n"
        "6000-7000 r-xp 00000000 08:01 8 /lib/other.so\nRss: 4 kB\nAnonymous: 0 kB\n"
        "8000-9000 rw-p 00000000 00:00 0 \nRss: 4 kB\nAnonymous: 0 kB\n"
    )
    monkeypatch.setattr(_memory, "SMAPS", str(smaps))
    assert list(_memory._unchanged("libllvmlite")) == [(0x1000, 0x2000)]
    monkeypatch.setattr(_memory, "SMAPS", str(tmp_path / "missing"))
    assert list(_memory._unchanged("libllvmlite")) == []


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(_memory.ctypes, "CDLL", None)  # would fail if it were called
    give_back(LARGE)
