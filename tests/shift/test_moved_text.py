"""Text served at another position, against the same text copied there by `rope_shift`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from shift.shift_engine import CopyingExecutor, logits_of, movable, reply, shift_engine, text

from kvtool.cache.shift_planner import FAILED_CHECK
from kvtool.engine.engine import Engine
from kvtool.engine.model_executor import ModelExecutor
from kvtool.engine.request import Request
from kvtool.errors import ConfigError, ModelError
from kvtool.models import paged_cache
from kvtool.models.shift_check import prepare_shift
from kvtool_kernels import rotate, unit_rotation

LAYOUTS = (
    "llama",
    "cohere",  # interleaved
    "glm4",  # interleaved, half of the head
    "gpt_neox",  # a quarter of the head
    "llama/yarn",
    "smollm3",  # a layer without rotation
    "gemma3_text",  # two layer groups, one of them windowed
    "deepseek_v3",  # latent
    "deepseek_v2",  # latent, interleaved
    "llama4_text",  # chunks: moves of whole chunks only
)
CHUNK = text(60, seed=1)
DONOR = text(16, seed=2) + CHUNK + text(5, seed=3)
TARGET = text(40, seed=4) + CHUNK + text(7, seed=5)  # a move by 24, three chunks of Llama 4
SHORT_DONOR = text(9, seed=2) + CHUNK[:30] + text(3, seed=3)
SHORT_TARGET = text(22, seed=4) + CHUNK[:30] + text(5, seed=5)


def moved(
    engine: Engine, prompt: list[int] = TARGET, donor: list[int] = DONOR, **options: Any
) -> Request:
    reply(engine, donor)
    request = reply(engine, prompt, **options)
    engine.check_integrity()
    assert request.usage.shifted_tokens > 0
    return request


@pytest.mark.parametrize("name", LAYOUTS)
def test_turned_queries_equal_turned_keys(name: str) -> None:
    requests = [
        moved(shift_engine(movable(name), executor=executor))
        for executor in (CopyingExecutor, ModelExecutor)
    ]
    assert requests[0].usage == requests[1].usage
    assert requests[0].usage.shifted_tokens == 60
    np.testing.assert_allclose(*map(logits_of, requests), rtol=0, atol=1e-5)


def test_sources_add_up_to_the_prompt() -> None:
    engine = shift_engine(movable("llama"), cache={"repair": "first:10"})
    usage = moved(engine, DONOR[:9] + TARGET).usage
    assert (usage.cached_tokens, usage.shifted_tokens, usage.recomputed_tokens) == (9, 50, 10)
    assert usage.computed_tokens == 47
    stats = engine.manager.stats
    assert (stats.shifted_tokens, stats.recomputed_tokens) == (50, 10)


@pytest.mark.parametrize("repair", ["none", "first:13"])
def test_chunks_may_be_cut_anywhere(repair: str) -> None:
    whole, *cut = (
        moved(
            shift_engine(
                movable("gemma3_text"), max_num_batched_tokens=budget, cache={"repair": repair}
            ),
            SHORT_TARGET,
            donor=SHORT_DONOR,
        )
        for budget in (256, 1, 3, 7, 11)
    )
    for one in cut:
        assert one.usage == whole.usage
        np.testing.assert_allclose(logits_of(one), logits_of(whole), rtol=0, atol=1e-5)


def test_the_same_chunk_three_times() -> None:
    engine = shift_engine(movable("llama"))
    prompt = text(21, 6) + CHUNK + text(3, 7) + CHUNK + CHUNK + text(2, 8)
    request = moved(engine, prompt)
    assert request.usage.shifted_tokens == 180
    copying = moved(shift_engine(movable("llama"), executor=CopyingExecutor), prompt)
    np.testing.assert_allclose(logits_of(request), logits_of(copying), rtol=0, atol=1e-5)


def test_a_prompt_in_the_prefix_cache_is_not_moved() -> None:
    engine = shift_engine(movable("llama"))
    reply(engine, DONOR)
    usage = reply(engine, DONOR).usage
    assert (usage.cached_tokens, usage.shifted_tokens) == (len(DONOR) - 1, 0)


def test_other_context_at_the_same_position_is_a_move_by_zero() -> None:
    engine = shift_engine(movable("llama"))
    reply(engine, DONOR)
    request = reply(engine, text(16, 9) + CHUNK + text(3, 10))
    assert request.usage.shifted_tokens == 60


def test_recomputing_whole_runs_is_a_cold_prefill() -> None:
    cold = reply(shift_engine(movable("llama")), TARGET, 8, reuse=False)
    engine = shift_engine(movable("llama"), cache={"repair": "first:60"})
    reply(engine, DONOR)
    request = reply(engine, TARGET, 8)
    assert request.output_ids == cold.output_ids
    assert (request.usage.shifted_tokens, request.usage.recomputed_tokens) == (0, 0)


def test_the_sink_does_not_move() -> None:
    engine = shift_engine(movable("llama"))
    reply(engine, CHUNK + text(5, 3))
    usage = reply(engine, TARGET).usage
    assert (usage.shifted_tokens, usage.recomputed_tokens) == (56, 4)
    reply(engine, DONOR, reuse=False)
    usage = reply(engine, text(16, 2) + CHUNK).usage
    assert usage.recomputed_tokens == 4


def test_runs_that_must_not_be_used() -> None:
    for settings, reason in (
        ({"min_run": 61}, "shorter_than_min_run"),
        ({"bos_id": 1}, "donor_without_bos"),
        ({"delta_multiple": 7}, "delta_off_chunk"),
    ):
        engine = shift_engine(movable("llama"), cache=settings)
        reply(engine, DONOR)
        request = reply(engine, TARGET)
        assert request.usage.shifted_tokens == 0
        assert set(engine.manager.stats.refused_runs) == {reason}
    engine = shift_engine(movable("llama"), cache={"bos_id": 1})
    reply(engine, [1, *DONOR])
    assert reply(engine, TARGET).usage.shifted_tokens == 60


def test_requests_that_ask_for_exact_kv_only() -> None:
    engine = shift_engine(movable("llama"))
    moved(engine)
    cold = reply(shift_engine(movable("llama")), TARGET, reuse=False)
    engine = shift_engine(movable("llama"))
    moved(engine)
    exact = reply(engine, TARGET, shift=False)
    assert exact.usage.cached_tokens == 40 and exact.usage.shifted_tokens == 0
    np.testing.assert_allclose(logits_of(exact), logits_of(cold), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "glm4", "deepseek_v3"])
def test_a_damaged_donor_is_refused_and_computed_instead(name: str) -> None:
    model = movable(name)
    cold = reply(shift_engine(model), TARGET, reuse=False)
    engine = shift_engine(model)
    reply(engine, DONOR)
    first = engine.manager.groups[0]
    block = int(first.match(np.array(DONOR, dtype=np.int32), b"").block_ids[9])
    model.pools[0][block, 0] += 1.0
    request = reply(engine, TARGET)
    engine.check_integrity()
    assert engine.manager.stats.refused_runs[FAILED_CHECK] >= 1
    assert request.usage.shifted_tokens == 0
    np.testing.assert_allclose(logits_of(request), logits_of(cold), rtol=0, atol=1e-5)


def test_a_failing_run_costs_the_others_of_the_step_nothing_but_the_step() -> None:
    model = movable("llama")
    engine = shift_engine(model)
    reply(engine, DONOR)
    block = int(engine.manager.groups[0].match(np.array(DONOR, np.int32), b"").block_ids[9])
    model.pools[0][block, 0] += 1.0
    others = [text(30, 20 + i) for i in range(3)]
    requests = [toy(prompt) for prompt in (others[0], TARGET, *others[1:])]
    assert len(list(engine.run(requests))) == 4
    for request in requests:
        cold = reply(shift_engine(model), request.prompt_ids, reuse=False)
        assert cold.output_ids == request.output_ids


def toy(prompt: list[int], max_tokens: int = 3) -> Request:
    from engine.toy_engine import toy_request

    return toy_request(prompt, max_tokens, keep_logits=True)


def test_layer_0_of_moved_text_is_what_a_fresh_prefill_stores() -> None:
    model = movable("llama")
    engine = shift_engine(model)
    fresh, request = toy(TARGET), toy(TARGET)
    fresh.reuse = False
    reply(engine, DONOR)
    for each in (fresh, request):
        engine.add(each)
    engine.step()
    key, value = _layer_kv(engine, request, 0)
    fresh_key, fresh_value = _layer_kv(engine, fresh, 0)
    assert _distance(key, fresh_key) <= 1e-5 and _distance(value, fresh_value) <= 1e-5
    assert _distance(_layer_kv(engine, request, 1)[1], _layer_kv(engine, fresh, 1)[1]) > 1e-3


def test_text_that_sees_itself_alone_is_moved_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block-diagonal mask makes moved KV of every layer the KV of a fresh prefill."""
    attend = paged_cache.paged_attention

    def within_chunks(*arguments: Any, **options: Any) -> None:
        attend(*arguments, **{**options, "chunk": 20})

    monkeypatch.setattr(paged_cache, "paged_attention", within_chunks)
    model = movable("llama")
    engine = shift_engine(model)
    chunk, tail = text(20, 1), text(9, 2)
    reply(engine, text(20, 3) + chunk + text(3, 4))
    requests = [toy(text(60, 5) + chunk + tail) for _ in range(2)]
    requests[0].reuse = False
    for request in requests:
        engine.add(request)
    engine.step()
    assert requests[1].usage.shifted_tokens == 20
    for layer in range(2):
        for fresh, own in zip(*(_layer_kv(engine, r, layer) for r in requests)):
            assert _distance(own, fresh) <= 1e-5
    np.testing.assert_allclose(*map(logits_of, requests), rtol=0, atol=1e-5)


def _layer_kv(engine: Engine, request: Request, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
    """K, turned to where the request reads it, and V of its prompt: [n, heads, dim]."""
    assert request.kv is not None
    model, table = engine.executor.model, request.kv.tables[0]
    positions = np.arange(request.num_prompt_tokens)
    slots = torch.from_numpy(table.slots(positions, 4))
    key, value = model.pools[0][slots // 4, layer, :, :, slots % 4].unbind(1)
    rows = table.entries
    deltas = rows[np.searchsorted(rows[:, 2], positions, side="right") - 1, 4]
    rotary = model.layout.rotary(layer)
    cos, sin = unit_rotation(torch.from_numpy(deltas.copy())[:, None], rotary.inv_freq)
    return rotate(key, cos, sin, rotary), value


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).norm() / other.norm())


def test_sixteen_requests_share_one_copy_of_a_text() -> None:
    """2,000 tokens at 16 offsets, in blocks of 16."""
    model = movable("llama", 4096)
    options: dict[str, Any] = {"num_blocks": 1200, "block_size": 16, "max_num_batched_tokens": 2500}
    chunk = text(2000, 1)
    prompts = [text(17 + 13 * i, 100 + i) + chunk + text(20, 200 + i) for i in range(16)]
    engine = shift_engine(model, **options)
    reply(engine, text(50, 2) + chunk + text(9, 3))
    requests = [toy(prompt, 4) for prompt in prompts]
    for request in requests:
        engine.add(request)
    while not all(request.num_output_tokens for request in requests):
        engine.step()
    blocks: Counter[int] = Counter()
    for i, request in enumerate(requests):
        assert request.kv is not None and request.usage.shifted_tokens == 2000
        rows = request.kv.tables[0].entries
        begin = 17 + 13 * i
        holds = (rows[:, 2] < begin + 2000) & (rows[:, 2] + rows[:, 3] > begin)
        blocks.update(rows[holds, 0].tolist())
    assert len(blocks) <= 1.15 * 2000 / 16
    while engine.has_work:
        engine.step()
    for prompt, request in zip(prompts, requests):
        engine.manager.clear()
        reply(engine, text(50, 2) + chunk + text(9, 3))
        alone = reply(engine, prompt, 4)
        assert alone.output_ids == request.output_ids
        np.testing.assert_allclose(logits_of(alone), logits_of(request), rtol=0, atol=1e-5)


def test_models_whose_keys_cannot_move_are_refused_by_name() -> None:
    import tiny

    from kvtool.models.hf import PagedModel

    with pytest.raises(ModelError, match="GPT2LMHeadModel cannot use cached text at other"):
        prepare_shift(PagedModel(tiny.build("gpt2")))


def test_wrong_settings_are_refused() -> None:
    from kvtool.config import EngineConfig

    for settings in ({"repair": "first:0"}, {"donor": "other"}, {"min_run": 0}):
        with pytest.raises(ConfigError):
            shift_engine(movable("llama"), cache=settings)
    with pytest.raises(ConfigError, match="exclude each other"):
        EngineConfig(reuse="shift", deterministic=True)
