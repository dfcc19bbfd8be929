"""The calculator against the caches Hugging Face models really fill.

Class-default configs, a few layers, shapes only (meta device): what a DynamicCache holds after
eight tokens has as many values as the formula says. Windows are longer than that.
"""

from __future__ import annotations

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from kvtool.sizing.calculate import calculate
from kvtool.sizing.from_config import model_spec
from kvtool.sizing.request import SizeRequest

TOKENS = 8
MODEL_TYPES = (
    ("cohere2", 6),
    ("deepseek_v3", 3),
    ("deepseek_v32", 3),
    ("falcon", 3),
    ("falcon_h1", 2),
    ("gemma2", 4),
    ("gemma3_text", 7),
    ("gemma4_text", 7),
    ("glm_moe_dsa", 4),
    ("gpt2", 3),
    ("gpt_bigcode", 3),
    ("gpt_neo", 24),
    ("gpt_oss", 4),
    ("jamba", 9),
    ("kimi_linear", 5),
    ("lfm2", 4),
    ("llama4_text", 5),
    ("mimo_v2_flash", 7),
    ("minicpm3", 3),
    ("mpt", 3),
    ("qwen3_next", 5),
    ("recurrent_gemma", 4),
)


@pytest.mark.parametrize(("model_type", "layers"), MODEL_TYPES)
def test_as_many_values_as_the_cache_holds(model_type: str, layers: int) -> None:
    config = AutoConfig.for_model(model_type, num_hidden_layers=layers)
    described = json.loads(config.to_json_string(use_diff=False))
    assert model_type == described["model_type"]
    report = calculate(model_spec(described), SizeRequest(tokens=TOKENS))
    assert report.bytes == 2 * _values_cached(config)


def _values_cached(config: object) -> int:
    with torch.device("meta"), torch.no_grad():
        model = AutoModelForCausalLM.from_config(
            config, attn_implementation="eager", dtype=torch.bfloat16
        ).eval()
        cache = DynamicCache(config=config)
        model(input_ids=torch.zeros(1, TOKENS, dtype=torch.long), use_cache=True, cache=cache)
    planes = [
        plane
        for layer in cache.layers
        for plane in (getattr(layer, "keys", None), getattr(layer, "values", None))
    ]
    return sum(plane.numel() for plane in planes if plane is not None)
