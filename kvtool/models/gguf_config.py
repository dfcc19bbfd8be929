"""The config.json that a GGUF file's metadata stands for.

Only architectures whose conversion is tested are listed. Positions that cannot be carried over are
refused, other settings without a counterpart are warned about.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kvtool.errors import ModelError

Metadata = Mapping[str, Any]

_log = logging.getLogger(__name__)

_NAMES = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}

# Read elsewhere, or implied by the shapes of the tensors.
_SILENT = ("vocab_size", "rope.", "attention.value_length", "attention.causal")


class Architecture(NamedTuple):
    """`fixed`: what llama.cpp hard-codes for the family and the metadata does not say."""

    model_type: str
    class_name: str
    names: Mapping[str, str] = {}  # differences from _NAMES
    fixed: Mapping[str, Any] = {}


ARCHITECTURES = {
    "llama": Architecture("llama", "LlamaForCausalLM"),
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM"),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM"),
    "qwen2moe": Architecture("qwen2_moe", "Qwen2MoeForCausalLM"),
    "qwen3moe": Architecture("qwen3_moe", "Qwen3MoeForCausalLM", fixed={"norm_topk_prob": True}),
    "phi3": Architecture("phi3", "Phi3ForCausalLM"),
    "gemma2": Architecture("gemma2", "Gemma2ForCausalLM"),
    "gemma3": Architecture("gemma3_text", "Gemma3ForCausalLM"),
    "starcoder2": Architecture(
        "starcoder2",
        "Starcoder2ForCausalLM",
        names={"attention.layer_norm_epsilon": "norm_epsilon"},
    ),
}


def model_config(path: Path, metadata: Metadata, tensors: Sequence[Any]) -> dict[str, Any]:
    """The config as a dict; raises `ModelError` for an architecture or feature not supported."""
    name = metadata.get("general.architecture")
    architecture = ARCHITECTURES.get(str(name))
    if architecture is None:
        raise ModelError(
            f"{path} has architecture {name!r}; GGUF conversion supports: "
            f"{', '.join(ARCHITECTURES)}.",
            hint="Load the original model from its Hugging Face folder or hub id instead.",
        )
    shapes = {tensor.name: tensor.shape for tensor in tensors}
    names = {**_NAMES, **architecture.names}
    _warn_of_unused(path, f"{name}.", metadata, names)
    config = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "vocab_size": int(shapes["token_embd.weight"][-1]),
        "tie_word_embeddings": "output.weight" not in shapes,
        **architecture.fixed,
        **{names[key]: metadata[f"{name}.{key}"] for key in names if f"{name}.{key}" in metadata},
        **_special_tokens(metadata),
    }
    _check_sizes(path, config, shapes)
    return config | _family(str(name), config, shapes) | _rope(path, metadata, config, tensors)


def _check_sizes(path: Path, config: Metadata, shapes: Mapping[str, Any]) -> None:
    """Before anything is built by them: damaged sizes may be in the billions."""
    layers = config["num_hidden_layers"]
    width = int(shapes["token_embd.weight"][0])
    if layers > len(shapes) or config["hidden_size"] != width:
        raise ModelError(
            f"{path} is damaged: it states {layers} layers of {config['hidden_size']} features, "
            f"its {len(shapes)} tensors are for {width}."
        )


def _warn_of_unused(path: Path, prefix: str, metadata: Metadata, names: Mapping[str, str]) -> None:
    keys = [key.removeprefix(prefix) for key in metadata if key.startswith(prefix)]
    unused = [key for key in keys if key not in names and not key.startswith(_SILENT)]
    if unused:
        _log.warning("%s: settings that are not carried over: %s", path, ", ".join(unused))


def eos_token_ids(metadata: Metadata) -> list[int]:
    """End of text, of turn and of message: a chat model stops at any of them."""
    keys = ("eos", "eot", "eom")
    ids = (metadata.get(f"tokenizer.ggml.{key}_token_id") for key in keys)
    return sorted({int(token) for token in ids if token is not None})


def _special_tokens(metadata: Metadata) -> dict[str, int | None]:
    """Absent ids are None and not the default of the class, which belongs to another vocabulary."""
    keys = {"bos": "bos", "eos": "eos", "padding": "pad"}
    return {
        f"{hf}_token_id": metadata.get(f"tokenizer.ggml.{k}_token_id") for k, hf in keys.items()
    }


def _family(name: str, config: Metadata, shapes: Mapping[str, Any]) -> dict[str, Any]:
    if name == "llama":
        if config.get("num_experts"):
            raise ModelError("GGUF conversion does not support llama files with experts (Mixtral).")
        return {
            "attention_bias": "blk.0.attn_q.bias" in shapes,
            "mlp_bias": "blk.0.ffn_gate.bias" in shapes,
        }
    if name == "starcoder2":
        return {"use_bias": "blk.0.attn_q.bias" in shapes}
    if name in ("gemma2", "gemma3"):
        # llama.cpp scales queries by the head size, except in the 27B models of both generations.
        largest = config["num_hidden_layers"] == {"gemma2": 46, "gemma3": 62}[name]
        per_head = config["hidden_size"] // config["num_attention_heads"]
        return {"query_pre_attn_scalar": per_head if largest else config["head_dim"]}
    return {}


def _rope(
    path: Path, metadata: Metadata, config: Metadata, tensors: Sequence[Any]
) -> dict[str, Any]:
    name = metadata["general.architecture"]
    extra = {t.name: t.data for t in tensors if t.name.startswith("rope_")}
    get = {k.removeprefix(f"{name}.rope."): v for k, v in metadata.items()}.get
    rope: dict[str, Any] = {
        "rope_type": "default",
        "rope_theta": float(get("freq_base") or 10000.0),
    }
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    kind = get("scaling.type") or "none"
    if (rotary_dim := get("dimension_count", head_dim)) != head_dim:
        if name != "phi3":
            raise ModelError(
                f"{path} rotates {rotary_dim} of {head_dim} dimensions; supported: all."
            )
        rope["partial_rotary_factor"] = rotary_dim / head_dim
    if kind in ("linear", "yarn"):
        rope |= {"rope_type": kind, "factor": float(get("scaling.factor") or 1.0)}
        if original := get("scaling.original_context_length"):
            rope["original_max_position_embeddings"] = int(original)
    elif kind != "none":
        raise ModelError(f"{path} scales its positions by {kind!r}; supported: none, linear, yarn.")
    if set(extra) - {"rope_freqs.weight"}:
        raise ModelError(f"{path} holds {', '.join(extra)}: longrope is not supported in a GGUF.")
    if extra:
        rope |= _llama3(path, rope["rope_theta"], extra["rope_freqs.weight"])
    if config["model_type"] == "gemma3_text":
        local = {"rope_type": "default", "rope_theta": float(get("freq_base_swa") or 10000.0)}
        return {"rope_parameters": {"sliding_attention": local, "full_attention": rope}}
    return {"rope_parameters": rope}


def _llama3(path: Path, theta: float, stretch: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The file stores what Llama 3's rule gives for each frequency, not the rule.

    All released models use the constants below and differ in `factor`; the rule is computed
    again with them and has to give what the file says.
    """
    factor, low, high, original = float(stretch.max()), 1.0, 4.0, 8192
    wavelength = 2 * np.pi * theta ** (np.arange(len(stretch)) / len(stretch))
    smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
    if not np.allclose(stretch, 1 / ((1 - smooth) / factor + smooth), rtol=1e-3):
        raise ModelError(f"{path} holds rope_freqs.weight of an unknown rule; supported: llama3.")
    return {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": original,
    }
