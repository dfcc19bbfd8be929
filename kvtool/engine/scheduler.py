"""Continuous batching: which tokens of which requests the next forward computes.

Iteration-level scheduling (Orca), chunked prefill under a token budget with decodes first
(Sarathi), preemption (vLLM), cache-aware order (SGLang). The rules are pure
functions in `admission`, `chunking`, `preemption`, `twins` and `waiting_queue`; this class owns
the state they look at and is the only caller that changes a request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kvtool.cache.manager import CacheManager, Tokens
from kvtool.cache.means import Merges
from kvtool.cache.shift_planner import FAILED_CHECK
from kvtool.config import SchedulerConfig
from kvtool.engine.admission import check_fits, has_room
from kvtool.engine.batch import Batch, SampledToken, Selected, StepOutput
from kvtool.engine.cache_lookup import CacheLookup
from kvtool.engine.cached_tokens import count_admission
from kvtool.engine.chunking import check_chunking, num_shareable_tokens
from kvtool.engine.executor import RunRefused
from kvtool.engine.finish import finish_reason
from kvtool.engine.next_rows import NextRows, next_rows
from kvtool.engine.preemption import choose_victim
from kvtool.engine.request import Request, RequestStatus
from kvtool.engine.step_plan import StepPlan
from kvtool.engine.twins import num_exact_tokens
from kvtool.engine.waiting_queue import WaitingQueue
from kvtool.engine.wanted_blocks import (
    num_expected_blocks,
    num_missing_blocks,
    num_wanted_blocks,
)
from kvtool.errors import InputError, ModelError
from kvtool.reuse.selected import with_selected


class Scheduler:
    """`running` is in order of admission; its first request always progresses."""

    def __init__(self, manager: CacheManager, config: SchedulerConfig) -> None:
        self.block_size = manager.config.block_size
        check_chunking(config, self.block_size)
        assert not config.deterministic or manager.shift is None, "moved KV is not bit-identical"
        self.manager = manager
        self.config = config
        self.running: list[Request] = []
        self.waiting = WaitingQueue(config.max_overtakes)
        self.num_preemptions = 0
        self._step = 0
        self._lookup = CacheLookup(manager, config)
        self._rule = "" if manager.shift is None else manager.shift.repair.rule
        self._means = None if manager.shift is None else manager.shift.means
        self._watermark = math.ceil(config.watermark * manager.num_blocks)
        # So many that their decodes never exceed the budget.
        self._max_running = min(config.max_num_seqs, config.max_num_batched_tokens)

    @property
    def has_work(self) -> bool:
        return self._has_requests or (self._means is not None and self._means.has_work)

    @property
    def _has_requests(self) -> bool:
        return bool(self.running) or len(self.waiting) > 0

    def check(self, request: Request) -> None:
        """Whether `add` may take it; raises as `admission.check_fits` where it can never run."""
        if request.status is not RequestStatus.NEW:
            raise InputError(f"The request was added before; it is {request.status.value}.")
        check_fits(request, self.config, self.manager.num_blocks, self.block_size)

    def add(self, request: Request) -> None:
        """Queue a request that passed `check`."""
        request.status = RequestStatus.WAITING
        self.waiting.push(request)

    def schedule(self) -> Batch:
        """The next step; never without a request while there is one."""
        self.manager.release_ended_transfers()
        max_requests = 1 if self.config.deterministic else self._max_running
        max_tokens = self.config.max_num_batched_tokens
        plan = StepPlan(max_tokens, max_requests, self.block_size, self._rule)
        if self.config.deterministic:  # one place a step: newcomers first, or they never get it
            self._admit_waiting(plan)
            self._continue_running(plan)
        else:
            self._continue_running(plan)
            self._admit_waiting(plan)
        batch = plan.batch(len(self.manager.groups), self._merges(plan))
        assert batch.scheduled or not self._has_requests, "a step without progress"
        for scheduled in batch.scheduled:
            scheduled.request.last_step = self._step
        self._step += 1
        return batch

    def update(
        self, batch: Batch, output: StepOutput, selected: Mapping[int, Selected]
    ) -> list[Request]:
        """Take in what the step computed; returns the requests that got a token or failed."""
        progressed = []
        if self._means is not None:
            self._means.end_step()
        for selection in batch.selections:
            request = selection.rows.request
            assert request.kv is not None and request.kv.shift is not None
            chosen = zip(selection.candidates, selected[request.id].positions, strict=True)
            spans = {candidates.start: positions for candidates, positions in chosen}
            request.kv.shift.use_plan(with_selected(request.kv.shift.plan, spans))
        for scheduled in batch.requests:
            request = scheduled.request
            sampled = output[request.id] if scheduled.sample else None
            if not request.admitted:
                count_admission(request, self.manager)
            request.is_approximate |= request.kv is not None and request.kv.shift is not None
            if isinstance(sampled, ModelError):
                self._fail(request, sampled)
            else:
                self._commit(request, scheduled.end)
            if isinstance(sampled, SampledToken):
                self._append(request, sampled)
            if sampled is not None:
                progressed.append(request)
        return progressed

    def finish(self, request: Request, reason: str) -> None:
        """End a request at any point between two steps; no effect on a finished one."""
        if request.is_finished:
            return
        if request.status is RequestStatus.RUNNING:
            self._release(request, self._shareable(request))
        elif request.status is not RequestStatus.NEW:
            self.waiting.remove(request)
        request.end(reason)

    def rollback(self, batch: Batch) -> None:
        """Undo `schedule` where the step did not run: its requests wait for admission again.

        Their copies never happened, so nothing but the blocks already committed is shared; and
        what was computed behind moved text, where there are no copies, is kept.
        """
        if self._means is not None:
            self._means.undo_step()
        for request in (scheduled.request for scheduled in batch.scheduled):
            is_behind_runs = num_exact_tokens(request) < request.num_computed_tokens
            kept = self._shareable(request) if is_behind_runs else request.tokens[:0]
            self._preempt(request, kept)

    def refuse(self, batch: Batch, refused: RunRefused) -> None:
        """`rollback`, and plan without these runs the next time."""
        self.rollback(batch)
        for scheduled in batch.scheduled:
            request = scheduled.request
            runs = refused.runs.get(request.id, ())
            request.barred_blocks.update(block for run in runs for block in run.blocks)
            request.num_refused_plans += bool(runs)
            self.manager.stats.count_refused(FAILED_CHECK, len(runs))

    def _commit(self, request: Request, num_computed_tokens: int) -> None:
        assert request.kv is not None
        request.num_computed_tokens = num_computed_tokens
        self.manager.commit(request.kv, self._shareable(request))

    def _append(self, request: Request, sampled: SampledToken) -> None:
        request.append(sampled)
        reason = finish_reason(request)
        if reason is not None:
            self.finish(request, reason)

    def _fail(self, request: Request, error: ModelError) -> None:
        """The KV of this step is as doubtful as its logits: none of it stays cached."""
        self._release(request, request.tokens[:0])
        request.error = error
        request.end("error")

    def _continue_running(self, plan: StepPlan) -> None:
        """Decodes first: a newcomer enters only where a step has tokens to spare, so without
        selecting repairs only the latest admitted can still be in its prefill."""
        order = list(self.running)
        if self.config.deterministic:
            order.sort(key=lambda request: request.last_step)
        for request in order:
            if plan.has_room and request.status is RequestStatus.RUNNING:
                self._extend(request, plan)

    def _admit_waiting(self, plan: StepPlan) -> None:
        if not (self.waiting and self._may_admit(plan) and self._has_room(1)):
            return  # before prefixes are looked up: this is every step's path
        for request, num_cached_tokens in self.waiting.candidates(self._lookup.match):
            if not self._may_admit(plan):
                return
            if self._lookup.awaits_twin(request, num_cached_tokens, self.running):
                continue
            if not self.waiting.may_pass(request) or not self._begin(request, num_cached_tokens):
                return
            self.waiting.pop(request)
            self.running.append(request)
            self._extend(request, plan)

    def _may_admit(self, plan: StepPlan) -> bool:
        return plan.has_room and len(self.running) < self._max_running

    def _begin(self, request: Request, num_cached_tokens: int) -> bool:
        """Pin what is cached of it, unless the rest would not fit beside those who run."""
        may_shift = self._lookup.may_shift(request)
        expected = num_expected_blocks(request, num_cached_tokens, may_shift, self.block_size)
        if not self._has_room(expected):
            return False
        kv = request.kv = self._lookup.begin(request)
        if may_shift:
            self._lookup.extend_hit(kv)
            self._lookup.plan_shift(request, kv)
        # Pinned blocks no longer count as available: look again with exact figures.
        request.num_wanted_blocks = num_wanted_blocks(request, self.manager)
        if not self._has_room(request.num_wanted_blocks - kv.num_incoming_blocks):
            self.manager.free(kv, request.tokens[:0])
            request.kv = None
            return False
        if not may_shift:
            self._lookup.extend_hit(kv)
        request.status = RequestStatus.RUNNING
        self._start_from_cache(request)
        return True

    def _start_from_cache(self, request: Request) -> None:
        """At least the last token is computed: its logits are wanted."""
        assert request.kv is not None
        request.num_computed_tokens = min(request.kv.num_cached, request.num_tokens - 1)

    def _extend(self, request: Request, plan: StepPlan) -> None:
        """Schedule the next tokens of a running request; the latest admitted give way to it."""
        assert request.kv is not None
        rows = self._next_rows(request, plan)
        copies = self.manager.allocate(request.kv, rows.end)
        while copies is None:
            if len(self.running) == 1:
                self._restart(request)
                rows = self._next_rows(request, plan)
            else:
                victim = choose_victim(self.running)
                assert victim not in plan
                self._preempt(victim, self._shareable(victim))
                if victim is request:
                    return
            copies = self.manager.allocate(request.kv, rows.end)
        plan.add(request, rows, copies)
        request.queried = True

    def _next_rows(self, request: Request, plan: StepPlan) -> NextRows:
        return next_rows(request, plan.budget, self.config, self._rule)

    def _restart(self, request: Request) -> None:
        """Go on from whole blocks only, a request that runs alone and lacks a block.

        To diverge inside a cached block takes a copy, one block more than a cold run needs, and
        runs hold blocks that they use in part or not at all. A pool of exactly the blocks needed
        has none to spare, so all that is computed instead.
        """
        kv = request.kv
        assert kv is not None and (kv.shift is not None or kv.num_cached % self.block_size)
        self.manager.free(kv, self._shareable(request))
        request.kv = self._lookup.begin(request, whole_blocks=True)
        self._lookup.extend_hit(request.kv)
        self._start_from_cache(request)

    def _preempt(self, request: Request, tokens: Tokens) -> None:
        """tokens: the ones whose KV may stay cached."""
        self._release(request, tokens)
        request.num_computed_tokens = 0
        request.num_preemptions += 1
        self.num_preemptions += 1
        request.status = RequestStatus.PREEMPTED
        self.waiting.push(request)

    def _release(self, request: Request, tokens: Tokens) -> None:
        assert request.kv is not None
        self.manager.free(request.kv, tokens)
        request.kv = None
        self.running.remove(request)

    def _merges(self, plan: StepPlan) -> Merges:
        """Means are made where it keeps no first token waiting."""
        if self._means is None or not plan.is_decode:
            return ()
        return self._means.next_merges(self._num_promised() + self._watermark)

    def _has_room(self, needed: int) -> bool:
        if not self.running:
            return True
        available = self.manager.num_available_blocks
        return has_room(needed, self._num_promised(), available, self._watermark)

    def _num_promised(self) -> int:
        """Blocks that the running requests still take for the tokens they have."""
        return sum(num_missing_blocks(request, self.manager) for request in self.running)

    def _shareable(self, request: Request) -> Tokens:
        count = num_shareable_tokens(request, request.num_computed_tokens, self.config)
        return request.tokens[:count]
