"""Where a model runs and in which precision."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from pathlib import Path

import torch

from kvtool.errors import ConfigError

DTYPES = {
    "float32": torch.float32,
    "fp32": torch.float32,
    "bfloat16": torch.bfloat16,
    "bf16": torch.bfloat16,
    "float16": torch.float16,
    "fp16": torch.float16,
    "half": torch.float16,
}


def resolve_device(device: str) -> torch.device:
    """auto: the GPU if torch sees one. Raises `ConfigError`."""
    available = torch.cuda.is_available()
    if device == "auto":
        device = "cuda" if available else "cpu"
    if device.partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"--device is {device!r}; allowed: auto, cpu, cuda.")
    if device.startswith("cuda") and not available:
        raise ConfigError(
            "--device is cuda, but torch sees no CUDA device.", hint="Use --device cpu."
        )
    if device.startswith("cuda") and find_spec("triton") is None:
        raise ConfigError(
            "torch sees a CUDA device, but triton, which the GPU kernels need, is not installed.",
            hint="pip install 'kvtool[gpu]', or use --device cpu.",
        )
    return torch.device(device)


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 where the hardware multiplies it, else float32. Raises `ConfigError`."""
    if dtype == "auto":
        native = device.type == "cuda" or _cpu_multiplies_bfloat16()
        return torch.bfloat16 if native else torch.float32
    if dtype not in DTYPES:
        raise ConfigError(f"--dtype is {dtype!r}; allowed: auto, {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def _cpu_multiplies_bfloat16() -> bool:
    with contextlib.suppress(OSError):
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace").split()
        return not {"avx512_bf16", "amx_bf16"}.isdisjoint(flags)
    return False
