"""What advice is given on: a workload, how it was served, and means to serve a changed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from kvtool.advice.advice import Figures
from kvtool.advice.rewrite import Requests, Rewrite, changes_any
from kvtool.analysis.accesses import Accesses
from kvtool.config import EngineConfig
from kvtool.replay.totals import Totals
from kvtool.simulation.serving import hits_of
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that may save work. replay: serves the trace with it; raises `CacheError` where
    that cannot be. why: of the trace, in one or two sentences."""

    title: str
    why: str
    replay: Callable[[], Totals]
    command: str | None = None
    rewrite: Rewrite | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Situation:
    """before: of the replay with num_blocks blocks. causes: missed tokens by cause."""

    workload: Workload
    settings: SimulationSettings
    num_blocks: int
    before: Figures
    causes: Mapping[str, int]

    @property
    def has_text(self) -> bool:
        return self.workload.trace.kind == "text"

    @cached_property
    def accesses(self) -> Accesses:
        return Accesses.of(self.workload, self.workload.unit)

    @property
    def evicted_tokens(self) -> int:
        """Missed because they were evicted before they were asked for again."""
        return self.causes.get("capacity", 0) + self.causes.get("policy", 0)

    def requests(self) -> Requests:
        return self.workload.requests or (lambda: iter(self.workload.trace))

    def replay(self, *, num_blocks: int | None = None) -> Totals:
        return hits_of(self.workload, self.settings, num_blocks or self.num_blocks)

    def with_engine(self, **options: object) -> Situation:
        engine: EngineConfig = replace(self.settings.engine, **options)  # type: ignore[arg-type]
        return replace(self, settings=replace(self.settings, engine=engine))

    def rewritten(self, rewrite: Rewrite) -> Situation:
        requests = self.requests()
        return replace(self, workload=self.workload.rewritten(lambda: rewrite(requests)))

    def rewriting(self, rewrite: Rewrite, title: str, why: str) -> Iterator[Proposal]:
        """The proposal to rewrite, where that changes anything."""
        if changes_any(rewrite, self.requests()):
            yield Proposal(
                title=title,
                why=why,
                replay=lambda: self.rewritten(rewrite).replay(),
                command="--apply OUT.jsonl",
                rewrite=rewrite,
            )


Kind = Callable[[Situation], Iterator[Proposal]]
"""One kind of advice: its proposals, of which the best is given."""
