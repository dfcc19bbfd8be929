"""Capacities as given, and the ones chosen."""

from __future__ import annotations

import pytest
from replay.prepared_requests import HASH_IDS, TEXT, prepared

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.lru_curve import lru_curve
from kvtool.cli.simulate_values import Capacity
from kvtool.config import EngineConfig
from kvtool.errors import ConfigError
from kvtool.simulation import capacities
from kvtool.simulation.capacities import curve_capacities, in_blocks, pool
from kvtool.simulation.settings import SimulationSettings


def accesses() -> Accesses:
    rows = [[1, 2, 3], [1, 2, 4], [1, 5]]
    return Accesses.of([prepared(i, row, unit=HASH_IDS) for i, row in enumerate(rows)], HASH_IDS)


def test_bytes_become_blocks() -> None:
    assert in_blocks(Capacity(7), HASH_IDS, None) == 7
    assert in_blocks(Capacity(None, 5 * 512 * 100 + 1), HASH_IDS, 100) == 5
    with pytest.raises(ConfigError, match="holds no block: one takes 51200 B"):
        in_blocks(Capacity(None, 512), HASH_IDS, 100)
    with pytest.raises(ConfigError, match="needs the bytes of a token"):
        in_blocks(Capacity(None, 512), HASH_IDS, None)


def test_pool_is_what_was_asked_for() -> None:
    found = accesses()

    def blocks(**settings: object) -> tuple[int, str]:
        return pool(SimulationSettings(**settings), found)  # type: ignore[arg-type]

    assert blocks(engine=EngineConfig(kv_blocks=9), capacities=(4,)) == (9, "--kv-blocks")
    memory = EngineConfig(kv_memory=3 * 512 * 10)
    assert blocks(engine=memory, kv_bytes_per_token=10) == (3, "--kv-memory")
    assert blocks(capacities=(4,)) == (4, "--capacity")
    assert blocks(capacities=(8, 4)) == (8, "the first --capacity")
    assert blocks()[0] == 5


def test_pool_is_laid_out_as_far_as_the_trace_can_fill_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacities, "ALWAYS_LAID_OUT", 4)
    found = accesses()
    fillable = 8 + 2 * 3  # every block once for each request, and two more
    assert pool(SimulationSettings(capacities=(fillable,)), found) == (fillable, "--capacity")
    blocks, reason = pool(SimulationSettings(capacities=(10**9,)), found)
    assert blocks == fillable
    assert reason == "more than the trace can fill, as --capacity is: 1,000,000,000"


def test_pool_that_never_evicts_has_room_for_ends_and_replies() -> None:
    rows = [prepared(i, [1] * (5 + i), unit=TEXT, output=6) for i in range(3)]
    found = Accesses.of(rows, TEXT)
    assert pool(SimulationSettings(), found).num_blocks == 1 + 2 * 3
    assert pool(SimulationSettings(output_kv=True), found).num_blocks == 1 + 2 * 3 + 3 * 3


def test_curve_has_what_shares_of_the_ceiling_take() -> None:
    found = accesses()
    curve = lru_curve(found)
    assert curve_capacities(SimulationSettings(), found, curve) == (2,)
    assert curve_capacities(SimulationSettings(capacities=(9, 3, 9)), found, curve) == (3, 9)
    alone = Accesses.of([prepared(0, [1, 2], unit=HASH_IDS)], HASH_IDS)
    assert curve_capacities(SimulationSettings(), alone, lru_curve(alone)) == (2,)
