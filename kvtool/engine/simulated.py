"""An executor without weights: same scheduler, same cache, invented tokens."""

from __future__ import annotations

from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, SampledToken, StepOutput
from kvtool.engine.request import Request

_MULTIPLIER = 0x9E3779B97F4A7C15  # the golden ratio in 64 bits, as in splitmix64
_MASK = (1 << 64) - 1


class SimulatedExecutor:
    """Forced ids where they are recorded, else pseudo-random ones.

    A token depends on seed, position and the token before it alone: the same reply whatever the
    batching, chunking, hits or preemptions.
    """

    def __init__(self, groups: tuple[GroupSpec, ...], vocab_size: int, seed: int = 0) -> None:
        self.groups = groups
        self._vocab_size = vocab_size
        self._seed = seed

    def execute(self, batch: Batch) -> StepOutput:
        for load in batch.loads + batch.donor_loads:  # there is no KV to read
            load.claim()
            load.end()
        return {
            scheduled.request.id: SampledToken(self._next_id(scheduled.request))
            for scheduled in batch.requests
            if scheduled.sample
        }

    def close(self) -> None:
        pass

    def _next_id(self, request: Request) -> int:
        if request.forced_id is not None:
            return request.forced_id
        mixed = self._seed
        for value in (request.num_tokens, int(request.tokens[-1])):
            mixed = (mixed ^ value) * _MULTIPLIER & _MASK
            mixed ^= mixed >> 31
        return mixed % self._vocab_size
