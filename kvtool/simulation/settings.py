"""What a simulation is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.config import CacheConfig, EngineConfig
from kvtool.errors import ConfigError
from kvtool.replay.cost import CostModel
from kvtool.replay.settings import ReplaySettings
from kvtool.traces.prepared import Unit

POLICIES = ("lru", "lfu", "fifo", "belady")  # unless others are asked for
SCHEMES = ("chain", "radix", "shift-grid", "shift-any")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSettings:
    """engine: the options of the engine, as given. mode, output_kv, cost: see `ReplaySettings`.

    capacities: blocks, of the curve; the first is that of the replay unless `engine.kv_blocks` is
    given. policies: see `analysis.policies`. repair, min_run: of the schemes that move text, also
    where the engine moves none. kv_bytes_per_token: None where no model says.
    replies, verify: of a replay on a model, see `ModelSettings`. explain: id of a request.
    """

    engine: EngineConfig = field(default_factory=EngineConfig)
    mode: str = "serial"
    output_kv: bool = False
    cost: CostModel = field(default_factory=CostModel)
    capacities: tuple[int, ...] = ()
    policies: tuple[str, ...] = POLICIES
    schemes: tuple[str, ...] = SCHEMES
    repair: str = "auto"
    min_run: int = 128
    kv_bytes_per_token: int | None = None
    replies: str = "recorded"
    verify: bool = False
    explain: str | None = None
    advice: bool = True

    def cache(self, unit: Unit, num_blocks: int) -> CacheConfig:
        engine = self.engine
        return CacheConfig(
            num_blocks=num_blocks,
            block_size=unit.block_size,
            prefix_index=engine.prefix_index,
            reuse=engine.reuse,
            evict=engine.evict,
            donor=engine.donor,
            repair=engine.repair,
            min_run=engine.min_run,
        )

    def replay(self, unit: Unit, num_blocks: int, *, block_ids: bool = False) -> ReplaySettings:
        """Raises `ConfigError` for moved text in a trace without text."""
        if self.engine.reuse == "shift" and unit.tokens_per_symbol > 1:
            raise ConfigError(
                "--reuse shift moves text; this trace has none.",
                hint="Replay a trace with messages, or use --reuse prefix.",
            )
        return ReplaySettings(
            cache=self.cache(unit, num_blocks),
            unit=unit,
            mode=self.mode,
            output_kv=self.output_kv,
            cost=self.cost,
            max_num_seqs=self.engine.max_num_seqs,
            max_num_batched_tokens=self.engine.max_num_batched_tokens,
            block_ids=block_ids,
        )
