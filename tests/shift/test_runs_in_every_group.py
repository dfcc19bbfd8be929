"""A run is found in the first layer group; the others hold the same text."""

from __future__ import annotations

import pytest
from engine.toy_engine import toy_request
from shift.test_no_laundering import DONOR, HEADER, finished, shift_toy_engine


@pytest.mark.parametrize("index", ["radix", "chain"])
@pytest.mark.parametrize("num_groups", [1, 2])
def test_a_run_may_end_within_a_block(num_groups: int, index: str) -> None:
    """Also where the prefix index knows full blocks only."""
    engine = shift_toy_engine(num_groups=num_groups, index=index)
    finished(engine, toy_request([*DONOR, 1, 1, 1, 1], 1))
    (request,) = finished(engine, toy_request([*HEADER, *DONOR[4:18], 4, 4, 4], 3))
    assert request.usage.shifted_tokens == 14
    assert engine.manager.stats.refused_runs == {}
