"""What a simulation found, before it is put into words or numbers for anybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.calibration import Calibration
from kvtool.analysis.hit_rates import HitRate
from kvtool.analysis.invariants import Check
from kvtool.analysis.lru_curve import LruCurve
from kvtool.analysis.memory import Layout
from kvtool.analysis.policy_hits import PolicyHits
from kvtool.analysis.schemes import SchemeUse
from kvtool.analysis.stability import OrderRates
from kvtool.errors import CacheError
from kvtool.simulation.capacities import Pool
from kvtool.simulation.served_by_model import ModelServing
from kvtool.simulation.serving import Serving
from kvtool.simulation.settings import SimulationSettings
from kvtool.simulation.workload import Workload

if TYPE_CHECKING:
    from kvtool.advice.advice import Advice
    from kvtool.simulation.misses import Misses

# (what is going on, how much of it is done, of how much)
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What follows from the accesses alone. capacities: in blocks, of hits and stability."""

    accesses: Accesses
    rates: Mapping[str, HitRate]
    curve: LruCurve
    capacities: tuple[int, ...]
    hits: Sequence[PolicyHits]
    schemes: Sequence[SchemeUse]
    stability: Sequence[OrderRates]
    prefix_tree: Sequence[Any]


@dataclass(slots=True, kw_only=True)
class Simulation:
    """analysis: None for a trace of lengths. refused: why the cache cannot serve the trace; then
    nothing behind it is there. unanswered: parts of the document that are missing, and why."""

    workload: Workload
    settings: SimulationSettings
    accesses: Accesses
    layouts: Sequence[Layout]
    concurrency: int
    pool: Pool
    unanswered: dict[str, str]
    analysis: Analysis | None = None
    serving: Serving | None = None
    refused: CacheError | None = None
    model: ModelServing | None = None
    misses: Misses | None = None
    explanation: Mapping[str, Any] | None = None
    advice: Sequence[Advice] = ()
    calibration: Calibration | None = None
    checks: Sequence[Check] = ()
