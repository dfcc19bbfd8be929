"""The tiers below the block pool of a run: opened, flushed, closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvtool.config import EngineConfig
from kvtool.runtime.cache_folder import cache_folder

if TYPE_CHECKING:
    from kvtool.cache.events import EventSink
    from kvtool.cache.namespace import Namespace
    from kvtool.models.hf import PagedModel
    from kvtool.tiers.disk.disk import DiskTier
    from kvtool.tiers.rates import Rates
    from kvtool.tiers.stack import Tiers
    from kvtool.tiers.tier import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """tiers: None where the pool is all there is.

    rates: what was measured, and is kept in the disk tier as `rates_name` for later processes.
    """

    tiers: Tiers | None
    disk: DiskTier | None
    rates: Rates
    rates_name: str

    def flush(self, timeout_s: float | None = None) -> bool:
        """Whether everything is where it is to be kept, after at most `timeout_s`."""
        if self.tiers is None:
            return True
        if not self.tiers.flush(timeout_s):
            return False
        if self.disk is not None:
            self.disk.remember(self.rates_name, self.rates.as_dict())
        return True

    def close(self) -> None:
        """What was not flushed is dropped."""
        if self.tiers is not None:
            self.tiers.close(flush=False)


def open_storage(
    config: EngineConfig,
    model: PagedModel,
    namespace: Namespace,
    host_memory: int,
    events: EventSink | None,
) -> Storage:
    """The disk comes last, so that a run which cannot start leaves nothing there.

    Raises `CacheError` for a folder that is no cache, `ConfigError` for the remote store.
    """
    from kvtool.models.pool_memory import PoolMemory
    from kvtool.tiers.host import HostTier
    from kvtool.tiers.rates import Rates
    from kvtool.tiers.stack import Tiers

    host = HostTier(host_memory, model.groups, config.block_size) if host_memory else None
    remote = _open_remote(config, model)
    disk = _open_disk(config, model)
    rates_name = f"rates {namespace.digest.hex()} {model.device} {_num_threads()}"
    rates = Rates.from_dict((disk and disk.recall(rates_name)) or {})
    tiers: list[Tier] = [tier for tier in (host, disk, remote) if tier is not None]
    memory = PoolMemory(model, config.block_size)
    return Storage(
        tiers=Tiers(tiers, memory, rates, events=events) if tiers else None,
        disk=disk,
        rates=rates,
        rates_name=rates_name,
    )


def _open_disk(config: EngineConfig, model: PagedModel) -> DiskTier | None:
    if not config.keeps_on_disk:
        return None
    from kvtool.tiers.disk.disk import DiskTier

    folder = cache_folder(config.cache_dir)
    return DiskTier(
        folder,
        model.groups,
        config.block_size,
        cap_bytes=config.cache_size,
        durable=config.durable,
    )


def _open_remote(config: EngineConfig, model: PagedModel) -> Tier | None:
    if config.remote is None:
        return None
    from kvtool.tiers.mooncake import MooncakeTier

    return MooncakeTier(config.remote, model.groups, config.block_size)


def _num_threads() -> int:
    import torch

    return torch.get_num_threads()
