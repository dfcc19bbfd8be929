"""Processes killed at random moments of store and load (a short round of the soak)."""

import subprocess
import sys
from pathlib import Path

import pytest

KILL = Path(__file__).parents[3] / "benchmarks" / "soak" / "kill.py"


@pytest.mark.report("S47")
def test_ten_kills_leave_a_clean_folder_and_lose_nothing_that_was_finished():
    command = [sys.executable, str(KILL), "--moments", "10", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "no damage, no loss, no wrong byte" in done.stdout
