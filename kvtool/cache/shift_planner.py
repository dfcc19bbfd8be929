"""Which cached text of other positions a sequence uses, and the blocks that hold it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

import numpy as np

from kvtool.cache.block_pool import BlockIds, Tokens
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.sequence import SequenceKV
from kvtool.cache.shifted import Runs, ShiftedKV
from kvtool.config import CacheConfig
from kvtool.names import lookup
from kvtool.reuse.content_index import ContentIndex
from kvtool.reuse.donors import DONORS
from kvtool.reuse.plan import SELECT, SHIFT, Plan, make_plan
from kvtool.reuse.planner import Rules, plan_prompt
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair
from kvtool.reuse.run import Run

NOT_IN_EVERY_GROUP = "not_in_every_group"
FAILED_CHECK = "layer_0_keys_differ"

Chains = tuple[BlockIds, ...]  # one a group: from the first block of the donor to the run's last


class ShiftPlanner:
    """Runs are searched in the first layer group; the others find the same text by its prefix.

    Raises `ConfigError` for a repair or donor rule that there is none of.
    """

    def __init__(self, groups: Sequence[GroupCache], config: CacheConfig) -> None:
        self.repair = parse_repair(config.repair)
        limits = Limits(config.min_run, config.bos_id, config.delta_multiple)
        self._rules = Rules(limits, self.repair, lookup(DONORS, config.donor, "donor"))
        self._groups = groups
        self._index = ContentIndex(groups[0].pool)
        groups[0].content = self._index

    def plan(self, kv: SequenceKV, tokens: Tokens, barred: Set[int]) -> None:
        """Plan what lies behind the exact hit of `tokens` and pin the donors.

        barred: blocks of the first group that must not donate.
        """
        if len(tokens) - kv.num_cached <= self._rules.limits.min_run:
            return
        planned = plan_prompt(tokens, kv.num_cached, self._index, kv.namespace, self._rules)
        refused = Counter(planned.refused)
        runs, donors = [], []
        for run in planned.plan.runs:
            if not barred.isdisjoint(run.blocks):
                continue
            chains = self._live_chains(run, kv.namespace)
            if chains is None:
                refused[NOT_IN_EVERY_GROUP] += 1
            else:
                runs.append(run)
                donors.append(chains)
        if kv.query:
            kv.query = kv.query._replace(refused=refused)
        num_hit, size = kv.num_cached, self._index.block_size
        plan = make_plan(len(tokens), num_hit, runs, self.repair, size)
        if any(span.kind in (SHIFT, SELECT) for span in plan.spans):
            kv.shift = self._shifted(plan, donors)
            for group, blocks in zip(self._groups, kv.shift.pins):
                group.pool.touch(blocks)

    def _live_chains(self, run: Run, namespace: bytes) -> Chains | None:
        """The donor of a run, root to end, in every group; None: a group has lost it."""
        first, *others = self._groups
        chain = first.chain(run.blocks[-1])
        num_tokens = run.stop - run.delta  # of the donor, up to the end of the run
        # With the rest of the last block: an index of full blocks finds no part of one.
        num_cached = int(first.pool.num_tokens[chain].sum())
        tokens = first.pool.tokens[chain].reshape(-1)[:num_cached]
        chains = [chain]
        for group in others:
            match = group.match(tokens, namespace)
            if match.num_tokens < num_tokens:
                return None
            chains.append(match.block_ids)
        return tuple(chains)

    def _shifted(self, plan: Plan, donors: Sequence[Chains]) -> ShiftedKV:
        groups = range(len(self._groups))
        return ShiftedKV(
            plan=plan,
            moved=tuple(self._runs_of(SHIFT, plan, donors, group) for group in groups),
            copied=tuple(self._runs_of(SELECT, plan, donors, group) for group in groups),
            pins=tuple(np.unique(np.concatenate([c[group] for c in donors])) for group in groups),
            num_exact=min(span.start for span in plan.spans if span.kind in (SHIFT, SELECT)),
        )

    def _runs_of(self, kind: str, plan: Plan, donors: Sequence[Chains], group: int) -> Runs:
        """The spans of one kind as runs in the blocks of a group."""
        found = []
        for span in plan.spans:
            if span.kind == kind and span.run is not None:
                run = plan.runs[span.run]
                blocks = donors[span.run][group][-len(run.blocks) :]
                run = run._replace(blocks=tuple(blocks.tolist()))
                found.append(run.cut(span.start, span.stop, self._index.block_size))
        return tuple(found)
