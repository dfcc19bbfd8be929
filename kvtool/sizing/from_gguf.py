"""A GGUF's metadata in the words of a config.json, so that both go through the same rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError
from kvtool.sizing import kinds
from kvtool.sizing.from_config import model_spec as from_config
from kvtool.sizing.gguf_header import read_metadata
from kvtool.sizing.model_spec import ModelSpec

MODEL_TYPES = {  # general.architecture -> model_type, where they differ
    "chatglm": "chatglm",
    "command-r": "cohere",
    "deepseek2": "deepseek_v3",
    "falcon-h1": "falcon_h1",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gpt-oss": "gpt_oss",
    "gptneox": "gpt_neox",
    "granitehybrid": "granitemoehybrid",
    "llama4": "llama4_text",
    "minimax-m2": "minimax_m2",
    "phi2": "phi",
    "qwen2moe": "qwen2_moe",
    "qwen35": "qwen3_5_text",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
}
FIELDS = {  # name in a config -> key after the architecture
    "num_attention_heads": "attention.head_count",
    "hidden_size": "embedding_length",
    "max_position_embeddings": "context_length",
    "head_dim": "attention.key_length",
    "v_head_dim": "attention.value_length",
    "sliding_window": "attention.sliding_window",
    "kv_lora_rank": "attention.kv_lora_rank",
    "qk_rope_head_dim": "rope.dimension_count",
    "num_nextn_predict_layers": "nextn_predict_layers",
    "num_kv_shared_layers": "attention.shared_kv_layers",
    "full_attention_interval": "full_attention_interval",
    "index_head_dim": "attention.indexer.key_length",
    "index_topk": "attention.indexer.top_k",
    "conv_L_cache": "shortconv.l_cache",
}
MAMBA1_TYPES, DELTA_NET_TYPES = ("jamba", "mamba", "falcon_mamba"), ("qwen3_next", "qwen3_5_text")


def model_spec(path: Path) -> ModelSpec:
    metadata = read_metadata(path)
    name = str(metadata.get("general.name") or path.name)
    parts = metadata.get("split.count") or 1  # of several parts this file has only its own tensors
    weight_bytes = path.stat().st_size if parts == 1 else None
    try:
        described = config(metadata)
    except KeyError as error:
        raise ModelError(f"The metadata of {path} lacks {error}.") from error
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        raise ModelError(f"The metadata of {path} is damaged: {error}.") from error
    return from_config(described, name, weight_bytes)


def config(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata as a config.json would say it."""
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or f"{architecture}.block_count" not in metadata:
        raise ModelError("The GGUF has no general.architecture with a block_count: not a model.")
    own = {k.removeprefix(f"{architecture}."): v for k, v in metadata.items()}
    model_type = MODEL_TYPES.get(architecture, architecture.replace("-", "_"))
    found: dict[str, Any] = {k: own[f] for k, f in FIELDS.items() if own.get(f) is not None}
    found["model_type"] = model_type
    found["num_hidden_layers"] = own["block_count"] - (own.get("nextn_predict_layers") or 0)
    found |= _heads(own, found["num_hidden_layers"], model_type)
    found |= _windows(own, found["num_hidden_layers"])
    return found | _recurrence(own, model_type)


def _heads(own: Mapping[str, Any], layers: int, model_type: str) -> dict[str, Any]:
    """Head counts may differ by layer; a layer without KV heads attends to nothing."""
    heads, kv_heads = own.get("attention.head_count"), own.get("attention.head_count_kv")
    found: dict[str, Any] = {}
    if isinstance(heads, list):
        found["num_attention_heads"] = max(heads)
    if isinstance(kv_heads, list):
        found["num_key_value_heads"] = max(kv_heads)
        found["per_layer_config"] = {
            str(i): {"num_key_value_heads": n} for i, n in enumerate(kv_heads) if n
        }
        if min(kv_heads) == 0:
            idle = kinds.CONV if "shortconv.l_cache" in own else kinds.LINEAR
            found["layer_types"] = [kinds.FULL if n else idle for n in kv_heads[:layers]]
    elif kv_heads is not None:
        found["num_key_value_heads"] = kv_heads
    if own.get("attention.kv_lora_rank"):
        found["head_dim"] = None  # key_length is then the latent's, or an unrolled head's
    return found


def _windows(own: Mapping[str, Any], layers: int) -> dict[str, Any]:
    pattern = own.get("attention.sliding_window_pattern")
    found: dict[str, Any] = {}
    if own.get("attention.sliding_window"):
        found["use_sliding_window"] = True
        found["max_window_layers"] = 0
    if isinstance(pattern, list):
        found["layer_types"] = [
            kinds.SLIDING if windowed else kinds.FULL for windowed in pattern[:layers]
        ]
        found |= _window_heads(own, found["layer_types"])
    elif isinstance(pattern, int):
        found["sliding_window_pattern"] = pattern
    return found


def _window_heads(own: Mapping[str, Any], layer_types: list[str]) -> dict[str, Any]:
    """Gemma 4: windowed layers have their own head size."""
    dim = own.get("attention.key_length_swa")
    if dim is None:
        return {}
    kv_heads = own.get("attention.head_count_kv")
    per_layer = {}
    for i, kind in enumerate(layer_types):
        windowed = kind == kinds.SLIDING
        per_layer[str(i)] = {
            "head_dim": dim if windowed else own["attention.key_length"],
            "v_head_dim": own.get("attention.value_length_swa", dim)
            if windowed
            else own["attention.value_length"],
        }
        if isinstance(kv_heads, list):
            per_layer[str(i)]["num_key_value_heads"] = kv_heads[i]
    return {"per_layer_config": per_layer}


def _recurrence(own: Mapping[str, Any], model_type: str) -> dict[str, Any]:
    if "ssm.state_size" not in own:
        return {}
    inner, groups = own["ssm.inner_size"], own.get("ssm.group_count") or 1
    heads, state = own["ssm.time_step_rank"], own["ssm.state_size"]
    if model_type in DELTA_NET_TYPES:
        return {
            "linear_conv_kernel_dim": own["ssm.conv_kernel"],
            "linear_num_key_heads": groups,
            "linear_key_head_dim": state,
            "linear_num_value_heads": heads,
            "linear_value_head_dim": inner // heads,
        }
    found = {"mamba_d_conv": own["ssm.conv_kernel"], "mamba_d_state": state}
    if model_type in MAMBA1_TYPES:
        return found | {"d_inner": inner}
    return found | {
        "mamba_num_heads": heads,
        "num_heads": heads,
        "head_dim" if model_type == "mamba2" else "mamba_head_dim": inner // heads,
        "mamba_n_groups": groups,
    }
