"""Every Triton kernel compiles for GPUs that need not be here, and nothing spills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvtool_kernels

PROGRAM = Path(__file__).parent / "compile_kernels.py"
KERNELS = {
    "store_kv_kernel",
    "rope_shift_kernel",
    "copy_blocks_kernel",
    "paged_attention_kernel",
    "reduce_splits_kernel",
}


@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile_without_spills(capability: int, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(kvtool_kernels.__file__).parents[1])
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    done = subprocess.run(
        [sys.executable, PROGRAM, str(capability)], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    for row in rows:
        print("{kernel:24} {case:26} REG:{registers} SHARED:{shared} LOCAL:{local}".format(**row))
    assert {row["kernel"] for row in rows} == KERNELS
    assert [row for row in rows if row["local"] or row["spilled"]] == []
