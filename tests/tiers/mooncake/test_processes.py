"""One process puts, another one gets; and the library's log stays off their stderr."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mooncake_cluster
import numpy as np
from mooncake_cluster import Cluster
from numpy_memory import NumpyMemory, everywhere, found, prompt
from processes import environment

from kvtool.tiers.mooncake import MooncakeTier

pytestmark = mooncake_cluster.needed
TESTS = Path(__file__).parents[2]

PUT = """
import sys
from kvtool.tiers.mooncake import MooncakeTier
from numpy_memory import BLOCK_SIZE, GROUPS, NumpyMemory, everywhere, prompt, run_of
memory = NumpyMemory(seed=5)
tier = MooncakeTier(sys.argv[1], GROUPS, BLOCK_SIZE)
stored = tier.put(run_of(prompt("shared", 20)), memory.source(everywhere(memory, range(5))))
print(stored.num_blocks, stored.reason)
"""

OUTAGE = """
import signal, os, sys
from kvtool.tiers.mooncake import MooncakeTier
from numpy_memory import BLOCK_SIZE, GROUPS, found, prompt
tier = MooncakeTier(sys.argv[1], GROUPS, BLOCK_SIZE, pause_s=0.0)
assert len(found(tier, prompt("outage", 8))) == 0
os.kill(int(sys.argv[2]), signal.SIGKILL)
for _ in range(2):
    assert found(tier, prompt("outage", 8)) == []
"""


def test_two_processes(cluster: Cluster, connected: Callable[..., MooncakeTier]) -> None:
    done = _python(PUT, cluster.url)
    assert (done.stdout, done.stderr) == ("5 None\n", "")
    tier = connected(cluster)
    source, target = NumpyMemory(seed=5), NumpyMemory(seed=6)
    ids = everywhere(target, [9, 7, 5, 3, 1])
    tier.get(found(tier, prompt("shared", 20)), target.target(ids), lambda _layer: None)
    for group, pool in enumerate(target.pools):
        from_ids = everywhere(source, range(5))[group]
        assert np.array_equal(pool[ids[group]], source.pools[group][from_ids])


def test_an_outage_is_one_line_on_stderr(tmp_path: Path) -> None:
    with mooncake_cluster.running(tmp_path) as own:
        done = _python(OUTAGE, own.url, str(own.master.pid))
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"The remote store {own.address} is not used for now: ")
    assert line.endswith("Check that mooncake_master runs there.")


def _python(program: str, *args: str) -> subprocess.CompletedProcess[str]:
    paths = f"{environment()['PYTHONPATH']}:{TESTS}"
    command = [sys.executable, "-c", program, *args]
    return subprocess.run(
        command, env=environment(PYTHONPATH=paths), capture_output=True, text=True, timeout=60
    )
