"""Every Triton kernel compiles for GPUs that need not be here, and nothing spills."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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


CAPABILITIES = (80, 90)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of every kernel and capability, from one process."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(kvtool_kernels.__file__).parents[1])
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    environment["TRITON_DISABLE_LINE_INFO"] = "1"  # takes time, and changes no instruction
    command = [sys.executable, PROGRAM, *map(str, CAPABILITIES)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernels_compile_without_spills(capability: int, rows: list[dict[str, Any]]) -> None:
    own = [row for row in rows if row["capability"] == capability]
    for row in own:
        print("{kernel:24} {case:26} REG:{registers} SHARED:{shared} LOCAL:{local}".format(**row))
    assert {row["kernel"] for row in own} == KERNELS
    assert [row for row in own if row["local"] or row["spilled"]] == []
