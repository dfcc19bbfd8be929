"""How a trace is replayed without a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kvtool.config import CacheConfig, SchedulerConfig
from kvtool.engine.admission import num_blocks_for
from kvtool.errors import CacheError, ConfigError
from kvtool.replay.cost import CostModel
from kvtool.replay.replies import Replies
from kvtool.traces.prepared import PreparedRequest, Unit

MODES = ("serial", "arrival")
_UNBOUNDED = 2**30  # symbols; the pool bounds a request long before


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """mode: serial, each request alone and in the order given, or arrival, by time and `after`.
    output_kv: see `Replies`. max_num_batched_tokens: tokens, also where a symbol stands for many.
    stepwise: every token of a reply in a step of its own and every request through the scheduler:
    slow, and what the fast ways are tested against. block_ids: outcomes have them.
    """

    cache: CacheConfig
    unit: Unit
    mode: str = "serial"
    output_kv: bool = False
    cost: CostModel = field(default_factory=CostModel)
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048
    stepwise: bool = False
    block_ids: bool = False

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigError(f"--replay is {self.mode}; allowed: {', '.join(MODES)}.")
        assert self.cache.block_size == self.unit.block_size, "blocks are those of the trace"
        assert self.unit.tokens_per_symbol == 1 or self.cache.reuse != "shift", "ids are no text"

    @property
    def scheduler(self) -> SchedulerConfig:
        symbols = self.max_num_batched_tokens // self.unit.tokens_per_symbol
        return SchedulerConfig(
            max_model_len=_UNBOUNDED,
            max_num_seqs=self.max_num_seqs,
            max_num_batched_tokens=max(1, symbols),
        )

    def check_fits(self, prepared: PreparedRequest, replies: Replies) -> None:
        """Raises `CacheError` for a request that takes more blocks than there are."""
        needed = self._blocks_for(prepared, replies)
        if needed > self.cache.num_blocks:
            request = prepared.request
            raise CacheError(
                f"{request.place}: request {request.id} takes {needed} blocks of "
                f"{self.unit.block_tokens} tokens; the cache has {self.cache.num_blocks}.",
                hint=f"Replay with at least --capacity {needed}; others may take more.",
            )

    def most_blocks(self, requests: Iterable[PreparedRequest]) -> int:
        """What the largest of them takes, at least one: no smaller cache serves them all."""
        replies = Replies(self.unit, output_kv=self.output_kv)
        return max((self._blocks_for(prepared, replies) for prepared in requests), default=1)

    def _blocks_for(self, prepared: PreparedRequest, replies: Replies) -> int:
        return num_blocks_for(replies.num_symbols(prepared), self.unit.block_size)
