"""Makes means of exact copies, a few tokens a step, while nobody waits for it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.donor_sections import DonorSections
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.section import Section, all_pins
from kvtool.reuse.consensus import MeanPlan, Text, plan_means
from kvtool.reuse.content_index import ContentIndex
from kvtool.reuse.donor_chains import Chain, DonorChains
from kvtool.reuse.refusals import Limits

MAX_STEP_TOKENS = 1024  # merged in one step
MAX_SHARE = 4  # means hold at most one in so many blocks of the pool
MAX_WAITING = 64  # texts that are still to be looked at; older ones are forgotten

Merges = tuple[npt.NDArray[np.int64], ...]


class Known(NamedTuple):
    """Tokens [0, n) of one sequence were in the pool when it ended, [0, first) when it began."""

    tokens: Tokens
    first: int
    namespace: bytes


@dataclass(slots=True, eq=False)
class Job:
    """One mean in the making. blocks: where it comes to stand; pins: what it is made of; both of
    each group. merges: as in `Batch.merges`; [0, done) are carried out, [done, handed) with the
    coming step. What is not published yet can always be begun again: the first copy overwrites.
    """

    plan: MeanPlan
    namespace: bytes
    blocks: tuple[BlockIds, ...]
    pins: tuple[BlockIds, ...]
    merges: Merges
    done: int = 0
    handed: int = 0


class Means:
    """Texts that wait → the jobs of one of them → chains of `chains`.

    All its references are weak: whoever needs the blocks calls `give_up`. The blocks it takes are
    empty, or cached and held by nobody.
    """

    def __init__(
        self,
        groups: Sequence[GroupCache],
        index: ContentIndex,
        chains: DonorChains,
        limits: Limits,
    ) -> None:
        self._groups = groups
        self._index = index
        self._chains = chains
        self._sections = DonorSections(groups, chains)
        self._limits = limits
        self._num_blocks = groups[0].pool.num_blocks
        self._waiting: deque[Known] = deque(maxlen=MAX_WAITING)
        self._jobs: deque[Job] = deque()  # the first is under way

    @property
    def has_work(self) -> bool:
        return bool(self._jobs or self._waiting)

    def observe(self, tokens: Tokens, first: int, namespace: bytes) -> None:
        """A sequence ends that leaves the exact KV of `tokens`, new from `first` on."""
        if len(tokens) - first >= self._limits.min_run:
            self._waiting.append(Known(np.array(tokens), first, namespace))

    def next_merges(self, num_reserved: int) -> Merges:
        """For the coming step, which `end_step` or `undo_step` follows; of every group as many.

        num_reserved: available blocks of each group that a new mean must leave.
        """
        while self._waiting and not self._jobs:
            self._begin(self._waiting.popleft(), num_reserved)
        if not self._jobs:
            return tuple(np.empty((0, 4), dtype=np.int64) for _ in self._groups)
        job = self._jobs[0]
        job.handed = min(job.done + MAX_STEP_TOKENS, len(job.merges[0]))
        return tuple(merges[job.done : job.handed] for merges in job.merges)

    def end_step(self) -> None:
        """What was handed out is merged."""
        if self._jobs:
            job = self._jobs[0]
            job.done = job.handed
            if job.done == len(job.merges[0]):
                self._publish(self._jobs.popleft())

    def undo_step(self) -> None:
        """It is not, or in part."""
        if self._jobs:
            self._jobs[0].done = self._jobs[0].handed = 0

    def give_up(self) -> bool:
        """The mean that is furthest from being made, between two steps. False: there is none."""
        if not self._jobs:
            return False
        job = self._jobs.pop()
        self._release(job.pins)
        self._release(job.blocks)
        return True

    def clear(self) -> None:
        while self.give_up():
            pass
        self._waiting.clear()

    def _begin(self, known: Known, num_reserved: int) -> None:
        matches = [group.match(known.tokens, known.namespace) for group in self._groups]
        num_tokens = min(match.num_tokens for match in matches)
        if num_tokens - known.first < self._limits.min_run:
            return
        tokens, blocks = known.tokens[:num_tokens], matches[0].block_ids
        text = Text(tokens, blocks, known.first, known.namespace)
        for plan in plan_means(text, self._index, self._chains, self._limits):
            if self._fits(plan):
                self._start(plan, known.namespace, num_reserved)

    def _fits(self, plan: MeanPlan) -> bool:
        """In the share of the pool that means may have; older ones make room."""
        count, most = len(plan.num_merged), self._num_blocks // MAX_SHARE
        if plan.replaces is not None:
            most += len(plan.replaces.blocks[0])
        taken = sum(len(job.blocks[0]) for job in self._jobs)
        while self._chains.num_blocks + taken + count > most:
            if not self._chains.drop_oldest():
                return False
        return plan.replaces is None or self._chains.holds(plan.replaces)

    def _start(self, plan: MeanPlan, namespace: bytes, num_reserved: int) -> None:
        """Unless a group has lost what the mean is made of, or has no room for it."""
        found = [self._sections.find(each.run, namespace) for each in plan.contributions]
        sections = tuple(section for section in found if section is not None)
        if len(sections) < len(found):
            return
        groups = range(len(self._groups))
        pins = tuple(all_pins(sections, group) for group in groups)
        for group, own in zip(self._groups, pins):
            group.pool.touch(own, weak=True)
        count, pools = len(plan.num_merged), [group.pool for group in self._groups]
        if any(count + num_reserved > pool.num_free + pool.num_unreferenced for pool in pools):
            self._release(pins)
            return
        blocks = tuple(group.allocate(count) for group in self._groups)
        for group, own in zip(self._groups, blocks):
            group.pool.touch(own, weak=True)
            group.pool.free(own)
        merges = tuple(self._merges(plan, sections, group, blocks[group]) for group in groups)
        self._jobs.append(Job(plan, namespace, blocks, pins, merges))

    def _merges(
        self, plan: MeanPlan, sections: tuple[Section, ...], group: int, blocks: BlockIds
    ) -> npt.NDArray[np.int64]:
        size, parts = self._index.block_size, []
        for section, (_, number) in zip(sections, plan.contributions):
            run = section.runs[group]
            at = np.arange(run.start - plan.home, run.stop - plan.home)
            targets = blocks[at // size] * size + at % size
            rest = np.broadcast_to((run.delta, number), (len(at), 2))
            parts.append(np.column_stack((run.slots(size), targets, rest)))
        return np.concatenate(parts)

    def _publish(self, job: Job) -> None:
        """It was used when the last of its copies was."""
        plan, tree = job.plan, self._groups[0].tree
        for group, blocks in zip(self._groups, job.blocks):
            group.pool.touch(blocks)
        self._release(job.blocks)
        chain = Chain(
            blocks=job.blocks,
            tokens=plan.tokens,
            home=plan.home,
            namespace=job.namespace,
            first_token=plan.first_token,
            context=plan.context,
            num_merged=plan.num_merged,
            contexts=plan.contexts,
        )
        self._chains.add(chain, max(tree.use(block).last_use for block in job.pins[0].tolist()))
        if plan.replaces is not None and self._chains.holds(plan.replaces):
            self._chains.remove(plan.replaces)
        self._release(job.pins)

    def _release(self, blocks: tuple[BlockIds, ...]) -> None:
        for group, own in zip(self._groups, blocks):
            group.let_go(own, weak=True)

    def holders(self, group: int) -> Counter[int]:
        """Block id -> weak references."""
        held = (blocks[group] for job in self._jobs for blocks in (job.blocks, job.pins))
        return Counter(block for blocks in held for block in blocks.tolist())
