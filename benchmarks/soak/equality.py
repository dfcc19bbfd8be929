"""Cold equals warm, for long: the suite's random workloads, many more and other ones each time.

    make soak                                    about ten minutes
    python benchmarks/soak/equality.py --factor 100

A workload is up to six requests with shared prefixes over tiny pools: concurrent batches, chunked
prefill, eviction, preemption, aborts and interrupts, `check_integrity()` after every step. It runs
twice, cold and warm; each reply must be the one the request would get alone. On a real tiny model
that is exact tokens in fp32 against the model's own forward without a cache.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import rows

ROOT = Path(__file__).parent.parent.parent
TESTS = {
    "toy_model": ("tests/engine/test_cold_equals_warm.py::test_cold_equals_warm_equals_alone", 500),
    "toy_model_deterministic": (
        "tests/engine/test_cold_equals_warm.py::test_deterministic_mode_too",
        80,
    ),
    "tiny_llama_fp32": (
        "tests/engine/test_model_executor.py::test_cold_equals_warm_equals_the_models_own_forward",
        60,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--factor", type=int, default=10, help="times the cases of the suite")
    factor = parser.parse_args().factor
    environment = {
        **os.environ,
        "KVTOOL_SOAK_FACTOR": str(factor),
        "KVTOOL_TEST_PROFILE": "soak",
    }
    start = time.monotonic()
    tests = [test for test, _ in TESTS.values()]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment)
    if done.returncode != 0:
        sys.exit(done.returncode)
    cases = {name: factor * count for name, (_, count) in TESTS.items()}
    rows.append(
        "soak_equality", {"cases": cases, "failures": 0, "seconds": round(time.monotonic() - start)}
    )
    print(f"no difference in {sum(cases.values())} workloads: {cases}")


if __name__ == "__main__":
    main()
