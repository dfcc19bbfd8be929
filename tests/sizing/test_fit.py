"""Memory: what a GPU leaves for KV, and that the inverse figures match public measurements."""

from __future__ import annotations

import pytest
from sizing.published import spec

from kvtool.errors import ConfigError
from kvtool.sizing.calculate import calculate
from kvtool.sizing.from_flags import ModelFlags, model_spec
from kvtool.sizing.gpus import GPUS
from kvtool.sizing.request import SizeRequest

GIB = 2**30


@pytest.mark.parametrize(
    ("tp", "weights", "overhead", "measured"),
    [  # llm-d/llm-d-benchmark, empirical-vllm-memory-results: H100, utilization 0.9, GiB a rank
        (1, 14.99, 4.89, 51.38),  # Llama-3.1-8B
        (1, 13.47, 7.51, 50.28),  # gpt-oss-20b
        (2, 33.88 * 2, 5.39, 32.0),  # Llama-3.3-70B FP8
        (1, 61.03, 5.78, 4.45),  # Qwen3-32B
    ],
)
def test_memory_left_on_an_h100(tp: int, weights: float, overhead: float, measured: float) -> None:
    request = SizeRequest(
        gpu="h100", tp=tp, weights=int(weights * GIB), overhead=int(overhead * GIB)
    )
    report = calculate(spec("Llama-3.1-8B"), request)
    assert report.memory["kv_bytes"] / GIB == pytest.approx(measured, abs=0.02)


def test_whole_sequences_and_longest_context() -> None:
    request = SizeRequest(tokens=1000, batch=3, memory=4 * GIB)
    report = calculate(spec("Llama-3.1-8B"), request)
    assert report.max_concurrency == 4 * GIB // (1008 * 131072)
    assert report.max_tokens == 4 * GIB // 3 // (16 * 131072) * 16


def test_a_shared_prefix_makes_room() -> None:
    model = spec("Llama-3.1-8B")
    apart = calculate(model, SizeRequest(tokens=2048, memory=GIB))
    together = calculate(model, SizeRequest(tokens=2048, prefix_share=1024, memory=GIB))
    assert apart.max_concurrency == 4
    assert together.max_concurrency == 7


def test_memory_too_small_is_an_answer() -> None:
    report = calculate(spec("Llama-3.1-8B"), SizeRequest(memory=1000))
    assert (report.max_tokens, report.max_concurrency) == (0, 0)


def test_state_only_models_have_no_longest_context() -> None:
    window = model_spec(ModelFlags(layers=2, sliding_window=64))
    report = calculate(window, SizeRequest(memory=GIB))
    assert report.max_tokens is None
    assert any("no length fills this memory" in text for text in report.assumptions)


def test_a_gpu_needs_the_weights() -> None:
    with pytest.raises(ConfigError, match="--gpu needs the size of the weights"):
        calculate(spec("Llama-3.1-8B"), SizeRequest(gpu="h100"))
    with pytest.raises(ConfigError, match=r"leave nothing of 15\.0 GiB"):
        calculate(spec("Llama-3.1-8B"), SizeRequest(gpu="t4", weights=15 * GIB))
    with pytest.raises(ConfigError, match="Unknown GPU 'h1000'") as refused:
        calculate(spec("Llama-3.1-8B"), SizeRequest(gpu="h1000", weights=1))
    assert refused.value.hint == "Did you mean 'h100'?"


def test_requests_that_contradict_themselves() -> None:
    with pytest.raises(ConfigError, match="--memory and --gpu exclude"):
        SizeRequest(memory=1, gpu="h100")
    with pytest.raises(ConfigError, match="--prefix-share is 9; it is part of --tokens 8"):
        SizeRequest(tokens=8, prefix_share=9)


def test_every_gpu_names_its_source() -> None:
    assert all(g.source and 50 < g.ridge_point < 500 for g in GPUS.values())
