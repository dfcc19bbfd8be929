"""Checks that hold for every trace, whatever it says; a false one is a bug of the analysis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.hit_rates import HitRate
from kvtool.analysis.lru_curve import LruCurve
from kvtool.analysis.policy_hits import PolicyHits
from kvtool.analysis.schemes import SchemeUse


class Check(NamedTuple):
    """detail: the figures compared."""

    name: str
    holds: bool
    detail: str


def invariants(
    accesses: Accesses,
    rates: Mapping[str, HitRate],
    curve: LruCurve,
    hits: Sequence[PolicyHits] = (),
    schemes: Sequence[SchemeUse] = (),
) -> list[Check]:
    """A check whose figures were not computed is left out."""
    checks = [
        _hits_and_misses(accesses, rates),
        _rises(curve),
        _reaches_ceiling(rates, curve),
        _within_bounds(rates, hits, accesses),
    ]
    if any(row.policy == "lru" for row in hits):
        checks.append(_curve_is_lru(curve, hits))
    if any(row.policy == "belady" for row in hits):
        checks.append(_belady_is_best(hits))
    found = {use.scheme: use.found_tokens for use in schemes if use.measurable}
    if "radix" in found and "shift-any" in found:
        checks.append(_at_most("prefix_at_most_any_offset", found["radix"], found["shift-any"]))
    if "chain" in found and "radix" in found:
        checks.append(_at_most("chain_at_most_radix", found["chain"], found["radix"]))
    return checks


def as_json(checks: Iterable[Check]) -> dict[str, bool]:
    return {check.name: check.holds for check in checks}


def causes_sum(causes: Mapping[str, int], missed_tokens: int) -> Check:
    """Causes are a partition of the missed tokens."""
    total = sum(causes.values())
    holds = total == missed_tokens and all(tokens >= 0 for tokens in causes.values())
    return Check("causes_sum_to_misses", holds, f"{total} of {missed_tokens} tokens have a cause")


def _hits_and_misses(accesses: Accesses, rates: Mapping[str, HitRate]) -> Check:
    """Misses of a cache that never evicts are the distinct blocks."""
    hits, misses = int(rates["block_cold"].numerator), len(np.unique(accesses.blocks))
    detail = f"{hits} hits + {misses} misses, {len(accesses)} accesses"
    return Check("hits_and_misses_are_accesses", hits + misses == len(accesses), detail)


def _rises(curve: LruCurve) -> Check:
    falls = int(np.count_nonzero(np.diff(curve.hit_blocks) < 0))
    falls += int(np.count_nonzero(np.diff(curve.hit_tokens) < 0))
    return Check("lru_curve_never_falls", not falls, f"{len(curve.hit_blocks)} steps, {falls} down")


def _reaches_ceiling(rates: Mapping[str, HitRate], curve: LruCurve) -> Check:
    unlimited = int(rates["block_cold"].numerator)
    detail = f"{curve.ceiling} hits at the largest capacity, {unlimited} without a limit"
    return Check("infinite_is_ceiling", curve.ceiling == unlimited, detail)


def _within_bounds(
    rates: Mapping[str, HitRate], hits: Sequence[PolicyHits], accesses: Accesses
) -> Check:
    values = [rate.value for rate in rates.values() if rate.value is not None]
    num_blocks, num_tokens = max(1, len(accesses)), max(1, accesses.num_tokens)
    for row in hits:
        values += [row.prefix_blocks / num_blocks, row.independent_blocks / num_blocks]
        values += [row.prefix_tokens / num_tokens, row.independent_tokens / num_tokens]
    low, high = min(values, default=0.0), max(values, default=0.0)
    return Check("rates_within_0_and_1", low >= 0 and high <= 1, f"{low:.4f} to {high:.4f}")


def _curve_is_lru(curve: LruCurve, hits: Sequence[PolicyHits]) -> Check:
    rows = [row for row in hits if row.policy == "lru"]
    wrong = [
        row.capacity_blocks
        for row in rows
        if curve.at(row.capacity_blocks) != (row.prefix_blocks, row.prefix_tokens)
    ]
    detail = f"{len(rows)} capacities compared, different at {wrong or 'none'}"
    return Check("lru_curve_is_lru", not wrong, detail)


def _belady_is_best(hits: Sequence[PolicyHits]) -> Check:
    """On independent block rates, which is what it is optimal for."""
    best = {row.capacity_blocks: row.independent_blocks for row in hits if row.policy == "belady"}
    better = [
        f"{row.policy} at {row.capacity_blocks}"
        for row in hits
        if row.independent_blocks > best.get(row.capacity_blocks, row.independent_blocks)
    ]
    detail = f"{len(hits)} rows compared, better: {', '.join(better) or 'none'}"
    return Check("belady_at_least_every_policy", not better, detail)


def _at_most(name: str, smaller: int, larger: int) -> Check:
    return Check(name, smaller <= larger, f"{smaller} and {larger} tokens")
