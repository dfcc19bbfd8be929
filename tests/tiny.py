"""Tiny random models of many families: exactness can be tested on them, quality cannot.

`SUPPORTED` and `REFUSED` are the lists to parametrize over; `build` makes a model, `save` and
`folder` write one as a Hugging Face folder.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

MAX_LEN = 256
WINDOW = 8  # tokens, of sliding windows and chunks

BASE = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_LEN,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
HEAD = {**BASE, "head_dim": 16}
SLIDING = {**HEAD, "sliding_window": WINDOW}
MHA = {**BASE, "num_key_value_heads": 4}
GPT = {"vocab_size": 128, "n_positions": MAX_LEN, "n_embd": 64, "n_layer": 4, "n_head": 4}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
ROUTED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "topk_group": 1,
    "n_group": 1,
    "first_k_dense_replace": 1,
}
LATENT = {
    **MHA,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 12,
}
LINEAR_ATTENTION = {
    **{f"linear_num_{part}_heads": 2 for part in ("key", "value")},
    **{f"linear_{part}_head_dim": 16 for part in ("key", "value")},
}
GEMMA3_ROPE = {
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
}


def rope(rope_type: str, **parameters: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": 10000.0, **parameters}}


def llama3(original: int) -> dict[str, Any]:
    bands = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
    return rope("llama3", factor=8.0, original_max_position_embeddings=original, **bands)


def longrope(original: int) -> dict[str, Any]:
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    stated = {"original_max_position_embeddings": original}
    return stated | rope("longrope", factor=4.0, **stated, **factors)


def without(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in names}


# name -> (model type, settings)
SUPPORTED: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", HEAD),
    "llama/mha": ("llama", MHA),
    "llama/mqa": ("llama", {**HEAD, "num_key_value_heads": 1}),
    "llama/head_dim": ("llama", {**HEAD, "hidden_size": 40, "num_attention_heads": 8}),
    "llama/bias": ("llama", {**HEAD, "attention_bias": True, "mlp_bias": True}),
    "llama/linear": ("llama", HEAD | rope("linear", factor=4.0)),
    "llama/dynamic": ("llama", HEAD | rope("dynamic", factor=2.0)),
    "llama/yarn": ("llama", HEAD | rope("yarn", factor=4.0, original_max_position_embeddings=64)),
    "llama/longrope": ("llama", HEAD | longrope(64)),
    "llama/llama3": ("llama", HEAD | llama3(64)),
    "mistral": ("mistral", SLIDING),
    "ministral": ("ministral", SLIDING),
    "mixtral": ("mixtral", HEAD | LOCAL_EXPERTS),
    "qwen2": ("qwen2", BASE),
    "qwen2/sliding": (
        "qwen2",
        {**BASE, "use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 2},
    ),
    "qwen2_moe": ("qwen2_moe", HEAD | EXPERTS | {"shared_expert_intermediate_size": 32}),
    "qwen3": ("qwen3", HEAD),
    "qwen3_moe": ("qwen3_moe", HEAD | EXPERTS),
    "gemma": ("gemma", HEAD),
    "gemma2": ("gemma2", {**SLIDING, "query_pre_attn_scalar": 16}),
    "gemma2/softcap": ("gemma2", {**SLIDING, "attn_logit_softcapping": 0.5}),
    "gemma3_text": ("gemma3_text", {**SLIDING, "num_hidden_layers": 6}),
    "gemma3_text/linear": (
        "gemma3_text",
        {**SLIDING, "num_hidden_layers": 6, "rope_parameters": GEMMA3_ROPE},
    ),
    "vaultgemma": ("vaultgemma", SLIDING),
    "gpt_neox": ("gpt_neox", without(BASE, "num_key_value_heads")),
    "gptj": ("gptj", {**GPT, "rotary_dim": 8}),
    "codegen": ("codegen", {**GPT, "rotary_dim": 8}),
    "gpt2": ("gpt2", GPT),
    "gpt_bigcode": ("gpt_bigcode", GPT),
    "opt": (
        "opt",
        {
            **without(BASE, "intermediate_size", "num_key_value_heads"),
            "ffn_dim": 96,
            "word_embed_proj_dim": 64,
        },
    ),
    "phi": ("phi", BASE),
    "phi3": ("phi3", BASE),
    "phi3/longrope": ("phi3", BASE | longrope(64)),
    "phimoe": ("phimoe", HEAD | LOCAL_EXPERTS),
    "stablelm": ("stablelm", BASE),
    "persimmon": ("persimmon", BASE),
    "glm": ("glm", HEAD),
    "glm4": ("glm4", HEAD),
    "glm4_moe": ("glm4_moe", HEAD | ROUTED),
    "cohere": ("cohere", BASE),
    "cohere2": ("cohere2", SLIDING),
    "olmo": ("olmo", BASE),
    "olmo2": ("olmo2", BASE),
    "olmo3": ("olmo3", {**BASE, "sliding_window": WINDOW}),
    "olmoe": ("olmoe", BASE | EXPERTS),
    "starcoder2": ("starcoder2", {**BASE, "sliding_window": WINDOW}),
    "granite": ("granite", BASE),
    "granitemoe": ("granitemoe", BASE | LOCAL_EXPERTS),
    "smollm3": ("smollm3", BASE),
    "nemotron": ("nemotron", HEAD),
    "nanochat": ("nanochat", HEAD),
    "exaone4": ("exaone4", SLIDING),
    "ernie4_5": ("ernie4_5", HEAD),
    "helium": ("helium", HEAD),
    "seed_oss": ("seed_oss", HEAD),
    "apertus": ("apertus", BASE),
    "arcee": ("arcee", HEAD),
    "bitnet": ("bitnet", BASE),
    "dots1": ("dots1", {**SLIDING, **ROUTED}),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", HEAD),
    "deepseek_v2": ("deepseek_v2", LATENT | ROUTED),
    "deepseek_v3": ("deepseek_v3", LATENT | ROUTED),
    "glm4_moe_lite": ("glm4_moe_lite", LATENT | ROUTED),
    "minicpm3": ("minicpm3", LATENT),
    "gpt_oss": ("gpt_oss", SLIDING | LOCAL_EXPERTS),
    "llama4_text": (
        "llama4_text",
        HEAD
        | {
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 96,
            "attention_chunk_size": WINDOW,
            "interleave_moe_layer_step": 2,
            "attn_temperature_tuning": True,
            "floor_scale": 4,  # so that the temperature changes within a test's few tokens
        },
    ),
}

# name -> (model type, settings, part of the reason)
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "falcon": (
        "falcon",
        {**without(BASE, "num_key_value_heads"), "alibi": False},
        "bypasses the registry",
    ),
    "gpt_neox_japanese": (
        "gpt_neox_japanese",
        without(BASE, "num_key_value_heads"),
        "bypasses the registry",
    ),
    "bloom": ("bloom", GPT | {"hidden_size": 64}, "no argument position_ids"),
    "mpt": ("mpt", {"vocab_size": 128, "d_model": 64, "n_heads": 4, "n_layers": 2}, "position_ids"),
    "mamba": ("mamba", {"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2}, "argument"),
    "qwen3_next": (
        "qwen3_next",
        HEAD | EXPERTS | LINEAR_ATTENTION | {"shared_expert_intermediate_size": 32},
        "recurrent",
    ),
    "lfm2": ("lfm2", {**BASE, "layer_types": ["conv", "full_attention"] * 2}, "convolution"),
    "deepseek_v32": (
        "deepseek_v32",
        LATENT | ROUTED | {"index_topk": 4, "index_n_heads": 2, "index_head_dim": 8},
        "indexer",
    ),
    "mimo_v2_flash": (
        "mimo_v2_flash",
        SLIDING | EXPERTS | {"v_head_dim": 8, "n_routed_experts": 4},
        "K and V differ in head_dim (16 and 8)",
    ),
    "bert": ("bert", without(BASE, "num_key_value_heads"), "neither causal"),
    "diffllama": ("diffllama", HEAD, "without KV of its own"),
    "jetmoe": ("jetmoe", HEAD | {"kv_channels": 16, "num_local_experts": 4}, "differ from its own"),
    "t5": (
        "t5",
        {"vocab_size": 128, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4},
        "encoder-decoder",
    ),
    "gemma3": (
        "gemma3",
        {
            "text_config": {**SLIDING, "num_hidden_layers": 2},
            "vision_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2},
            "mm_tokens_per_image": 4,
        },
        "multimodal",
    ),
}

AUTO = {"t5": AutoModelForSeq2SeqLM, "gemma3": AutoModelForImageTextToText}


def build(
    name: str, *, dtype: torch.dtype = torch.float32, seed: int = 0, **settings: Any
) -> PreTrainedModel:
    """A seeded model in eval mode; `settings` override those of the table.

    Matrices are N(0, 0.08); vectors (norm weights, biases, sinks) get N(0, 0.1) added, so that
    nothing is neutral by accident.
    """
    model_type, base, *_ = SUPPORTED.get(name) or REFUSED[name]
    config = AutoConfig.for_model(model_type, **{**base, **settings})
    with torch.random.fork_rng(devices=[]):  # vectors begin as the model initialises them
        torch.manual_seed(seed)
        model = AUTO.get(model_type, AutoModelForCausalLM).from_config(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * 0.08 if parameter.dim() > 1 else parameter + noise * 0.1)
    return model.to(dtype).eval()


def save(name: str, path: Path, *, seed: int = 0, **settings: Any) -> Path:
    """config.json and model.safetensors of `build(name)` in folder `path`."""
    build(name, seed=seed, **settings).save_pretrained(path)
    return path


SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # ids 0, 1, 2
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@cache
def tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte behind three special ones (id of a byte: 3 + its place in the alphabet)."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: index for index, token in enumerate((*SPECIAL_TOKENS, *alphabet))}
    backend = Tokenizer(BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<|endoftext|>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        chat_template=CHAT_TEMPLATE,
    )


def folder(path: Path, name: str = "llama", *, seed: int = 0, **settings: Any) -> Path:
    """A complete model folder for `load_model`: weights, tokenizer and chat template."""
    save(name, path, seed=seed, **{"vocab_size": len(tokenizer()), **settings})
    tokenizer().save_pretrained(path)
    return path
