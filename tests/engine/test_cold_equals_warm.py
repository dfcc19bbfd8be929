"""Whatever the cache, the batch and the pool do, a request gets the reply it would get alone."""

from __future__ import annotations

import pytest
from engine.toy_engine import expected, held_blocks, toy_engine
from engine.workloads import SOAK_FACTOR, play, workloads
from hypothesis import given, settings

pytestmark = pytest.mark.report("S02", "S04", "S05", "S26", "S27", "S28", "S32", "S80")


@settings(max_examples=500 * SOAK_FACTOR)
@given(workloads())
def test_cold_equals_warm_equals_alone(workload) -> None:
    engine = toy_engine(**workload["engine"])
    for wave in ("cold", "warm"):
        for request in play(engine, workload):
            reply = expected(request, workload["engine"]["num_groups"])
            if request.finish_reason == "abort":
                assert request.output_ids == reply[: request.num_output_tokens], wave
            else:
                assert request.output_ids == reply, wave
        assert held_blocks(engine) == 0


@settings(max_examples=80 * SOAK_FACTOR)
@given(workloads())
def test_deterministic_mode_too(workload) -> None:
    block_size = workload["engine"]["block_size"]
    options = {
        "deterministic": True,
        "deterministic_chunk": 2 * block_size,
        "max_num_batched_tokens": 256,
    }
    engine = toy_engine(**{**workload["engine"], **options})
    for _ in ("cold", "warm"):
        for request in play(engine, workload):
            reply = expected(request, workload["engine"]["num_groups"])
            assert request.output_ids == reply[: request.num_output_tokens]
            assert request.num_cached_tokens % (2 * block_size) == 0
        assert engine.metrics.max_batch_requests <= 1
        assert held_blocks(engine) == 0
