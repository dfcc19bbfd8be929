"""The part of a sequence that is served from other chains: text cached at other positions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kvtool.cache.block_pool import BlockIds
from kvtool.cache.section import Runs, Section, all_pins
from kvtool.reuse.plan import RECOMPUTE, SELECT, SHIFT, Plan

if TYPE_CHECKING:
    from kvtool.cache.record import Record

APPROXIMATE = "approximate"  # origin of a run that an earlier sequence has used or computed


class MovedRun(NamedTuple):
    """Prompt tokens [start, stop), moved by delta; origin: of `section`, or APPROXIMATE."""

    start: int
    stop: int
    delta: int
    origin: str


@dataclass(slots=True, eq=False, kw_only=True)
class ShiftedKV:
    """A plan with at least one run, and the donors' blocks that carry it out.

    moved_sections are read where they are; copied_sections (the forward pass selects from them)
    are copied to own blocks, keys turned, before anything reads them. Both by start; `moved` and
    `copied` are their runs, per layer group. runs: those of the plan, told apart by origin.
    provenance: the runs that its approximate KV rests on, those of continued records included, in
    the blocks of the first group. continued: the positions served by an earlier sequence's
    `record`, repaired and checked then.

    pins: the blocks of all sections, held while the sequence lives. entered: the runs of both
    kinds that came into the tables with the last `allocate`, but for continued ones. num_exact:
    leading tokens whose KV rests on exact KV alone; nothing behind them ever donates or serves an
    exact hit. rows: int64, the prompt's positions to compute, ascending; those that are selected
    join them.
    """

    plan: Plan
    moved_sections: tuple[Section, ...]
    copied_sections: tuple[Section, ...]
    runs: tuple[MovedRun, ...]
    provenance: Runs
    continued: range
    record: Record | None
    num_exact: int = field(init=False)
    moved: tuple[Runs, ...] = field(init=False)
    copied: tuple[Runs, ...] = field(init=False)
    pins: tuple[BlockIds, ...] = field(init=False)
    entered: tuple[Runs, ...] = ()
    rows: BlockIds = field(init=False)

    def __post_init__(self) -> None:
        self.use_plan(self.plan)
        sections = self.sections
        self.num_exact = sections[0].start
        groups = range(len(sections[0].runs))
        self.moved = tuple(tuple(s.runs[group] for s in self.moved_sections) for group in groups)
        self.copied = tuple(tuple(s.runs[group] for s in self.copied_sections) for group in groups)
        self.pins = tuple(all_pins(sections, group) for group in groups)

    @property
    def sections(self) -> tuple[Section, ...]:
        """By start."""
        return tuple(sorted(self.moved_sections + self.copied_sections, key=lambda s: s.start))

    def origin_at(self, position: int) -> str:
        """Of the run that holds this position."""
        return next(r.origin for r in self.runs if r.start <= position < r.stop)

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
            tuple(sorted(run for run in (*moved, *copied) if self._is_new(run.start, start, stop)))
            for moved, copied in zip(self.moved, self.copied)
        )

    def _is_new(self, at: int, start: int, stop: int) -> bool:
        return start <= at < stop and at not in self.continued


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
