"""The batch of one step while the scheduler puts it together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Load
from kvtool.cache.block_pool import BlockIds
from kvtool.cache.manager import BlockCopy, SequenceKV
from kvtool.engine.batch import Batch, ScheduledRequest, ScheduledSelection
from kvtool.engine.next_rows import NextRows
from kvtool.engine.request import Request

Moves = tuple[npt.NDArray[np.int64], ...]


class StepPlan:
    """budget: tokens the step may still take. rule: how repair chooses tokens."""

    def __init__(self, max_tokens: int, max_requests: int, block_size: int, rule: str) -> None:
        self.budget = max_tokens
        self._max_requests = max_requests
        self._block_size = block_size
        self._rule = rule
        self._requests: list[Request] = []
        self._scheduled: list[ScheduledRequest] = []
        self._selections: list[ScheduledSelection] = []
        self._copies: list[BlockCopy] = []
        self._moves: list[Moves] = []
        self._loads: list[Load] = []
        self._donor_loads: list[Load] = []

    @property
    def has_room(self) -> bool:
        return self.budget > 0 and len(self._requests) < self._max_requests

    def add(self, request: Request, rows: NextRows, copies: Sequence[BlockCopy]) -> None:
        kv = request.kv
        assert kv is not None
        scheduled = schedule_rows(request, rows.positions, self._block_size)
        if rows.candidates:
            self._selections.append(ScheduledSelection(scheduled, self._rule, rows.candidates))
        else:
            self._scheduled.append(scheduled)
        self._requests.append(request)
        self._copies.extend(copies)
        if kv.load is not None and not kv.load.is_under_way:
            self._loads.append(kv.load)
        self._donor_loads += [load for load, _ in kv.incoming if not load.is_under_way]
        if kv.shift is not None:
            self._moves.append(moves_of(kv, self._block_size))
        self.budget -= len(rows.positions)

    def __contains__(self, request: Request) -> bool:
        return request in self._requests

    @property
    def is_decode(self) -> bool:
        """No request waits in it for its first token."""
        return all(request.num_output_tokens for request in self._requests)

    def batch(self, num_groups: int, merges: Moves = ()) -> Batch:
        copies: list[list[tuple[int, int, int]]] = [[] for _ in range(num_groups)]
        for copy in self._copies:
            copies[copy.group].append((copy.source, copy.target, copy.num_slots))
        none = [np.empty((0, 3), dtype=np.int64)]
        moves = [[moves[group] for moves in self._moves] for group in range(num_groups)]
        return Batch(
            requests=tuple(self._scheduled),
            copies=tuple(np.array(rows, dtype=np.int32).reshape(-1, 3) for rows in copies),
            moves=tuple(np.concatenate(none + rows) for rows in moves),
            loads=tuple(self._loads),
            donor_loads=tuple(self._donor_loads),
            selections=tuple(self._selections),
            merges=merges,
        )


def schedule_rows(request: Request, positions: BlockIds, block_size: int) -> ScheduledRequest:
    """Slots and entries for these positions, which the tables already cover."""
    kv = request.kv
    assert kv is not None
    end = int(positions[-1]) + 1
    assert kv.num_tokens >= end
    # A fully cached prompt feeds its last token again for the logits:
    #
    #   0            start  num_cached            end
    #   |--- cached ---|--- fed, stored already ---|--- fed and stored ---|
    slots = tuple(table.slots(positions, block_size) for table in kv.tables)
    if positions[0] < kv.num_cached:
        for group_slots in slots:
            group_slots[positions < kv.num_cached] = -1
    return ScheduledRequest(
        request=request,
        positions=positions,
        slots=slots,
        entries=tuple(table.entries.copy() for table in kv.tables),
        runs=kv.shift.entered[0] if kv.shift is not None else (),
        sample=end == request.num_tokens,
    )


def moves_of(kv: SequenceKV, block_size: int) -> Moves:
    """Runs that came into the tables and are copied to own blocks: per group, int64 [n, 3] rows
    (source slot, target slot, delta)."""
    assert kv.shift is not None
    moves = []
    for table, copied, entered in zip(kv.tables, kv.shift.copied, kv.shift.entered):
        rows = [np.empty((0, 3), dtype=np.int64)]
        for run in set(entered).intersection(copied):
            targets = table.slots(np.arange(run.start, run.stop), block_size)
            deltas = np.full(run.num_tokens, run.delta)
            rows.append(np.stack((run.slots(block_size), targets, deltas), axis=1))
        moves.append(np.concatenate(rows))
    return tuple(moves)
