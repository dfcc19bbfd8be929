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
from kvtool.cache.shift_planner import FAILED_CHECK
from kvtool.cache.shifted import sources
from kvtool.config import SchedulerConfig
from kvtool.engine.admission import check_fits, has_room, num_blocks_for
from kvtool.engine.batch import Batch, SampledToken, Selected, StepOutput
from kvtool.engine.cache_lookup import CacheLookup
from kvtool.engine.cached_tokens import cached_by_tier
from kvtool.engine.chunking import check_chunking, num_shareable_tokens
from kvtool.engine.executor import RunRefused
from kvtool.engine.finish import finish_reason
from kvtool.engine.next_rows import NextRows, next_rows
from kvtool.engine.preemption import choose_victim
from kvtool.engine.request import Request, RequestStatus
from kvtool.engine.step_plan import StepPlan
from kvtool.engine.waiting_queue import WaitingQueue
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
        self._watermark = math.ceil(config.watermark * manager.num_blocks)
        # So many that their decodes never exceed the budget.
        self._max_running = min(config.max_num_seqs, config.max_num_batched_tokens)

    @property
    def has_work(self) -> bool:
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
        """The next step; never empty while there is work."""
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
        batch = plan.batch(len(self.manager.groups))
        assert batch.scheduled or not self.has_work, "a step without progress"
        for scheduled in batch.scheduled:
            scheduled.request.last_step = self._step
        self._step += 1
        return batch

    def update(
        self, batch: Batch, output: StepOutput, selected: Mapping[int, Selected]
    ) -> list[Request]:
        """Take in what the step computed; returns the requests that got a token or failed."""
        progressed = []
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
                self._count_admission(request)
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

        Their copies never happened, so nothing but the blocks already committed is shared.
        """
        for scheduled in batch.scheduled:
            self._preempt(scheduled.request, scheduled.request.tokens[:0])

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
        if not self._has_room(self._expected_blocks(request, num_cached_tokens, may_shift)):
            return False
        kv = request.kv = self._lookup.begin(request)
        if may_shift:
            self._lookup.extend_hit(kv)
            self._lookup.plan_shift(request, kv)
        # Pinned blocks no longer count as available: look again with exact figures.
        request.num_wanted_blocks = self._missing_blocks(request) + self._may_copy(request)
        if not self._has_room(request.num_wanted_blocks):
            self.manager.free(kv, request.tokens[:0])
            request.kv = None
            return False
        if not may_shift:
            self._lookup.extend_hit(kv)
        request.status = RequestStatus.RUNNING
        self._start_from_cache(request)
        return True

    def _expected_blocks(self, request: Request, num_cached_tokens: int, may_shift: bool) -> int:
        """Before anything is pinned. What runs save is known from the last time it was tried."""
        if may_shift:
            return request.num_wanted_blocks or 0
        needed = num_blocks_for(request.num_tokens, self.block_size)
        return needed - num_cached_tokens // self.block_size

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

    def _count_admission(self, request: Request) -> None:
        """Once a request, however often it is preempted or its prompt is cut; after its first
        step, so that what could not be loaded does not count."""
        assert request.kv is not None
        request.admitted = True
        request.num_cached_tokens = request.num_computed_tokens
        request.cached_by_tier = cached_by_tier(request.kv, request.num_cached_tokens)
        if request.kv.num_cached == request.num_prompt_tokens:
            self.manager.stats.count_full_hit()
        if request.kv.shift is not None:
            request.sources = sources(request.kv.shift.plan)
            self.manager.stats.count_shifted(request.sources)

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

    def _has_room(self, needed: int) -> bool:
        if not self.running:
            return True
        promised = sum(self._missing_blocks(request) for request in self.running)
        return has_room(needed, promised, self.manager.num_available_blocks, self._watermark)

    def _missing_blocks(self, request: Request) -> int:
        assert request.kv is not None
        return self.manager.num_missing_blocks(request.kv, request.num_tokens)

    def _may_copy(self, request: Request) -> bool:
        """Its cached tokens end within a block, which it may have to copy to go on."""
        assert request.kv is not None
        return request.kv.tables[0].num_filled(self.block_size) > 0

    def _shareable(self, request: Request) -> Tokens:
        count = num_shareable_tokens(request, request.num_computed_tokens, self.config)
        return request.tokens[:count]
