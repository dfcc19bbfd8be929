"""The value of every option in a run: defaults, `auto` and the model's own limits resolved."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from kvtool.config import SHIFT_OPTIONS, CacheConfig, EngineConfig, SchedulerConfig
from kvtool.runtime.cache_folder import cache_folder
from kvtool.runtime.pool_size import block_bytes

if TYPE_CHECKING:
    from kvtool.models.hf import PagedModel
    from kvtool.models.load import LoadedModel


def effective_options(
    config: EngineConfig,
    loaded: LoadedModel,
    model: PagedModel,
    cache: CacheConfig,
    scheduler: SchedulerConfig,
) -> dict[str, object]:
    """The option names of `EngineConfig`, then what the model adds. JSON-ready."""
    import torch

    one_block = block_bytes(model.groups, config.block_size)
    return {
        **asdict(config),
        **({} if config.reuse == "shift" else dict.fromkeys(SHIFT_OPTIONS)),
        "model": loaded.name,
        "device": str(model.device),
        "dtype": dtype_name(model),
        "threads": torch.get_num_threads(),
        "max_model_len": scheduler.max_model_len,
        "kv_blocks": cache.num_blocks,
        "kv_memory": cache.num_blocks * one_block,
        "salt": None if config.salt is None else "set",  # whoever knows it shares KV
        "cache_dir": str(cache_folder(config.cache_dir)) if config.keeps_on_disk else None,
        "cache_size": config.cache_size if config.keeps_on_disk else None,
        "architecture": model.architecture,
        "rope_regime": model.rope_regime,
        "eos_ids": sorted(loaded.eos_ids),
        "kv_bytes_per_token": one_block // config.block_size,
        "min_reusable_tokens": _min_reusable_tokens(config, scheduler),
    }


def _min_reusable_tokens(config: EngineConfig, scheduler: SchedulerConfig) -> int | None:
    """The shortest common prefix that can be served from the cache."""
    if config.reuse == "none":
        return None
    if config.deterministic:
        return scheduler.deterministic_chunk
    return config.block_size if config.prefix_index == "chain" else 1


def dtype_name(model: PagedModel) -> str:
    return str(model.dtype).removeprefix("torch.")
