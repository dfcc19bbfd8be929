"""The batch of one step while the scheduler puts it together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.cache.backing import Load
from kvtool.cache.manager import BlockCopy
from kvtool.engine.batch import Batch, ScheduledRequest
from kvtool.engine.request import Request


class StepPlan:
    """budget: tokens the step may still take."""

    def __init__(self, max_tokens: int, max_requests: int, block_size: int) -> None:
        self.budget = max_tokens
        self._max_requests = max_requests
        self._block_size = block_size
        self._scheduled: list[ScheduledRequest] = []
        self._copies: list[BlockCopy] = []
        self._loads: list[Load] = []

    @property
    def has_room(self) -> bool:
        return self.budget > 0 and len(self._scheduled) < self._max_requests

    def add(self, request: Request, num_tokens: int, copies: Sequence[BlockCopy]) -> None:
        self._scheduled.append(schedule_tokens(request, num_tokens, self._block_size))
        self._copies.extend(copies)
        if request.kv is not None and request.kv.load is not None:
            self._loads.append(request.kv.load)
        self.budget -= num_tokens

    def __contains__(self, request: Request) -> bool:
        return any(scheduled.request is request for scheduled in self._scheduled)

    def batch(self, num_groups: int) -> Batch:
        copies: list[list[tuple[int, int, int]]] = [[] for _ in range(num_groups)]
        for copy in self._copies:
            copies[copy.group].append((copy.source, copy.target, copy.num_slots))
        return Batch(
            requests=tuple(self._scheduled),
            copies=tuple(np.array(rows, dtype=np.int32).reshape(-1, 3) for rows in copies),
            loads=tuple(self._loads),
        )


def schedule_tokens(request: Request, num_tokens: int, block_size: int) -> ScheduledRequest:
    """Slots and entries for the next `num_tokens` tokens, which the tables already cover."""
    kv = request.kv
    assert kv is not None
    start = request.num_computed_tokens
    end = start + num_tokens
    assert kv.num_tokens == end
    slots = tuple(table.slots(start, end, block_size) for table in kv.tables)
    # A fully cached prompt feeds its last token again for the logits:
    #
    #   0            start  num_cached            end
    #   |--- cached ---|--- fed, stored already ---|--- fed and stored ---|
    for group_slots in slots:
        group_slots[: max(0, kv.num_cached - start)] = -1
    return ScheduledRequest(
        request=request,
        start=start,
        num_tokens=num_tokens,
        slots=slots,
        entries=tuple(table.entries.copy() for table in kv.tables),
        sample=end == request.num_tokens,
    )
