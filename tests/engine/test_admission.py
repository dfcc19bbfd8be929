"""Requests that can never run are refused at once, with numbers and a way out."""

from __future__ import annotations

import pytest
from engine.toy_engine import expected, run, toy_engine, toy_request

from kvtool.config import SchedulerConfig
from kvtool.engine.admission import has_room
from kvtool.engine.chunking import check_chunking
from kvtool.engine.sampling import SamplingParams
from kvtool.errors import CacheError, ConfigError, InputError


@pytest.mark.report("S29")
def test_more_blocks_than_the_pool_has() -> None:
    engine = toy_engine(num_blocks=8, block_size=16)
    with pytest.raises(CacheError) as refused:
        engine.add(toy_request([1] * 200, 20))
    error = refused.value
    assert error.exit_code == 4 and not engine.has_work
    assert "need 14 blocks of 16 tokens; the cache has 8: 6 are missing" in error.message
    assert "--kv-blocks 14" in error.hint and "--kv-memory" in error.hint
    assert "--max-tokens" not in error.hint  # no reply is short enough for this prompt


def test_the_hint_names_a_reply_that_fits() -> None:
    engine = toy_engine(num_blocks=8, block_size=16)
    with pytest.raises(CacheError, match=r"1 are missing") as refused:
        engine.add(toy_request([1] * 120, 10))
    assert "--max-tokens 9 or less" in refused.value.hint
    fits = toy_request([1] * 120, 9)
    run(engine, fits)
    assert fits.output_ids == expected(fits)


@pytest.mark.report("S81")
def test_prompt_longer_than_the_context_is_bad_input() -> None:
    engine = toy_engine(max_model_len=32)
    with pytest.raises(InputError) as refused:
        engine.add(toy_request([1] * 32, 1))
    assert refused.value.exit_code == 5
    assert "32 tokens" in refused.value.message and "holds 32" in refused.value.message


@pytest.mark.report("S81")
def test_prompt_and_reply_longer_than_the_context_is_a_wrong_option() -> None:
    engine = toy_engine(max_model_len=32)
    with pytest.raises(ConfigError) as refused:
        engine.add(toy_request([1] * 30, 3))
    assert refused.value.exit_code == 2
    assert "30 tokens" in refused.value.message and "together 33" in refused.value.message
    assert "--max-tokens 2 or less" in refused.value.hint
    fits = toy_request([1] * 30, 2)
    run(engine, fits)
    assert fits.output_ids == expected(fits)  # nothing is cut off


@pytest.mark.report("S62")
@pytest.mark.parametrize("max_tokens", [0, -1])
def test_max_tokens_below_one(max_tokens: int) -> None:
    with pytest.raises(ConfigError, match=f"--max-tokens is {max_tokens}; allowed: at least 1"):
        SamplingParams(max_tokens=max_tokens)


@pytest.mark.report("S62")
def test_nothing_to_do() -> None:
    engine = toy_engine()
    assert not engine.has_work and run(engine) == []
    assert engine.metrics.fragmentation is None


def test_room_is_what_newcomer_runners_and_reserve_need_together() -> None:
    assert has_room(needed=4, promised=3, available=8, watermark=1)
    assert not has_room(needed=4, promised=3, available=7, watermark=1)


@pytest.mark.parametrize(
    ("block_size", "budget", "message"),
    [(48, 2048, "--block-size is 48"), (16, 128, "--max-num-batched-tokens is 128")],
)
def test_deterministic_chunks_are_whole_blocks_in_one_forward(block_size, budget, message) -> None:
    config = SchedulerConfig(max_model_len=99, max_num_batched_tokens=budget, deterministic=True)
    with pytest.raises(ConfigError, match=message):
        check_chunking(config, block_size)
    check_chunking(SchedulerConfig(max_model_len=99, max_num_batched_tokens=budget), block_size)
