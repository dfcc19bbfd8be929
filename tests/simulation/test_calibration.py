"""Predicted hits against recorded ones, on a log whose numbers are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from replay.prepared_requests import HASH_IDS, prepared

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.calibration import CacheRecord, Calibration, calibration

TIMES = (0.0, 10.0, 1000.0, 1010.0)


def calibrated(
    cached: list[int | None],
    *,
    prompt_tokens: int | None = 1024,
    hits: Sequence[int] = (0, 1024, 1024, 1024),
) -> Calibration | None:
    """Four requests for the same two blocks; between the second and the third, 990 s."""
    requests = [prepared(i, [1, 2], unit=HASH_IDS, arrival_s=time) for i, time in enumerate(TIMES)]
    accesses = Accesses.of(requests, HASH_IDS)
    records = [
        CacheRecord(i, f"r{i}", f"t:{i + 1}", tokens, prompt_tokens)
        for i, tokens in enumerate(cached)
        if tokens is not None
    ]
    return calibration(records, np.array(hits), np.array([1024] * 4), accesses)


def best(found: Calibration | None) -> list[str]:
    assert found is not None
    return [one.name for one in found.best]


def test_a_log_that_agrees() -> None:
    found = calibrated([0, 1024, 1024, 1024])
    assert found is not None and found.requests == 4
    assert found.recorded_rate == 0.75
    assert found.candidates[0] == ("replay", 3072, 0.75, 0.0, 0.0)
    assert best(found) == ["replay", "unlimited", "ttl:3600"] and found.disagreeing == []


def test_what_expired_shows() -> None:
    found = calibrated([0, 1024, 0, 1024])
    assert found is not None
    by_name = {one.name: one for one in found.candidates}
    assert list(by_name) == ["replay", "unlimited", "ttl:300", "ttl:3600"]
    assert by_name["replay"].error_pp == pytest.approx(25.0)
    assert by_name["replay"].mean_abs_error_pp == pytest.approx(25.0)
    assert by_name["ttl:300"].error_pp == by_name["ttl:300"].mean_abs_error_pp == 0.0
    assert best(found) == ["ttl:300"]
    (request,) = found.disagreeing
    assert (request.id, request.place, request.idle_s) == ("r2", "t:3", 990.0)
    assert request.error_pp == pytest.approx(100.0)
    assert "not been used for 990 s" in request.likely and "TTL" in request.likely


def test_other_reasons() -> None:
    found = calibrated([512, 0, None, None])
    assert found is not None and found.requests == 2
    assert ["other requests had warmed" in one.likely for one in found.disagreeing] == [False, True]
    assert "evicted" in found.disagreeing[0].likely


def test_shares_are_compared_not_tokens() -> None:
    """The provider counts other tokens than the replay."""
    found = calibrated([0, 2048, 2048, 2048], prompt_tokens=2048)
    assert found is not None and found.candidates[0].error_pp == 0.0
    unknown = calibrated([0, 1024, 1024, 1024], prompt_tokens=None)
    assert unknown is not None and unknown.candidates[0].error_pp == 0.0


@pytest.mark.parametrize("cached", [[0, 1024, 0, 1024], [0, 0, 0, 0], [0, 900, 1000, 1000]])
def test_no_winner_among_equals(cached: list[int | None]) -> None:
    found = calibrated(cached)
    assert found is not None
    errors = {one.name: one.mean_abs_error_pp for one in found.candidates}
    assert best(found) == [name for name in errors if errors[name] <= min(errors.values()) + 0.5]


def test_no_cache_without_limit_finds_less_than_the_replay() -> None:
    """The replay finds parts of blocks, and replies; the third prompt's second block was evicted
    there."""
    found = calibrated([0, 1024, 1024, 1024], hits=[7, 1024, 512, 1024])
    assert found is not None
    tokens = {one.name: one.hit_tokens for one in found.candidates}
    assert tokens == {
        "replay": 7 + 1024 + 512 + 1024,
        "unlimited": 7 + 3 * 1024,
        "ttl:300": 7 + 2 * 1024,
        "ttl:3600": 7 + 3 * 1024,
    }


@pytest.mark.parametrize(
    ("cached", "words"),
    [
        (1990, "more was cached than the replay finds"),
        (1500, ""),
        (500, "less was cached than the replay finds"),
    ],
)
def test_what_is_left_out_is_told_by_the_rates(cached: int, words: str) -> None:
    """The log has half of what was sent; the replay finds three quarters."""
    found = calibrated([cached] * 4, prompt_tokens=2000)
    assert found is not None and found.left_out is not None
    facts, _, told = found.left_out.partition("; ")
    assert facts == "the log holds 4,096 of 8,000 recorded prompt tokens"
    assert told.startswith(words) and bool(told) == bool(words)


def test_nothing_is_left_out() -> None:
    found = calibrated([0, 1024, 1024, 0])
    assert found is not None and found.left_out is None


def test_nothing_recorded() -> None:
    assert calibrated([None] * 4) is None
    assert calibrated([0], prompt_tokens=0) is None
