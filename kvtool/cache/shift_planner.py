"""Which cached text of other positions a sequence uses, and the blocks that hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from kvtool.cache.approximate_index import ApproximateIndex
from kvtool.cache.backing import Backing
from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.donor_sections import DonorSections
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.means import Means
from kvtool.cache.record import Record, cut_runs, make_record
from kvtool.cache.section import KEPT, Runs, Section, all_pins
from kvtool.cache.sequence import SequenceKV
from kvtool.cache.shifted import APPROXIMATE, MovedRun, ShiftedKV
from kvtool.cache.stats import CacheStats
from kvtool.cache.stored_donors import StoredDonors
from kvtool.cache.transfers import Transfers
from kvtool.config import CacheConfig
from kvtool.names import lookup
from kvtool.reuse.content_index import ContentIndex
from kvtool.reuse.donor_chains import DonorChains
from kvtool.reuse.donors import CONSENSUS, DONORS
from kvtool.reuse.plan import SELECT, SHIFT, Plan, make_plan
from kvtool.reuse.planner import Rules, plan_prompt
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair
from kvtool.reuse.run import Run

NOT_IN_EVERY_GROUP = "not_in_every_group"
FAILED_CHECK = "layer_0_keys_differ"
MAX_PLANS = 3  # of one sequence: further ones avoid donors that turned out to be lost


class Continuation(NamedTuple):
    """What is used of a record: its sections and provenance at `positions`."""

    record: Record | None = None
    sections: tuple[Section, ...] = ()
    provenance: Runs = ()
    positions: range = range(0)


class ShiftPlanner:
    """Runs are searched in the first layer group, among exact blocks and in `chains`.

    records: what earlier sequences with runs have left; gone on from first, then the search
    takes what is between and behind. means: makes chains of exact copies, with donor "consensus".

    Raises `ConfigError` for a repair or donor rule that there is none of.
    """

    def __init__(
        self,
        groups: Sequence[GroupCache],
        config: CacheConfig,
        stats: CacheStats,
        transfers: Transfers,
        backing: Backing | None,
    ) -> None:
        self.repair = parse_repair(config.repair)
        self.records = ApproximateIndex(groups, stats)
        limits = Limits(config.min_run, config.bos_id, config.delta_multiple)
        self._rules = Rules(limits, self.repair, lookup(DONORS, config.donor, "donor"))
        self._groups = groups
        self._index = ContentIndex(groups[0].tree)
        groups[0].content = self._index
        self.chains = DonorChains([group.pool for group in groups])
        self._stored: StoredDonors | None = None
        if backing is not None:
            self._stored = StoredDonors(backing, groups, self.chains, transfers, stats)
        self.means: Means | None = None
        if config.donor == CONSENSUS:
            self.means = Means(groups, self._index, self.chains, limits)
        self._sources = (self._index, self.chains)
        self._sections = DonorSections(groups, self.chains)

    def plan(self, kv: SequenceKV, tokens: Tokens, barred: Set[int], now: int) -> None:
        """Plan what lies behind the exact hit of `tokens` and pin the donors.

        barred: blocks of the first group that must not donate. After such a refusal nothing more
        is loaded for the sequence.
        """
        continued = self._continue(kv, tokens)
        repaired = {section.runs[0]: section for section in continued.sections}
        sections = repaired | self._search(kv, tokens, list(repaired), barred)
        if self._stored is not None and not barred:
            sections |= self._load(kv, tokens, sections, now)
        used, size = sorted(sections), self._index.block_size
        plan = make_plan(len(tokens), kv.num_cached, used, self.repair, size, repaired=repaired)
        if any(span.kind in (SHIFT, SELECT) for span in plan.spans):
            kv.shift = _shifted(plan, sections, continued, size)
            self._pin(kv.shift.pins)
            for block in {run.blocks[0] for run in used if run.blocks[0] in self.chains}:
                self.chains.touch(block)

    def _search(
        self, kv: SequenceKV, tokens: Tokens, continued: list[Run], barred: Set[int]
    ) -> dict[Run, Section]:
        """Runs in the pool between those that are continued, all of them live in every group."""
        excluded, refused = set(barred), Counter[str]()
        for _ in range(MAX_PLANS):
            planned = plan_prompt(
                tokens,
                kv.num_cached,
                self._sources,
                kv.namespace,
                self._rules,
                continued=continued,
                excluded=excluded,
            )
            found = [run for run in planned.plan.runs if run not in continued]
            sought = {run: self._sections.find(run, kv.namespace) for run in found}
            live = {run: section for run, section in sought.items() if section}
            lost = [run for run in found if run not in live]
            refused[NOT_IN_EVERY_GROUP] += len(lost)
            if not lost:
                break
            excluded.update(block for run in lost for block in run.blocks)
        if kv.query:
            kv.query = kv.query._replace(refused=+(refused + planned.refused))
        return live

    def _load(
        self, kv: SequenceKV, tokens: Tokens, sections: Mapping[Run, Section], now: int
    ) -> dict[Run, Section]:
        """Runs in the tiers, between all others. Their blocks must not be taken from those."""
        assert self._stored is not None
        used = sorted(sections)
        held = tuple(sections.values())
        pins = [all_pins(held, group) for group in range(len(self._groups))] if held else []
        self._pin(pins)
        loaded = self._stored.fetch(kv, tokens, used, self._rules, self.make_room, now)
        for group, blocks in zip(self._groups, pins):
            group.let_go(blocks)
        return loaded

    def _pin(self, pins: Sequence[BlockIds]) -> None:
        for group, blocks in zip(self._groups, pins):
            group.pool.touch(blocks)

    def end_step(self, kv: SequenceKV, tokens: Tokens) -> None:
        """tokens: those whose KV is there. What was loaded for `kv` stays, or never came."""
        if self._stored is not None:
            self._stored.end_step(kv, tokens)

    def _continue(self, kv: SequenceKV, tokens: Tokens) -> Continuation:
        agreement = self.records.find(tokens[:-1], kv.num_cached, kv.namespace)
        if agreement is None:
            return Continuation()
        record, start, stop = agreement
        self.records.use(record)
        size = self._index.block_size
        sections = tuple(
            section.cut(max(start, section.start), min(stop, section.stop), size)
            for section in record.sections
            if section.start < stop and start < section.stop
        )
        provenance = cut_runs(record.provenance, start, stop, size)
        return Continuation(record, sections, provenance, range(start, stop))

    def make_room(self, num_blocks: Sequence[int]) -> None:
        """Before any exact block is evicted, approximate KV goes, then what only donates.
        num_blocks: one number a group, empty blocks wanted."""
        pools = [group.pool for group in self._groups]
        while True:
            missing = max(count - pool.num_free for count, pool in zip(num_blocks, pools))
            if missing <= 0 or not self._give_up(missing):
                return

    def _give_up(self, num_blocks: int) -> bool:
        return (
            self.records.give_up(num_blocks)
            or (self.means is not None and self.means.give_up())
            or self.chains.drop_oldest()
        )

    def keep(self, kv: SequenceKV, tokens: Tokens, now: int) -> None:
        """Of a sequence that ends: what no prefix index has. tokens: [0, n), computed."""
        if kv.shift is not None and kv.query is None:
            for section in kv.shift.sections:
                if section.origin == KEPT:
                    self.chains.end_use(int(section.pins[0][0]), now)
        if self.means is not None:
            self.means.observe(tokens[: kv.num_exact], kv.num_known, kv.namespace)
        record = None if kv.shift is None else make_record(kv, tokens, self._groups)
        if kv.shift is not None and record is not None:
            self.records.add(record, kv.shift.record)

    def clear(self) -> None:
        """No sequence may be left."""
        self.records.clear()
        if self.means is not None:
            self.means.clear()
        while self.chains.drop_oldest():
            pass

    def holders(self, group: int) -> Counter[int]:
        """Block id -> weak references."""
        held = self.records.holders(group) + self.chains.holders(group)
        return held if self.means is None else held + self.means.holders(group)

    def check_integrity(self) -> None:
        self.records.check_integrity()
        self.chains.check_integrity()
        for number, group in enumerate(self._groups):
            kept = self.chains.holders(number)
            assert not any(map(group.tree.is_cached, kept)), "a block of a chain is cached"


def _shifted(
    plan: Plan, sections: Mapping[Run, Section], continued: Continuation, block_size: int
) -> ShiftedKV:
    def sections_of(kind: str) -> tuple[Section, ...]:
        return tuple(
            sections[plan.runs[span.run]].cut(span.start, span.stop, block_size)
            for span in plan.spans
            if span.kind == kind and span.run is not None
        )

    new = [run for run in plan.runs if run.start not in continued.positions]
    origins = {run: sections[run].origin for run in new}
    return ShiftedKV(
        plan=plan,
        moved_sections=sections_of(SHIFT),
        copied_sections=sections_of(SELECT),
        runs=tuple(
            MovedRun(run.start, run.stop, run.delta, origins.get(run, APPROXIMATE))
            for run in plan.runs
        ),
        provenance=tuple(sorted([*continued.provenance, *new])),
        continued=continued.positions,
        record=continued.record,
    )
