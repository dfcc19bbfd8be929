"""Values of a family's config class that shipped configs leave out.

Gemma 3 checkpoints, for one, ship a `text_config` without heads, head size or window pattern.
Source: the configuration classes of transformers 5.24. Used fields are printed as assumptions.
"""

from __future__ import annotations

from typing import Any

from kvtool.sizing.fields import HEADS, Fields

_DELTA_NET = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
_GEMMA3 = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "sliding_window": 4096,
}
_GEMMA4 = {**_GEMMA3, "sliding_window": 512}
_LLAMA4 = {"num_key_value_heads": 8, "head_dim": 128}

CLASS_DEFAULTS: dict[str, dict[str, Any]] = {
    "cohere2": {"sliding_window": 4096},
    "falcon": {"multi_query": True},
    "gemma": {"num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256},
    "gemma2": _GEMMA3,
    "gemma3": _GEMMA3,
    "gemma3_text": _GEMMA3,
    "gemma3n_text": {
        **_GEMMA3,
        "num_key_value_heads": 2,
        "sliding_window": 512,
        "num_kv_shared_layers": 15,
    },
    "gemma4_text": _GEMMA4,
    "gpt_bigcode": {"multi_query": True},
    "gpt_neo": {"window_size": 256},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128},
    "lfm2": {"conv_L_cache": 3},
    "lfm2_moe": {"conv_L_cache": 3},
    "llama4_text": {**_LLAMA4, "attention_chunk_size": 8192},
    "mistral": {"num_key_value_heads": 8},
    "mixtral": {"num_key_value_heads": 8},
    "olmo3": {"sliding_window": 4096},
    "qwen3_5_moe_text": {"head_dim": 256, **_DELTA_NET},
    "qwen3_5_text": {"head_dim": 256, **_DELTA_NET},
    "qwen3_next": {"head_dim": 256, **_DELTA_NET},
    "recurrent_gemma": {"attention_window_size": 2048, "conv1d_width": 4},
}
_ALIASES = {"num_attention_heads": HEADS, "num_key_value_heads": ("num_kv_heads",)}


def fill(fields: Fields) -> None:
    """Adds what the config leaves out; a field that is present, null included, stays as it is."""
    for name, value in CLASS_DEFAULTS.get(fields.model_type or "", {}).items():
        given = any(alias in fields.values for alias in (name, *_ALIASES.get(name, ())))
        if not given:
            fields.values[name] = value
            fields.assume(
                f"{name} is not in the config: {value}, the default of {fields.model_type}"
            )
