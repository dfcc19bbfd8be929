"""Which implementation of an op runs: decided once by the device of the cache.

CUDA runs `triton/`, everything else `reference/`. KVTOOL_KERNELS=triton|reference overrides the
choice; with TRITON_INTERPRET=1 that runs the Triton kernels on a CPU.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from functools import cache

import torch

IMPLEMENTATIONS = ("triton", "reference")

_log = logging.getLogger(__name__)


@cache
def implementation(device_type: str) -> str:
    """The package that serves tensors on this kind of device ("cpu", "cuda", …)."""
    chosen = os.environ.get("KVTOOL_KERNELS") or (
        "triton" if device_type == "cuda" else "reference"
    )
    if chosen not in IMPLEMENTATIONS:
        raise ValueError(f"KVTOOL_KERNELS is {chosen!r}; it may be triton or reference.")
    _log.debug("kernels for %s tensors: %s", device_type, chosen)
    return chosen


@cache
def load(op: str, name: str) -> Callable[..., None]:
    """The function `op` of implementation `name`; imports nothing of the other one."""
    module = importlib.import_module(f"kvtool_kernels.{name}.{op}")
    function: Callable[..., None] = getattr(module, op)
    return function


def select(op: str, device: torch.device) -> Callable[..., None]:
    return load(op, implementation(device.type))
