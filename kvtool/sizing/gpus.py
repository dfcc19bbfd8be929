"""GPUs: memory as the driver reports it, memory bandwidth and dense bf16 peak of the data sheet."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from kvtool.errors import ConfigError

MIB, GIB, TERA = 2**20, 2**30, 10**12


@dataclass(frozen=True, slots=True, kw_only=True)
class GPU:
    memory_bytes: int
    bandwidth: float  # bytes a second
    flops: float  # dense bf16 a second (fp16 for T4)
    source: str

    @property
    def ridge_point(self) -> float:
        """FLOP per byte above which arithmetic, below which memory is the limit."""
        return self.flops / self.bandwidth


_SMI = "memory: nvidia-smi totals in modal-labs/modal-client#2797"

GPUS = {
    "t4": GPU(
        memory_bytes=15360 * MIB,
        bandwidth=0.320 * TERA,
        flops=65 * TERA,
        source=f"NVIDIA T4 data sheet; {_SMI}",
    ),
    "a10": GPU(
        memory_bytes=23028 * MIB,
        bandwidth=0.600 * TERA,
        flops=125 * TERA,
        source=f"NVIDIA A10 data sheet; {_SMI}",
    ),
    "l4": GPU(
        memory_bytes=23034 * MIB,
        bandwidth=0.300 * TERA,
        flops=121 * TERA,
        source=f"NVIDIA L4 data sheet; {_SMI}",
    ),
    "rtx3090": GPU(
        memory_bytes=int(23.58 * GIB),
        bandwidth=0.936 * TERA,
        flops=71 * TERA,
        source="NVIDIA Ampere GA102 white paper; memory: log in vllm-project/vllm#10517",
    ),
    "rtx4090": GPU(
        memory_bytes=24564 * MIB,
        bandwidth=1.008 * TERA,
        flops=165 * TERA,
        source="NVIDIA Ada white paper; memory: nvidia-smi in vllm-project/vllm#7553",
    ),
    "l40s": GPU(
        memory_bytes=46068 * MIB,
        bandwidth=0.864 * TERA,
        flops=362 * TERA,
        source=f"NVIDIA L40S data sheet; {_SMI}",
    ),
    "a100-40gb": GPU(
        memory_bytes=40960 * MIB,
        bandwidth=1.555 * TERA,
        flops=312 * TERA,
        source=f"NVIDIA A100 data sheet; {_SMI}",
    ),
    "a100-80gb": GPU(
        memory_bytes=int(79.15 * GIB),
        bandwidth=2.039 * TERA,
        flops=312 * TERA,
        source="NVIDIA A100 data sheet (SXM); memory: log in vllm-project/vllm#4408",
    ),
    "h100": GPU(
        memory_bytes=int(79.18 * GIB),
        bandwidth=3.35 * TERA,
        flops=989 * TERA,
        source="NVIDIA H100 data sheet (SXM); memory: llm-d-benchmark empirical-vllm-memory-results",
    ),
    "h200": GPU(
        memory_bytes=143771 * MIB,
        bandwidth=4.8 * TERA,
        flops=989 * TERA,
        source="NVIDIA H200 data sheet; memory: nvidia-smi total in public logs",
    ),
    "b200": GPU(
        memory_bytes=int(178.35 * GIB),
        bandwidth=7.672 * TERA,
        flops=2250 * TERA,
        source="NVIDIA Blackwell data sheet; memory and bandwidth: device query in pytorch/ao#4002",
    ),
}


def gpu(name: str) -> GPU:
    key = name.lower().replace("_", "-")
    if key not in GPUS:
        near = difflib.get_close_matches(key, GPUS, n=1)
        raise ConfigError(
            f"Unknown GPU {name!r}; allowed: {', '.join(GPUS)}.",
            hint=f"Did you mean {near[0]!r}?" if near else "use --memory SIZE instead.",
        )
    return GPUS[key]
