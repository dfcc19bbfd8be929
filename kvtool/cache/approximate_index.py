"""ApproximateIndex: sequences that used moved text, for those that go on from them.

KV computed on top of approximate KV is never a donor and never an exact hit, so it is in no other
index. It is read for requests that ask for shifted reuse alone, and given up before any exact
block is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kvtool.cache.block_pool import Tokens
from kvtool.cache.common_prefix import common_prefix
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.record import Record
from kvtool.cache.section import COMPUTED, Section
from kvtool.cache.stats import CacheStats
from kvtool.reuse.rolling_hash import prefix_hashes

Key = tuple[bytes, int, int]  # namespace, start, hash of the exact tokens in front


class Agreement(NamedTuple):
    """The record's KV of positions [start, stop) is that of a prompt."""

    record: Record
    start: int
    stop: int


class ApproximateIndex:
    """Records by the exact tokens in front of them; the one used longest ago goes first.

    It has weak references on the pins of its records (see `BlockPool`), every section its own.
    """

    def __init__(self, groups: Sequence[GroupCache], stats: CacheStats) -> None:
        self._groups = groups
        self._stats = stats
        self._block_size = groups[0].pool.block_size
        self._records: dict[Record, Key] = {}  # the one used last is the last
        self._buckets: dict[Key, list[Record]] = {}
        self._starts: dict[bytes, Counter[int]] = {}  # of the records of a namespace

    def find(self, tokens: Tokens, num_hit: int, namespace: bytes) -> Agreement | None:
        """What saves most of `tokens` behind num_hit; of equals what was kept last.

        One pass over the tokens; a record that cannot be better than another one costs a look at
        one token.
        """
        if namespace not in self._starts:
            return None
        hashes = prefix_hashes(tokens)
        best, most = None, 0
        for start in self._starts[namespace]:
            if start >= len(tokens):
                continue
            for record in reversed(self._buckets.get((namespace, start, int(hashes[start])), [])):
                begin = max(start, num_hit)
                least = begin + most  # it must agree at this position to be better
                if least >= min(len(tokens), record.num_tokens):
                    continue
                if tokens[least] == record.tokens[least]:
                    stop = common_prefix(tokens, record.tokens)
                    if stop > least:
                        best, most = Agreement(record, begin, stop), stop - begin
        return best

    def use(self, record: Record) -> None:
        self._records[record] = self._records.pop(record)

    def add(self, record: Record, before: Record | None = None) -> None:
        """In place of those it continues; not where another one continues it. before: a record that
        its sequence went on from."""
        front = prefix_hashes(record.tokens[: record.start])
        key = (record.namespace, record.start, int(front[-1]))
        others = dict.fromkeys(self._buckets.get(key, ()))
        if before in self._records:
            others[before] = None
        for other in others:
            if other.continues(record, self._block_size):
                self.use(other)
                return
            if record.continues(other, self._block_size):
                self._remove(other)
        for section in record.sections:
            self._hold(section)
        self._records[record] = key
        self._buckets.setdefault(key, []).append(record)
        self._starts.setdefault(record.namespace, Counter())[record.start] += 1
        self._stats.approximate_records += 1
        self._stats.approximate_tokens += record.num_approximate

    def give_up(self, num_blocks: int) -> bool:
        """Of the record used longest ago: up to so many blocks at its end, or the moved text there.

        False: there is no record. A block that others hold as well does not get free by this.
        """
        if not self._records:
            return False
        record = next(iter(self._records))
        kept = self._without_end(record.sections[-1], num_blocks)
        dropped = record.num_approximate
        if kept is None and len(record.sections) == 1:
            self._remove(record)
        else:
            self._replace_last(record, kept)
            dropped -= record.num_approximate
            self._stats.approximate_tokens -= dropped
        self._stats.dropped_tokens += dropped
        return True

    def _without_end(self, section: Section, num_blocks: int) -> Section | None:
        run = section.runs[0]
        num_kept = len(run.blocks) - num_blocks if section.origin == COMPUTED else 0
        stop = run.start - run.offset + num_kept * self._block_size
        return section.cut(run.start, stop, self._block_size) if stop > run.start else None

    def _replace_last(self, record: Record, kept: Section | None) -> None:
        last = record.sections.pop()
        if kept is not None:
            record.sections.append(kept)
            self._hold(kept)  # before `last` is released: a block held by nobody is handed out
        self._release(last)
        record.cut(record.sections[-1].stop, self._block_size)

    def _remove(self, record: Record) -> None:
        key = self._records.pop(record)
        self._buckets[key].remove(record)
        if not self._buckets[key]:
            del self._buckets[key]
        starts = self._starts[record.namespace]
        starts[record.start] -= 1
        if not starts[record.start]:
            del starts[record.start]
        if not starts:
            del self._starts[record.namespace]
        for section in record.sections:
            self._release(section)
        self._stats.approximate_records -= 1
        self._stats.approximate_tokens -= record.num_approximate

    def clear(self) -> None:
        for record in list(self._records):
            self._remove(record)

    def _hold(self, section: Section) -> None:
        for group, blocks in zip(self._groups, section.pins):
            group.pool.touch(blocks, weak=True)

    def _release(self, section: Section) -> None:
        for group, blocks in zip(self._groups, section.pins):
            group.let_go(blocks, weak=True)

    def holders(self, group: int) -> Counter[int]:
        """Block id -> weak references."""
        sections = (section for record in self._records for section in record.sections)
        return Counter(block for section in sections for block in section.pins[group].tolist())

    def check_integrity(self) -> None:
        """Every record is found, and its moved text is what its donors hold."""
        for record, key in self._records.items():
            record.check_integrity(self._groups)
            assert record in self._buckets[key]
            assert key[:2] == (record.namespace, record.start)
        assert sum(map(len, self._buckets.values())) == len(self._records)
        starts = Counter((record.namespace, record.start) for record in self._records)
        kept = {(name, at): n for name, found in self._starts.items() for at, n in found.items()}
        assert starts == kept
        assert self._stats.approximate_records == len(self._records)
        tokens = sum(record.num_approximate for record in self._records)
        assert self._stats.approximate_tokens == tokens
