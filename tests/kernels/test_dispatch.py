from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import kvtool_kernels
from kvtool_kernels import dispatch


@pytest.fixture(autouse=True)
def _fresh_choice() -> Iterator[None]:
    dispatch.implementation.cache_clear()
    yield
    dispatch.implementation.cache_clear()


def test_the_device_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVTOOL_KERNELS", raising=False)
    assert dispatch.implementation("cpu") == "reference"
    assert dispatch.implementation("cuda") == "triton"


def test_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOOL_KERNELS", "reference")
    assert dispatch.implementation("cuda") == "reference"
    dispatch.implementation.cache_clear()
    monkeypatch.setenv("KVTOOL_KERNELS", "cuda")
    with pytest.raises(ValueError, match="triton or reference"):
        dispatch.implementation("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is off")
def test_triton_kernels_run_on_a_cpu_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTOOL_KERNELS", "triton")
    pool = torch.zeros(2, 1, 4, 8)
    kvtool_kernels.store_kv(torch.ones(1, 8), None, pool[:, 0], torch.tensor([5]))
    kvtool_kernels.copy_blocks(pool, torch.tensor([[1, 0, 2]], dtype=torch.int32))
    assert pool[0, 0].sum() == pool[1, 0].sum() == 8


def test_public_names() -> None:
    assert kvtool_kernels.__all__ == [
        "Rotary",
        "RotaryTable",
        "attention_mass",
        "copy_blocks",
        "paged_attention",
        "rope_shift",
        "rotate",
        "store_kv",
        "unit_rotation",
    ]


def test_cpu_tensors_need_no_triton() -> None:
    program = (
        "import sys, torch, kvtool_kernels as k;"
        "k.store_kv(torch.ones(1, 8), None, torch.zeros(2, 4, 8), torch.tensor([5]));"
        "assert 'triton' not in sys.modules"
    )
    source_root = str(Path(kvtool_kernels.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={"PYTHONPATH": source_root, "PATH": ""}
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_the_gpu_benchmark_says_when_there_is_no_gpu(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = Path(kvtool_kernels.__file__).parents[2] / "benchmarks" / "gpu.py"
    monkeypatch.setattr(sys, "path", [str(script.parent), *sys.path])
    monkeypatch.setattr(sys, "argv", [str(script)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(script), run_name="__main__")
    out, err = capsys.readouterr()
    assert ended.value.code == 2 and "No CUDA device" in err and out == ""
