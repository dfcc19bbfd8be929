"""What a request takes from the cache at admission."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.cache.manager import CacheManager, SequenceKV, Tokens
from kvtool.config import SchedulerConfig
from kvtool.engine.request import Request
from kvtool.engine.twins import awaits_twin

MAX_REFUSED_PLANS = 2  # of one request; then it uses no runs


class CacheLookup:
    """granule: tokens that hits come in, and what waiting for a twin must save at least."""

    def __init__(self, manager: CacheManager, config: SchedulerConfig) -> None:
        self._manager = manager
        self._config = config
        self._block_size = manager.config.block_size
        self.granule = config.deterministic_chunk if config.deterministic else self._block_size

    def match(self, request: Request) -> int:
        """Tokens it would hit in the pool. Changes nothing."""
        if not request.reuse:
            return 0
        hit = self._manager.match(self._keys(request), request.namespace)
        return hit // self.granule * self.granule if self._config.deterministic else hit

    def awaits_twin(
        self, request: Request, num_cached_tokens: int, running: Iterable[Request]
    ) -> bool:
        if not request.reuse or self._manager.config.reuse == "none":
            return False
        return awaits_twin(request, num_cached_tokens, running, self._config, self.granule)

    def begin(self, request: Request, *, whole_blocks: bool = False) -> SequenceKV:
        """Pin what the pool has of it. After a preemption in whole blocks too: a partial one
        would have to be copied first."""
        align = self._block_size if whole_blocks or request.num_preemptions else 1
        return self._manager.begin(
            self._keys(request),
            request.namespace,
            reuse=request.reuse,
            align=self.granule if self._config.deterministic else align,
            priority=request.priority,
            counted=not request.queried,
        )

    def extend_hit(self, kv: SequenceKV) -> None:
        """Blocks for what is loaded are counted like those of what is computed."""
        self._manager.extend_hit(kv, align=self.granule if self._config.deterministic else 1)

    def may_shift(self, request: Request) -> bool:
        return (
            self._manager.shift is not None
            and request.reuse
            and request.shift
            and request.num_refused_plans < MAX_REFUSED_PLANS
        )

    def plan_shift(self, request: Request, kv: SequenceKV) -> None:
        self._manager.plan_shift(kv, self._keys(request), request.barred_blocks)

    def _keys(self, request: Request) -> Tokens:
        """Tokens to look up. Deterministic: a reply was computed token by token, so KV that a
        prefill of the same tokens wrote must not stand in for it."""
        return request.prompt_ids if self._config.deterministic else request.tokens
