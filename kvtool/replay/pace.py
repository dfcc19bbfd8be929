"""How long a batch takes on the virtual clock."""

from __future__ import annotations

from collections.abc import Mapping

from kvtool.engine.batch import Batch, ScheduledRequest
from kvtool.replay.cost import CostModel
from kvtool.replay.tracked import Tracked, computed_span
from kvtool.traces.prepared import Unit


def batch_s(
    batch: Batch, tracked: Mapping[int, Tracked], steps: int, cost: CostModel, unit: Unit
) -> float:
    """steps: tokens that each reply gets in it. Prompts one after the other, then the replies
    together; a reply that is computed again after a preemption costs what a prompt does."""
    seconds, decodes = 0.0, False
    for scheduled in batch.requests:
        if _is_decode(scheduled, steps):
            decodes = True
            continue
        request = scheduled.request
        assert request.kv is not None
        prepared = tracked[request.id].prepared
        span = computed_span(scheduled.positions, request.kv.num_cached, prepared, unit)
        seconds += cost.prefill_s(*span)
    return seconds + (cost.decode_s(steps) if decodes else 0.0)


def _is_decode(scheduled: ScheduledRequest, steps: int) -> bool:
    behind_prompt = scheduled.positions[0] >= scheduled.request.num_prompt_tokens
    return bool(behind_prompt) and scheduled.num_tokens <= steps
