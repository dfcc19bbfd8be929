"""How many blocks the pool has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.runtime.free_memory import free_host_memory

if TYPE_CHECKING:
    from kvtool.cache.group import GroupSpec
    from kvtool.models.hf import PagedModel

DEFAULT_REQUESTS = 4  # requests of max_model_len tokens that the default pool has room for
SMALLEST_LIMIT = 16  # tokens a block may always have, however short max_model_len is
MEMORY_SHARE = 0.25  # of the free memory, the most that the default pool may take


def num_blocks_of_pool(config: EngineConfig, model: PagedModel, max_model_len: int) -> int:
    """Exactly what was asked for, or `ConfigError`; by default room for `DEFAULT_REQUESTS`
    requests of the longest length, within `MEMORY_SHARE` of the free memory, but one block at
    least."""
    _check_block_size(config.block_size, max_model_len)
    one_block = block_bytes(model.groups, config.block_size)
    free = _free_memory(model)
    num_blocks = _wanted_blocks(config, max_model_len, one_block, free)
    if num_blocks * one_block > free:
        most = free // one_block
        raise ConfigError(
            f"{num_blocks} blocks of {config.block_size} tokens take {num_blocks * one_block} "
            f"bytes; {free} bytes are free.",
            hint=f"Use --kv-blocks {most} or less." if most else "Use a smaller --block-size.",
        )
    return num_blocks


def _check_block_size(block_size: int, max_model_len: int) -> None:
    largest = max(max_model_len, SMALLEST_LIMIT)
    if not 1 <= block_size <= largest:
        raise ConfigError(
            f"--block-size is {block_size}; allowed: 1 to {largest}, the tokens of the longest "
            f"request (--max-model-len), or {SMALLEST_LIMIT} where that is more.",
            hint="Use --block-size 16.",
        )


def _wanted_blocks(config: EngineConfig, max_model_len: int, one_block: int, free: int) -> int:
    if config.kv_blocks is not None:
        return config.kv_blocks
    if config.kv_memory is None:
        blocks_per_request = -(-max_model_len // config.block_size)
        affordable = int(MEMORY_SHARE * free) // one_block
        return max(1, min(DEFAULT_REQUESTS * blocks_per_request, affordable))
    if config.kv_memory < one_block:
        raise ConfigError(
            f"--kv-memory is {config.kv_memory} B; one block of {config.block_size} tokens "
            f"takes {one_block} B.",
            hint=f"Use --kv-memory {one_block}B or more, or a smaller --block-size.",
        )
    return config.kv_memory // one_block


def block_bytes(groups: Sequence[GroupSpec], block_size: int) -> int:
    return sum(group.block_bytes(block_size) for group in groups)


def _free_memory(model: PagedModel) -> int:
    """Bytes free for KV where the model is, after its weights."""
    import torch

    if model.device.type == "cuda":
        return torch.cuda.mem_get_info(model.device)[0]
    return free_host_memory()
