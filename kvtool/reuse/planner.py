"""From a prompt to its plan: find runs, choose among them, pick donors, place repairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from kvtool.cache.block_pool import Tokens
from kvtool.cache.gaps import gaps
from kvtool.reuse.choose import choose
from kvtool.reuse.donor_source import DonorSource
from kvtool.reuse.donors import Ranking, choose_donors
from kvtool.reuse.plan import Plan, make_plan
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import Repair
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs


@dataclass(frozen=True, slots=True)
class Rules:
    limits: Limits
    repair: Repair
    ranking: Ranking


class Planned(NamedTuple):
    """num_verified, refused: see `runs.Found`."""

    plan: Plan
    num_verified: int
    refused: Counter[str]


def plan_prompt(
    tokens: Tokens,
    num_hit: int,
    sources: Sequence[DonorSource],
    namespace: bytes,
    rules: Rules,
    *,
    continued: Sequence[Run] = (),
    excluded: Set[int] = frozenset(),
) -> Planned:
    """tokens: int32 [n], n > 0; of them [0, num_hit) have exact KV in place. Changes nothing.

    sources: at least one; each is searched by itself. continued: runs to use as they are, by start, in [num_hit, n - 1); others are searched for
    between and behind them. excluded: blocks that must not donate.
    """
    limits, repair, size = rules.limits, rules.repair, sources[0].block_size
    runs, num_verified, refused = list(continued), 0, Counter[str]()
    end = len(tokens) - 1  # the last token is computed whatever is found
    for first, stop in gaps(min(num_hit, end), end, continued):
        if stop - first < limits.min_run:
            continue
        searched = tokens[:stop]
        found: list[Run] = []
        for source in sources:
            of_source = find_runs(
                searched, first, source, namespace, limits=limits, excluded=excluded
            )
            found += of_source.runs
            num_verified += of_source.num_verified
            refused += of_source.refused
        chosen = choose(found, repair, limits.min_run, size)
        runs += choose_donors(chosen, found, searched, sources, rules.ranking, limits.min_run)
    runs.sort(key=lambda run: run.start)
    plan = make_plan(len(tokens), num_hit, runs, repair, size, repaired=continued)
    return Planned(plan, num_verified, refused)
