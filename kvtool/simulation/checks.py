"""What has to be true of every simulation; a false one is a bug, and the report says so."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.analysis.invariants import Check, causes_sum, invariants
from kvtool.simulation.simulation import Simulation


def checks_of(simulation: Simulation) -> list[Check]:
    """Those of the parts that are there."""
    analysis = simulation.analysis
    found = []
    if analysis is not None:
        found += invariants(
            analysis.accesses, analysis.rates, analysis.curve, analysis.hits, analysis.schemes
        )
    if simulation.serving is not None:
        found += _of_serving(simulation)
    misses = simulation.misses
    if misses is not None:
        found.append(causes_sum(misses.causes, misses.total_tokens))
    return found


def _of_serving(simulation: Simulation) -> Iterator[Check]:
    assert simulation.serving is not None
    totals = simulation.serving.totals
    parts = (
        totals.cached_tokens,
        totals.shifted_tokens,
        totals.recomputed_tokens,
        totals.computed_tokens,
    )
    detail = " + ".join(map(str, parts)) + f" of {totals.prompt_tokens} prompt tokens"
    yield Check("replay_adds_up", sum(parts) == totals.prompt_tokens, detail)
    if simulation.analysis is None or simulation.model is not None:
        return
    if _is_plain(simulation):
        yield _at_most_radix(simulation)
        if simulation.workload.unit.block_size == 1 and simulation.settings.engine.evict == "lru":
            yield _equals_curve(simulation)


def _is_plain(simulation: Simulation) -> bool:
    """What a request finds is in the prompts of those before it."""
    settings = simulation.settings
    is_exact = settings.engine.reuse == "prefix"
    return settings.mode == "serial" and not settings.output_kv and is_exact


def _at_most_radix(simulation: Simulation) -> Check:
    assert simulation.analysis is not None and simulation.serving is not None
    found = {use.scheme: use.found_tokens for use in simulation.analysis.schemes}
    hit = simulation.serving.totals.hit_tokens
    most = found.get("radix", simulation.serving.totals.prompt_tokens)
    return Check("replay_at_most_ceiling", hit <= most, f"{hit} of at most {most} tokens")


def _equals_curve(simulation: Simulation) -> Check:
    """Hash ids are whole blocks, so the engine's LRU is the curve's."""
    assert simulation.analysis is not None and simulation.serving is not None
    curve = simulation.analysis.curve.at(simulation.pool.num_blocks)
    totals = simulation.serving.totals
    detail = f"{totals.hit_blocks} blocks in the engine, {curve[0]} on the curve"
    return Check("replay_is_lru_curve", (totals.hit_blocks, totals.hit_tokens) == curve, detail)
