"""How many bytes of host memory hold KV that left the block pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.runtime.free_memory import free_host_memory
from kvtool.runtime.pool_size import MEMORY_SHARE, block_bytes

if TYPE_CHECKING:
    from kvtool.models.hf import PagedModel


def host_memory_bytes(config: EngineConfig, model: PagedModel, num_blocks: int) -> int:
    """What was asked for, or `ConfigError`. By default `MEMORY_SHARE` of the free memory where the
    model is on an accelerator, else none: the block pool of `num_blocks` is host memory already."""
    if config.reuse == "none" or config.host_memory == 0:
        return 0
    one_block = block_bytes(model.groups, config.block_size)
    free = free_host_memory()
    on_host = model.device.type == "cpu"
    if config.host_memory is None:
        share = 0 if on_host else int(MEMORY_SHARE * free)
        return share if share >= one_block else 0
    room = free - num_blocks * one_block * on_host
    if not one_block <= config.host_memory <= room:
        raise ConfigError(
            f"--host-memory is {config.host_memory} B; allowed: 0 for none, or {one_block} B "
            f"(one block) to {room} B (what is free).",
            hint="Use --host-memory 0, or leave it out.",
        )
    return config.host_memory
