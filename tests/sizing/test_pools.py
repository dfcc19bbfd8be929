"""The engine's own block pools take exactly the bytes that size-calc says."""

from __future__ import annotations

import json

import pytest
import tiny
from transformers import PreTrainedModel

from kvtool.models.demo import demo_model
from kvtool.models.hf import PagedModel
from kvtool.sizing.calculate import calculate
from kvtool.sizing.from_config import model_spec
from kvtool.sizing.request import SizeRequest
from kvtool.sizing.source import read_model

NUM_BLOCKS, BLOCK_SIZE = 5, 16
FAMILIES = (
    "llama",
    "llama/mqa",
    "llama/head_dim",
    "qwen3",
    "qwen2_moe",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "opt",
    "phi",
    "cohere",
    "glm4",
    "smollm3",
    "deepseek_v2",
    "deepseek_v3",
    "minicpm3",
)


def pool_bytes(model: PreTrainedModel) -> int:
    paged = PagedModel(model, check=False)
    paged.allocate_pools(NUM_BLOCKS, BLOCK_SIZE)
    allocated = sum(pool.numel() * pool.element_size() for pool in paged.pools)
    groups = sum(group.block_bytes(BLOCK_SIZE) for group in paged.groups)
    assert allocated == NUM_BLOCKS * groups
    return allocated


def request(tokens: int) -> SizeRequest:
    """One sequence that needs all blocks; the engine has no draft layers."""
    return SizeRequest(tokens=tokens, kv_dtype="float32", block_size=BLOCK_SIZE, mtp=False)


@pytest.mark.parametrize("name", FAMILIES)
def test_pools_of_tiny_families(name: str) -> None:
    model = tiny.build(name)
    config = json.loads(model.config.to_json_string(use_diff=False))
    report = calculate(model_spec(config), request((NUM_BLOCKS - 1) * BLOCK_SIZE + 1))
    assert report.allocated_bytes == pool_bytes(model)


@pytest.mark.parametrize("name", ["mistral", "gemma3_text", "llama4_text"])
def test_windowed_layers_are_kept_at_full_length_so_far(name: str) -> None:
    model = tiny.build(name)
    config = json.loads(model.config.to_json_string(use_diff=False))
    report = calculate(model_spec(config), request(NUM_BLOCKS * BLOCK_SIZE))
    assert report.full_length_bytes == pool_bytes(model) > report.allocated_bytes


def test_pools_of_the_demo_model() -> None:
    """Its geometry from the GGUF; the pools of a model with the same layers and a small rest."""
    demo = read_model(str(demo_model()))
    twin = tiny.build(
        "llama",
        num_hidden_layers=30,
        hidden_size=576,
        num_attention_heads=9,
        num_key_value_heads=3,
        head_dim=64,
    )
    report = calculate(demo, request(NUM_BLOCKS * BLOCK_SIZE))
    assert report.allocated_bytes == pool_bytes(twin)
    assert calculate(demo, SizeRequest(tokens=1)).bytes == 23040
