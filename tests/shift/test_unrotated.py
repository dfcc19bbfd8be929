"""`--reuse-scheme nope` through the engine: moved text, its repairs, chunks, preemption, tiers."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine.toy_engine import toy_request
from hf_workplace import Workplace
from shift.shift_engine import logits_of, movable, reply, shift_engine, text
from tiers.fakes import DictTier

from kvtool.cache.manager import CacheManager
from kvtool.cache.shift_planner import FAILED_CHECK
from kvtool.config import EngineConfig
from kvtool.engine.engine import Engine
from kvtool.engine.request import Request
from kvtool.errors import CacheError, ConfigError, InputError
from kvtool.gate.check import check_gate, gate_command
from kvtool.gate.subject import subject_of
from kvtool.models.hf import PagedModel
from kvtool.models.hf_cache import export_prefix
from kvtool.models.hf_import import import_prefix
from kvtool.models.pool_memory import PoolMemory
from kvtool.runtime.runtime import Runtime
from kvtool.tiers.rates import Rates
from kvtool.tiers.stack import Tiers

LAYOUTS = (
    "llama",
    "cohere",  # interleaved
    "glm4",  # interleaved, half of the head
    "gpt_neox",  # a quarter of the head
    "llama/yarn",
    "smollm3",  # a layer without rotation
    "gemma3_text",  # two layer groups, two frequencies
    "deepseek_v3",  # latent
    "deepseek_v2",  # latent, interleaved
)
CHUNK = text(60, seed=1)
DONOR = text(16, seed=2) + CHUNK + text(5, seed=3)
TARGET = text(40, seed=4) + CHUNK + text(7, seed=5)
NOPE: dict[str, Any] = {"reuse": "shift", "reuse_scheme": "nope", "ungated": True}


@pytest.fixture
def llama(tmp_path: Path) -> Workplace:
    return Workplace.of("llama", tmp_path)


def nope(name: str) -> PagedModel:
    return movable(name, scheme="nope")


def moved(
    engine: Engine, prompt: list[int] = TARGET, max_tokens: int = 8, donor: list[int] = DONOR
) -> Request:
    reply(engine, donor)
    request = reply(engine, prompt, max_tokens)
    engine.check_integrity()
    assert request.usage.shifted_tokens > 0
    return request


@pytest.mark.report("S18")
@pytest.mark.parametrize(
    ("name", "repair"),
    [
        *((name, "none") for name in LAYOUTS),
        *((name, "attn:0.2") for name in ("glm4", "gemma3_text", "deepseek_v2")),
        *((name, "kdev:0.2") for name in ("llama", "smollm3", "deepseek_v3")),
        ("cohere", "first:13"),
    ],
)
def test_both_schemes_answer_alike(name: str, repair: str) -> None:
    """Cold and with moved text, token for token; logits within 1e-5."""
    answers = []
    for model in (movable(name), nope(name)):
        engine = shift_engine(model, cache={"repair": repair})
        answers.append((moved(engine), reply(engine, TARGET, 8, reuse=False)))
    for rotate, unrotated in zip(*answers, strict=True):
        assert rotate.usage == unrotated.usage
        assert rotate.output_ids == unrotated.output_ids
        np.testing.assert_allclose(logits_of(unrotated), logits_of(rotate), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "repair"),
    [("gemma3_text", "none"), ("gemma3_text", "attn:0.3"), ("llama", "vdev:0.3")],
)
def test_chunks_may_be_cut_anywhere(name: str, repair: str) -> None:
    donor = text(9, seed=2) + CHUNK[:30] + text(3, seed=3)
    target = text(22, seed=4) + CHUNK[:30] + text(5, seed=5)
    whole, *cut = (
        moved(
            shift_engine(nope(name), max_num_batched_tokens=budget, cache={"repair": repair}),
            target,
            donor=donor,
        )
        for budget in (256, 1, 7)
    )
    for one in cut:
        assert one.usage == whole.usage
        np.testing.assert_allclose(logits_of(one), logits_of(whole), rtol=0, atol=1e-5)


def test_warm_is_cold() -> None:
    model = nope("deepseek_v3")
    cold = reply(shift_engine(model), TARGET, 8, reuse=False)
    engine = shift_engine(model)
    first, again = reply(engine, TARGET, 8), reply(engine, TARGET, 8)
    assert again.usage.cached_tokens == len(TARGET) - 1
    for request in (first, again):
        assert request.output_ids == cold.output_ids
        np.testing.assert_allclose(logits_of(request), logits_of(cold), rtol=0, atol=1e-5)


def test_a_preempted_request_goes_on_as_if_alone() -> None:
    model = nope("llama")
    prompts = [text(17, 30 + i) + CHUNK + text(5, 40 + i) for i in range(3)]
    alone = []
    for prompt in prompts:
        engine = shift_engine(model)
        reply(engine, DONOR)
        alone.append(reply(engine, prompt, 30))
    engine = shift_engine(model, num_blocks=48, watermark=0.0)
    reply(engine, DONOR)
    requests = [toy_request(prompt, 30, keep_logits=True) for prompt in prompts]
    list(engine.run(requests))
    engine.check_integrity()
    assert engine.metrics.preemptions > 0
    for request, expected in zip(requests, alone, strict=True):
        assert request.output_ids == expected.output_ids


def test_other_text_under_a_donors_name_is_refused() -> None:
    model = nope("llama")
    engine = shift_engine(model)
    reply(engine, DONOR)
    block = int(engine.manager.groups[0].match(np.array(DONOR, np.int32), b"").block_ids[9])
    model.pools[0][block, 0] = model.pools[0][block - 1, 0]
    request = reply(engine, TARGET)
    assert engine.manager.stats.refused_runs[FAILED_CHECK] >= 1
    assert request.usage.shifted_tokens == 0
    cold = reply(shift_engine(model), TARGET, reuse=False)
    np.testing.assert_allclose(logits_of(request), logits_of(cold), rtol=0, atol=1e-5)


def test_a_round_trip_through_a_tier() -> None:
    model = nope("gemma3_text")
    engine = shift_engine(model)
    tier = DictTier("disk", model.groups, 4)
    tiers = Tiers([tier], PoolMemory(model, 4), Rates())
    engine.executor.loader = tiers
    engine.manager = CacheManager(model.groups, engine.manager.config, backing=tiers)
    engine.scheduler = type(engine.scheduler)(engine.manager, engine.scheduler.config)
    cold = reply(engine, TARGET)
    assert tiers.flush(10)
    engine.manager.release_ended_transfers()
    engine.manager.clear()
    for pool in model.pools:
        pool.fill_(float("nan"))
    loaded = reply(engine, TARGET)
    assert loaded.cached_by_tier["disk"] >= 100
    np.testing.assert_allclose(logits_of(loaded), logits_of(cold), rtol=0, atol=1e-5)


def test_keys_without_rotation_are_other_kv(llama: Workplace) -> None:
    """On disk, each scheme finds its own; neither direction of exchange mixes them up."""
    rotate = llama.run(llama.prompt)
    unrotated = llama.run(llama.prompt, **NOPE)
    assert (unrotated.cached_tokens, unrotated.output_ids) == (0, rotate.output_ids)
    again = llama.run(llama.prompt, **NOPE)
    assert again.by_tier["disk"] >= len(llama.prompt) // 4 * 4
    assert again.output_ids == rotate.output_ids
    layouts = {}
    with closing(llama.catalog()) as catalog:
        for entry in catalog.entries():
            layouts[entry.fields["kv_layout"]] = entry
        kept = layouts["block-major, keys unrotated"]
        with pytest.raises(CacheError, match="without their rotation"):
            export_prefix(catalog, kept, llama.kv.parent / "out.safetensors")
        report = export_prefix(catalog, layouts["block-major"], llama.kv.parent / "in.safetensors")
        identity = llama.identity(reuse_scheme="nope")
        assert identity.namespace.digest == kept.namespace != layouts["block-major"].namespace
        with pytest.raises(InputError, match="holds keys with their rotation"):
            import_prefix(report.path, identity, catalog)


def test_the_runtime_says_what_it_does(llama: Workplace) -> None:
    with closing(Runtime.open(llama.config(**NOPE, max_model_len=64))) as runtime:
        assert runtime.effective["reuse_scheme"] == "nope"
        assert "keys unrotated" in runtime.base_namespace.kv_layout
        (layer, *_) = runtime.engine.executor.model.paged_layers
        assert layer.rope is None and len(layer.at_read.cos) == 64
    with closing(Runtime.open(llama.config())) as runtime:
        assert runtime.effective["reuse_scheme"] is None


def test_the_gate_holds_for_a_scheme(llama: Workplace, tmp_path: Path) -> None:
    config = EngineConfig(reuse="shift", reuse_scheme="nope", min_run=64)
    subject = subject_of(llama.identity().namespace, config)
    assert subject.scheme == "nope"
    assert subject.key != replace(subject, scheme="rotate").key
    with pytest.raises(ConfigError, match="--min-run 64 --reuse-scheme nope"):
        check_gate(tmp_path, subject, config)
    assert gate_command(config).endswith("--gate demo --reuse-scheme nope --min-run 64")


def test_the_option_needs_reuse_shift_and_a_known_name() -> None:
    with pytest.raises(ConfigError, match="--reuse-scheme would do nothing"):
        EngineConfig(reuse_scheme="nope")
    with pytest.raises(ConfigError, match="--reuse-scheme is 'half'; allowed: rotate, nope"):
        EngineConfig(reuse="shift", reuse_scheme="half")
