"""Memory for KV on one GPU: given, or what weights and the engine's own needs leave of a GPU.

`available = total x utilization - weights / ranks - overhead` (vLLM's rule). The overhead (CUDA
context, activations of the largest step, CUDA graphs) was measured at 4.9 to 7.5 GiB for 8B to 70B
models on an H100 (llm-d/llm-d-benchmark, empirical-vllm-memory-results).
"""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.errors import ConfigError
from kvtool.sizing.gpus import gpu
from kvtool.sizing.parallel import Ranks

DEFAULT_OVERHEAD = 5 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bytes on each GPU."""

    kv_bytes: int
    weight_bytes: int | None  # None: not needed for --memory
    overhead_bytes: int | None
    total_bytes: int | None


def given(memory: int) -> Budget:
    return Budget(kv_bytes=memory, weight_bytes=None, overhead_bytes=None, total_bytes=None)


def on_gpu(
    name: str, utilization: float, weights: int | None, overhead: int, ranks: Ranks
) -> Budget:
    """weights: bytes of the whole model; they are divided by tensor and pipeline ranks."""
    total = gpu(name).memory_bytes
    if weights is None:
        raise ConfigError(
            "--gpu needs the size of the weights, and this model source does not tell it.",
            hint="add --weights SIZE (the sum of the weight files), or use --memory SIZE.",
        )
    own = -(-weights // (ranks.tp * ranks.pp))
    left = int(total * utilization) - own - overhead
    if left <= 0:
        raise ConfigError(
            f"{name} at utilization {utilization}: {own / 2**30:.1f} GiB of weights and "
            f"{overhead / 2**30:.1f} GiB of overhead leave nothing of {total / 2**30:.1f} GiB for KV.",
            hint="divide the weights with --tp, or lower --overhead.",
        )
    return Budget(kv_bytes=left, weight_bytes=own, overhead_bytes=overhead, total_bytes=total)
