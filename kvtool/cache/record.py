"""What is kept of a sequence behind its first moved text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.section import COMPUTED, Runs, Section
from kvtool.cache.sequence import SequenceKV


@dataclass(slots=True, eq=False)
class Record:
    """The KV of tokens [start, n) of one sequence, on top of exact KV of [0, start).

        exact          | own        donor's      own      donor's  own       |
        not kept here    sections[0]       ...               sections[-1]
        0              start                                                 n

    namespace, tokens and provenance say what the KV is: the same tokens behind other donors have
    other KV. provenance: the runs that it rests on, in the blocks of the first layer group; how
    they were repaired is one rule for the whole cache.
    """

    namespace: bytes
    tokens: Tokens
    sections: list[Section]
    provenance: Runs

    @property
    def start(self) -> int:
        return self.sections[0].start

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_approximate(self) -> int:
        return self.num_tokens - self.start

    def continues(self, other: Record, block_size: int) -> bool:
        """The other one, of the same namespace, holds the beginning of this one or all of it: what
        lies in front of the later start is exact in one of them."""
        start, length = max(self.start, other.start), other.num_tokens
        if length > self.num_tokens or self.tokens[length - 1] != other.tokens[-1]:
            return False
        own, others = (cut_runs(r.provenance, start, length, block_size) for r in (self, other))
        return own == others and bool((self.tokens[:length] == other.tokens).all())

    def cut(self, num_tokens: int, block_size: int) -> None:
        """Keep the first `num_tokens` tokens, which the sections end with."""
        self.tokens = self.tokens[:num_tokens]
        self.provenance = cut_runs(self.provenance, self.start, num_tokens, block_size)

    def check_integrity(self, groups: Sequence[GroupCache]) -> None:
        """Sections tile [start, n), each in the last of its pins; donors hold these tokens."""
        end = self.start
        for section in self.sections:
            assert {(run.start, run.stop) for run in section.runs} == {(end, section.stop)}
            for group, run, pins in zip(groups, section.runs, section.pins):
                assert pins[len(pins) - len(run.blocks) :].tolist() == list(run.blocks)
                size = group.pool.block_size
                assert len(run.blocks) == -(-(run.offset + run.num_tokens) // size), run
                if section.origin != COMPUTED:
                    stored = group.pool.tokens.reshape(-1)[run.slots(size)]
                    assert (stored == self.tokens[end : section.stop]).all(), f"{run}: other text"
            end = section.stop
        assert end == self.num_tokens, f"sections end at {end}, not {self.num_tokens}"


def cut_runs(runs: Runs, start: int, stop: int, block_size: int) -> Runs:
    """What lies of them in [start, stop)."""
    return tuple(
        run.cut(max(start, run.start), min(stop, run.stop), block_size)
        for run in runs
        if run.start < stop and start < run.stop
    )


def make_record(kv: SequenceKV, tokens: Tokens, groups: Sequence[GroupCache]) -> Record | None:
    """Of a sequence with runs whose KV of `tokens` = [0, n) is there; None: no run is in it.

    Its exact blocks are indexed already. An exact last block that no index took in is kept as
    well, so that a longer sequence need not compute it again.
    """
    shift, stop, size = kv.shift, len(tokens), groups[0].pool.block_size
    assert shift is not None
    if stop <= shift.num_exact:
        return None
    sections: list[Section] = []
    end = shift.num_exact - _num_unindexed(kv, groups)
    for section in shift.moved_sections:
        if section.start >= stop:
            break
        if end < section.start:
            sections.append(_own_section(kv, end, section.start, groups))
        sections.append(section)
        end = section.stop
    if end < stop:
        sections.append(_own_section(kv, end, stop, groups))
    provenance = cut_runs(shift.provenance, sections[0].start, stop, size)
    return Record(kv.namespace, np.array(tokens), sections, provenance)


def _num_unindexed(kv: SequenceKV, groups: Sequence[GroupCache]) -> int:
    """Exact tokens in a last block that ends with them or is continued behind them, where no group
    has it in an index."""
    assert kv.shift is not None
    filled = kv.shift.num_exact % groups[0].pool.block_size
    start = kv.shift.num_exact - filled
    lasts = [table.own_run(start, start + 1).blocks[0] for table in kv.tables if filled]
    is_cached = any(group.tree.is_cached(block) for group, block in zip(groups, lasts))
    return 0 if is_cached else filled


def _own_section(kv: SequenceKV, start: int, stop: int, groups: Sequence[GroupCache]) -> Section:
    runs = tuple(table.own_run(start, stop) for table in kv.tables)
    pins = tuple(_pins(group, run.blocks) for group, run in zip(groups, runs))
    return Section(runs, pins, COMPUTED)


def _pins(group: GroupCache, blocks: tuple[int, ...]) -> BlockIds:
    """The first of own blocks may have been indexed for the exact tokens in front."""
    own = np.array(blocks, dtype=np.int64)
    if group.tree.is_cached(blocks[0]):
        own = np.concatenate((group.chain(blocks[0]), own[1:]))
    return own
