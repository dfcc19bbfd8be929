"""The part of a sequence that is served from other chains: text cached at other positions."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvtool.cache.block_pool import BlockIds
from kvtool.reuse.plan import RECOMPUTE, SELECT, SHIFT, Plan
from kvtool.reuse.run import Run

Runs = tuple[Run, ...]


@dataclass(slots=True, eq=False, kw_only=True)
class ShiftedKV:
    """A plan with at least one run, and the donors' blocks that carry it out.

    Per layer group, in order: `moved` runs are read where they are; `copied` ones (the forward
    pass selects from them) are copied to own blocks, keys turned, before anything reads them.
    pins: the donors' blocks and all in front of them (a block is never evicted before what is
    behind it), held while the sequence lives. entered: the runs of both kinds that came into the
    tables with the last `allocate`. num_exact: leading tokens whose KV rests on exact KV alone;
    nothing behind them ever donates or serves an exact hit. rows: int64, the prompt's positions
    to compute, ascending; those that are selected join them.
    """

    plan: Plan
    moved: tuple[Runs, ...]
    copied: tuple[Runs, ...]
    pins: tuple[BlockIds, ...]
    num_exact: int
    entered: tuple[Runs, ...] = ()
    rows: BlockIds = field(init=False)

    def __post_init__(self) -> None:
        self.use_plan(self.plan)

    def use_plan(self, plan: Plan) -> None:
        """The same runs; more of their tokens are computed again."""
        self.plan = plan
        self.rows = plan.rows

    def next_selection(self, start: int) -> int | None:
        """Where, from `start` on, the first span begins that is to be selected from."""
        spans = self.plan.spans
        return next((s.start for s in spans if s.kind == SELECT and s.start >= start), None)

    def enter(self, start: int, stop: int) -> None:
        """The tables covered [0, start) and cover [0, stop) now."""
        self.entered = tuple(
            tuple(sorted(run for run in (*moved, *copied) if start <= run.start < stop))
            for moved, copied in zip(self.moved, self.copied)
        )


@dataclass(frozen=True, slots=True)
class Sources:
    """Prompt tokens that are not computed for the first time, beside exact hits."""

    shifted: int = 0
    recomputed: int = 0


def sources(plan: Plan) -> Sources:
    """Known before anything is selected: how many are is part of the plan."""
    tokens = plan.tokens_by_source
    return Sources(
        shifted=tokens[SHIFT] + tokens[SELECT] - plan.num_selected,
        recomputed=tokens[RECOMPUTE] + plan.num_selected,
    )
