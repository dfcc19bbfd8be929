"""Public checkpoints to the byte, and the start-up lines of real vLLM logs."""

from __future__ import annotations

from typing import Any

import pytest
from sizing.published import LENGTHS, LOGS, MODELS, spec

from kvtool.sizing.calculate import calculate
from kvtool.sizing.from_config import model_spec
from kvtool.sizing.from_flags import ModelFlags
from kvtool.sizing.from_flags import model_spec as from_flags
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.request import SizeRequest

ROWS = [pytest.param(m, tokens, id=f"{m['model']}-{tokens}") for m in MODELS for tokens in LENGTHS]


@pytest.mark.report("S54", "S55", "S56")
@pytest.mark.parametrize(("model", "tokens"), ROWS)
def test_bytes_are_exact(model: dict[str, Any], tokens: int) -> None:
    report = calculate(model_spec(model["config"]), SizeRequest(tokens=tokens))
    assert report.bytes == model["kv_bytes"][str(tokens)]
    assert report.state_bytes == model["state_bytes_per_sequence"]
    assert sum(row.bytes for row in report.per_layer if not row.draft) == (
        report.bytes + report.state_bytes
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m["model"])
def test_first_token_growth_and_full_length(model: dict[str, Any]) -> None:
    sized = model_spec(model["config"])
    assert calculate(sized, SizeRequest(tokens=1)).bytes == model["bytes_per_token_first"]
    long = calculate(sized, SizeRequest(tokens=131072, mtp=False))
    assert long.bytes_per_token == model["growth_bytes_per_token"]
    everywhere = model["bytes_per_token_if_all_layers_full"] * 131072
    assert long.full_length_bytes == everywhere + model["state_bytes_per_sequence"]


GEOMETRY = {  # the logs' models that are not in the table, by their stated numbers
    "L4": (ModelFlags(layers=64, heads=64, kv_heads=8, head_dim=128), "fp8"),
    "L9": (ModelFlags(layers=36, heads=32, kv_heads=8, head_dim=128), "bf16"),
    "L10": (ModelFlags(layers=28, heads=12, kv_heads=2, head_dim=128), "bf16"),
    "L11": (ModelFlags(layers=12, heads=12, head_dim=64), "fp16"),
}
TABLE = {
    "L1": "Qwen3-14B",
    "L2": "Llama-3.1-8B",
    "L3a": "Llama-3.1-8B",
    "L3b": "Llama-3.1-8B",
    "L12": "Llama-3.1-70B",
    "L6": "gpt-oss-120b",
    "L7": "gemma-3-27b",
}


def _logged_model(log: dict[str, Any]) -> tuple[ModelSpec, str]:
    if log["id"] in TABLE:
        return spec(TABLE[log["id"]]), "bf16"
    flags, dtype = GEOMETRY[log["id"]]
    return from_flags(flags), dtype


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log["id"])
def test_vllm_log_lines(log: dict[str, Any]) -> None:
    model, dtype = _logged_model(log)
    length = log.get("max_model_len") or 131072
    if log.get("available_kv_gib") is None:  # the log gives tokens only: their exact size
        memory = log["reported_tokens"] * log["bytes_per_token_per_rank"]
    else:
        memory = int(log["available_kv_gib"] * 2**30)
    request = SizeRequest(
        tokens=length, kv_dtype=dtype, memory=memory, vllm_formula="legacy", max_model_len=length
    )
    size_line, concurrency_line = calculate(model, request).vllm_lines
    tokens = int(size_line.split()[4].replace(",", ""))
    assert tokens == pytest.approx(log["reported_tokens"], rel=0.02)
    if log.get("reported_concurrency"):
        times = float(concurrency_line.split()[-1].rstrip("x"))
        assert times == pytest.approx(log["reported_concurrency"], abs=0.01)


def test_hybrid_log_to_the_token() -> None:
    """Gemma 3 27B: 1 full and 6 sliding groups of 10, 1,798 blocks a request, 89,994 blocks."""
    request = SizeRequest(tokens=4096, memory=89994 * 131072 * 10, vllm_formula="legacy")
    report = calculate(spec("gemma-3-27b"), request)
    assert report.vllm_lines == (
        "GPU KV cache size: 205,696 tokens",
        "Maximum concurrency for 4,096 tokens per request: 50.05x",
    )
    assert "current (max_concurrency * max_model_len) would say 205,014" in report.vllm_formula


def test_uniform_model_says_the_same_with_both_formulas() -> None:
    memory = 42656 * 163840
    for formula in ("current", "legacy"):
        request = SizeRequest(tokens=32768, memory=memory, vllm_formula=formula)
        report = calculate(spec("Qwen3-14B"), request)
        assert report.vllm_lines[0] == "GPU KV cache size: 42,656 tokens"
        assert report.max_tokens == 42656
        assert "says the same" in report.vllm_formula


def test_recurrent_layers_raise_the_attention_block() -> None:
    """Qwen3-Next: the state page of 2,146,304 B needs 1,056 tokens of 2,048 B in a block."""
    request = SizeRequest(tokens=10560, memory=1056 * 2048 * 12 * 130, vllm_formula="legacy")
    report = calculate(spec("Qwen3-Next"), request)
    # 130 blocks of 12 layers; 1 attention and 3 state groups; a request takes 10 + 3 blocks.
    assert report.vllm_lines[0] == f"GPU KV cache size: {130 // 4 * 1056:,} tokens"
    assert report.vllm_lines[1].endswith("10.00x")
