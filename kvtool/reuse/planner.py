"""From a prompt to its plan: find runs, choose among them, pick donors, place repairs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.choose import choose
from kvtool.reuse.donor_source import DonorSource
from kvtool.reuse.donors import Ranking, choose_donors
from kvtool.reuse.plan import Plan, make_plan
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import Repair
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
    tokens: Tokens, num_hit: int, source: DonorSource, namespace: bytes, rules: Rules
) -> Planned:
    """tokens: int32 [n], n > 0; of them [0, num_hit) have exact KV in place. Changes nothing."""
    limits, repair, size = rules.limits, rules.repair, source.block_size
    searched = tokens[:-1]  # the last token is computed whatever is found
    found = find_runs(searched, min(num_hit, len(searched)), source, namespace, limits=limits)
    chosen = choose(found.runs, repair, limits.min_run, size)
    runs = choose_donors(chosen, found.runs, searched, source, rules.ranking, limits.min_run)
    plan = make_plan(len(tokens), num_hit, runs, repair, size)
    return Planned(plan, found.num_verified, found.refused)
