"""A training killed by SIGKILL at random moments ends, resumed, with the same weights bit for bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from partwise.estimators import load_model

PROGRAM = """
import sys
from partwise.data import load_sample
from partwise.estimators import SequenceLabeler

learner, checkpoint, model = sys.argv[1:]
data = load_sample()
X, y = data.column("word") * 3, data.column("ner") * 3
labeler = SequenceLabeler(templates=["word[-1..1]", "suffix(word,1..3)[0]"], learner=learner, max_passes=40)
labeler.fit(X, y, checkpoint=None if checkpoint == "-" else checkpoint)
labeler.save(model)
"""


def start(tmp_path: Path, learner: str, checkpoint: str, model: str) -> subprocess.Popen[bytes]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    return subprocess.Popen([sys.executable, str(script), learner, checkpoint, model], env=environment)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
@pytest.mark.parametrize("learner", ["lbfgs", "dca"])
def test_killed_three_times_and_resumed(tmp_path: Path, learner: str) -> None:
    whole, resumed, checkpoint = tmp_path / "whole.pw", tmp_path / "resumed.pw", tmp_path / "run.ckpt"
    assert start(tmp_path, learner, "-", str(whole)).wait(300) == 0
    moments = random.Random(20)
    kills = 0
    for _ in range(3):
        process = start(tmp_path, learner, str(checkpoint), str(resumed))
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        deadline = time.monotonic() + 300
        # wait for progress of this very process, then strike within the next few passes
        while process.poll() is None and time.monotonic() < deadline:
            if checkpoint.exists() and checkpoint.stat().st_mtime_ns != before:
                break
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.05))
        if process.poll() is None:
            process.kill()
            kills += 1
        process.wait(60)
    assert kills >= 2, "training was over before it could be killed"
    assert start(tmp_path, learner, str(checkpoint), str(resumed)).wait(300) == 0
    np.testing.assert_array_equal(load_model(resumed).theta_, load_model(whole).theta_)
