"""`kill -9` at three moments: the repair that goes on ends as the one that nobody killed, file for file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("at_once", ["1", "2"])
def test_a_killed_repair_goes_on_to_the_same_bits(at_once):
    done = subprocess.run(
        [sys.executable, "-m", "tests.kill_repairs", "3", "1", at_once, "bloom"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed 3 times while it was alive" in done.stdout, "each kill met it alive"
    assert "the same to the last bit" in done.stdout
