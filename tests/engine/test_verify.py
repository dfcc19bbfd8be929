"""--verify: what reuse gave against what a fresh computation gives."""

from __future__ import annotations

import numpy as np
import pytest
from engine.tiny_engine import tiny_engine
from engine.toy_engine import run, toy_request

from kvtool.engine.verify import TOLERANCE, compare_logits, recompute, verify


def prompt(length: int) -> list[int]:
    return [3 + i * 7 % 120 for i in range(length)]


@pytest.mark.report("S04")
def test_reused_prefix_is_within_tolerance() -> None:
    engine = tiny_engine()
    run(engine, toy_request(prompt(30), 4))
    request = toy_request(prompt(30), 8, keep_logits=True)
    run(engine, request)
    assert request.num_cached_tokens == 29
    result = verify(engine, request, "float32")
    assert result.verdict in ("identical", "within tolerance")
    assert result.max_abs_logit_diff <= result.tolerance < 1e-2
    assert result.top1_agreement == 1.0 and result.kl_mean < 1e-9


def test_recomputation_neither_reads_nor_changes_the_cache() -> None:
    engine = tiny_engine()
    request = toy_request(prompt(30), 4, keep_logits=True)
    run(engine, request)
    stored = engine.manager.stats.stored_blocks
    fresh = recompute(engine, request)
    assert fresh.num_cached_tokens == 0 and fresh.output_ids == request.output_ids
    assert engine.manager.stats.stored_blocks == stored
    assert engine.manager.stats.duplicate_blocks == 0


@pytest.mark.report("S04")
def test_damaged_blocks_are_found() -> None:
    engine = tiny_engine()
    run(engine, toy_request(prompt(30), 4))
    for pool in engine.executor.model.pools:
        pool[0] = 0.5
    request = toy_request(prompt(30), 8, keep_logits=True)
    run(engine, request)
    result = verify(engine, request, "float32")
    assert result.verdict == "different" and result.max_abs_logit_diff > result.tolerance


def test_deterministic_mode_is_identical() -> None:
    engine = tiny_engine(deterministic=True, deterministic_chunk=8, max_num_batched_tokens=64)
    run(engine, toy_request(prompt(30), 4))
    request = toy_request(prompt(30), 8, keep_logits=True)
    run(engine, request)
    assert request.num_cached_tokens == 24
    assert verify(engine, request, "float32").verdict == "identical"


def rows(*pairs: tuple[list[float], list[float]]):
    return [(np.array(a, dtype=np.float32), np.array(b, dtype=np.float32)) for a, b in pairs]


def test_figures() -> None:
    result = compare_logits(rows(([0.0, 4.0], [0.0, 4.0]), ([1.0, 0.0], [0.0, 1.0])), 0.1)
    assert result.max_abs_logit_diff == 1.0 and result.tolerance == pytest.approx(0.4)
    assert result.top1_agreement == 0.5 and result.verdict == "different"
    p = np.e / (1 + np.e)
    assert result.kl_mean == pytest.approx((2 * p - 1) / 2)


@pytest.mark.parametrize(
    ("difference", "verdict"),
    [(0.0, "identical"), (0.01, "within tolerance"), (0.1, "different"), (np.nan, "different")],
)
def test_verdicts(difference: float, verdict: str) -> None:
    assert compare_logits(rows(([0.0, 2.0], [difference, 2.0])), 0.01).verdict == verdict


def test_a_tolerance_for_every_dtype() -> None:
    assert TOLERANCE["float32"] < TOLERANCE["float16"] < TOLERANCE["bfloat16"] < 0.1
