"""How large the caches are that a simulation looks at, and why."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.lru_curve import SHARES, LruCurve
from kvtool.errors import ConfigError
from kvtool.simulation.settings import SimulationSettings
from kvtool.traces.prepared import Unit

# Blocks that a replay lays out whatever the trace takes (64 MiB); of more, only what it can fill.
ALWAYS_LAID_OUT = 2**20
EVICTS_NOTHING = "the whole trace fits, so nothing is evicted"


class Capacity(Protocol):
    """As given: a number of blocks, or bytes."""

    @property
    def blocks(self) -> int | None: ...

    @property
    def num_bytes(self) -> int | None: ...


def in_blocks(capacity: Capacity, unit: Unit, kv_bytes_per_token: int | None) -> int:
    """Raises `ConfigError` for bytes that no block size is known for, or that hold none."""
    if capacity.blocks is not None:
        return capacity.blocks
    assert capacity.num_bytes is not None
    return blocks_in(capacity.num_bytes, unit, kv_bytes_per_token)


def blocks_in(num_bytes: int, unit: Unit, kv_bytes_per_token: int | None) -> int:
    """Raises `ConfigError` as `in_blocks` does."""
    if kv_bytes_per_token is None:
        raise ConfigError(
            "A capacity in bytes needs the bytes of a token, which nothing says.",
            hint="Add --kv-bytes-per-token (see kvtool size-calc) or --model, or give blocks.",
        )
    one_block = kv_bytes_per_token * unit.block_tokens
    if num_bytes < one_block:
        raise ConfigError(
            f"A capacity of {num_bytes} B holds no block: one takes {one_block} B "
            f"({unit.block_tokens} tokens of {kv_bytes_per_token} B)."
        )
    return num_bytes // one_block


class Pool(NamedTuple):
    num_blocks: int
    reason: str


def curve_capacities(
    settings: SimulationSettings, accesses: Accesses, curve: LruCurve
) -> tuple[int, ...]:
    """Those asked for; else what LRU needs for some shares of the ceiling, and for all of it."""
    if settings.capacities:
        return tuple(sorted(set(settings.capacities)))
    wanted = [curve.capacity_for(share) for share in (*SHARES, "1")]
    return tuple(sorted({capacity for capacity in wanted if capacity})) or (
        max(1, accesses.num_blocks),
    )


def pool(settings: SimulationSettings, accesses: Accesses) -> Pool:
    """Of the replay without a model: by default one that never evicts, so that what is missed then
    is missed at any capacity. One larger than the trace can ever fill is as good as the machine it
    stands for, and fits into this one."""
    asked = _asked(settings, accesses)
    if asked is None:
        return Pool(_never_evicting(settings, accesses), EVICTS_NOTHING)
    most = max(ALWAYS_LAID_OUT, _fillable(settings, accesses))
    if asked.num_blocks <= most:
        return asked
    return Pool(most, f"more than the trace can fill, as {asked.reason} is: {asked.num_blocks:,}")


def _asked(settings: SimulationSettings, accesses: Accesses) -> Pool | None:
    engine = settings.engine
    if engine.kv_blocks is not None:
        return Pool(engine.kv_blocks, "--kv-blocks")
    if engine.kv_memory is not None:
        num_blocks = blocks_in(engine.kv_memory, accesses.unit, settings.kv_bytes_per_token)
        return Pool(num_blocks, "--kv-memory")
    if settings.capacities:
        which = "the first --capacity" if len(settings.capacities) > 1 else "--capacity"
        return Pool(settings.capacities[0], which)
    return None


def _never_evicting(settings: SimulationSettings, accesses: Accesses) -> int:
    needed = accesses.num_blocks
    if accesses.unit.tokens_per_symbol == 1:
        needed += 2 * accesses.num_requests  # ends of prompts, and copies of those gone on from
    return max(1, needed + _of_replies(settings, accesses))


def _fillable(settings: SimulationSettings, accesses: Accesses) -> int:
    """All of it where no two requests shared a block."""
    return len(accesses) + 2 * accesses.num_requests + _of_replies(settings, accesses)


def _of_replies(settings: SimulationSettings, accesses: Accesses) -> int:
    if not settings.output_kv:
        return 0
    return int((-(-accesses.outputs // accesses.unit.block_tokens) + 1).sum())
