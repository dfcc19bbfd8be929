"""The loop: schedule, execute, update."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from kvtool.cache.manager import CacheManager
from kvtool.config import SchedulerConfig
from kvtool.engine.batch import Batch, Selected, StepOutput
from kvtool.engine.executor import Executor, RunRefused, Selecting
from kvtool.engine.metrics import EngineMetrics
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.errors import ConfigError
from kvtool.tiers.loading import LoadFailed

_MIN_MEASURED_TOKENS = 64  # of a step that says how fast prompts are computed


class Engine:
    """Requests in, tokens out.

    check_integrity: verify all cache invariants after every step (slow).
    clock: seconds; a simulated executor brings its own.
    """

    def __init__(
        self,
        executor: Executor,
        manager: CacheManager,
        config: SchedulerConfig,
        *,
        check_integrity: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if manager.shift is not None and manager.shift.repair.selects:
            _check_selecting(executor, str(manager.shift.repair))
        self.executor = executor
        self.manager = manager
        self.scheduler = Scheduler(manager, config)
        self.metrics = EngineMetrics()
        self._check_integrity = check_integrity
        self._is_torn = False  # within a change of queues and cache, or left there for good
        self._clock = clock

    @property
    def has_work(self) -> bool:
        return self.scheduler.has_work

    def add(self, request: Request) -> None:
        """Raises `InputError`, `ConfigError` or `CacheError` for a request that can never run,
        one that was added before included."""
        self._assert_whole()
        self.scheduler.check(request)
        request.timing.arrival_s = self._clock()
        self._is_torn = True
        self.scheduler.add(request)
        self._is_torn = False

    def finish(self, request: Request, reason: str) -> None:
        """End a request now, between two steps; no effect on a finished one."""
        if self._is_torn:  # nothing runs any more, and its blocks are nobody's
            if not request.is_finished:
                request.end(reason)
            return
        self._is_torn = True
        self.scheduler.finish(request, reason)
        self._is_torn = False

    def abort(self, request: Request) -> None:
        self.finish(request, "abort")

    def step(self) -> list[Request]:
        """One forward; returns the requests that got a token or failed, finished ones included.
        Where no request is left, means of cached text are made instead.

        Whatever interrupts the executor, Ctrl-C included, leaves cache and queues consistent:
        the requests of the step wait for admission again. The rare interrupt of the bookkeeping
        around it leaves an engine whose requests can only be ended.

        Stored KV that cannot be read costs the step: nobody progresses, the tier has forgotten
        it, and so the next attempt computes it. The same with a run that fails its check.
        """
        self._assert_whole()
        self._is_torn = True
        batch = self.scheduler.schedule()
        blocks_in_use = self.manager.num_blocks - self.manager.num_available_blocks
        try:
            output = self._execute(batch)
            selected = self._select(batch)
        except LoadFailed:
            self.scheduler.rollback(batch)
            self.metrics.failed_loads += 1
            self._is_torn = False
            return []
        except RunRefused as refused:
            self.scheduler.refuse(batch, refused)
            self._is_torn = False
            return []
        except BaseException:
            self.scheduler.rollback(batch)
            self._is_torn = False
            raise
        progressed = self.scheduler.update(batch, output, selected)
        self._is_torn = False
        now_s = self._clock()
        for request in progressed:
            if request.error is None:
                request.timing.token(now_s)
        if batch.scheduled:
            self.metrics.record(batch, self.scheduler.block_size, blocks_in_use)
        self.metrics.preemptions = self.scheduler.num_preemptions
        if self._check_integrity:
            self.check_integrity()
        return progressed

    def _execute(self, batch: Batch) -> StepOutput:
        """Steps without loads that compute enough tokens are measured."""
        if batch.is_empty:
            return {}
        backing = self.manager.backing
        has_loads = bool(batch.loads or batch.donor_loads)
        if backing is None or has_loads or batch.num_tokens < _MIN_MEASURED_TOKENS:
            return self.executor.execute(batch)
        start_s = self._clock()
        output = self.executor.execute(batch)
        backing.computed(batch.num_tokens, self._clock() - start_s)
        return output

    def _select(self, batch: Batch) -> Mapping[int, Selected]:
        if not batch.selections:
            return {}
        assert isinstance(self.executor, Selecting)
        return self.executor.select(batch.selections)

    def run(self, requests: Iterable[Request]) -> Iterator[Request]:
        """Add all, step until no work is left, yield each request when it is finished."""
        for request in requests:
            self.add(request)
        while self.has_work:
            yield from (request for request in self.step() if request.is_finished)

    def _assert_whole(self) -> None:
        assert not self._is_torn, "interrupted in mid-step: requests can only be ended"

    def check_integrity(self) -> None:
        """Raises `AssertionError` where pools, indexes or tables contradict each other."""
        live = [request.kv for request in self.scheduler.running if request.kv is not None]
        self.manager.check_integrity(live)


def _check_selecting(executor: Executor, repair: str) -> None:
    if not isinstance(executor, Selecting):
        raise ConfigError(
            f"--repair {repair} needs a model that chooses tokens; there is none here.",
            hint="Use --repair auto, or for example first:32.",
        )
