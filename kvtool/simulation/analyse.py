"""What follows from the block accesses of a trace, whatever engine serves it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.hit_rates import hit_rates
from kvtool.analysis.lru_curve import lru_curve
from kvtool.analysis.measurable import why_not_moved
from kvtool.analysis.policies.policy import parse_policy
from kvtool.analysis.policy_hits import PolicyHits, policy_hits
from kvtool.analysis.schemes import SchemeRules, SchemeUse, scheme_uses
from kvtool.analysis.stability import stability
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair
from kvtool.simulation.capacities import curve_capacities
from kvtool.simulation.prefix_tree import prefix_nodes, prefix_tree
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.simulation import Analysis, Progress
from kvtool.simulation.workload import Workload
from kvtool.traces.prepared import PreparedRequest


def analyse(
    workload: Workload, accesses: Accesses, settings: SimulationSettings, progress: Progress
) -> Analysis:
    """Raises `ConfigError` for a policy or scheme that this trace cannot have."""
    curve = lru_curve(accesses)
    capacities = curve_capacities(settings, accesses, curve)
    hits = list(_policies(accesses, settings, capacities, progress))
    return Analysis(
        accesses=accesses,
        rates=hit_rates(accesses),
        curve=curve,
        capacities=capacities,
        hits=hits,
        schemes=_schemes(workload, accesses, settings, progress),
        stability=stability(accesses, capacities),
        prefix_tree=prefix_tree(prefix_nodes(accesses), accesses, workload),
    )


def counted(workload: Workload, part: str, progress: Progress) -> Iterator[PreparedRequest]:
    """Its requests; says how many have been taken."""
    for done, request in enumerate(workload, start=1):
        yield request
        progress(part, done, len(workload))


def _policies(
    accesses: Accesses,
    settings: SimulationSettings,
    capacities: Iterable[int],
    progress: Progress,
) -> Iterator[PolicyHits]:
    policies, capacities = [parse_policy(name) for name in settings.policies], list(capacities)
    for done, policy in enumerate(policies):
        progress(f"Eviction by {policy.name}", done, len(policies))
        yield from policy_hits(accesses, policy, capacities)


def _schemes(
    workload: Workload, accesses: Accesses, settings: SimulationSettings, progress: Progress
) -> list[SchemeUse]:
    if not settings.schemes:
        return []
    rules = SchemeRules(parse_repair(settings.repair), Limits(min_run=settings.min_run))
    requests = counted(workload, "Comparing reuse schemes", progress)
    return scheme_uses(
        requests,
        workload.unit,
        settings.schemes,
        why_not_moved=why_not_moved(accesses),
        rules=rules,
    )


def says(progress: Progress, part: str, total: int) -> Callable[[int], None]:
    """A plain counter of one part."""
    return lambda done: progress(part, done, total)
