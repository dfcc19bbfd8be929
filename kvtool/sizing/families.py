"""Every known model family: a name of `model_type` and the rule for its layers.

A new family is one line here, and a function where no rule fits. What is in none of the tables
is computed as plain full attention with a printed assumption, or refused by `unknown.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from kvtool.sizing import kinds, special, state
from kvtool.sizing.blocks import Recurrence, by_kind
from kvtool.sizing.fields import Fields
from kvtool.sizing.special import Built

Family = Callable[[Fields], Built]


def pattern(rule: kinds.Rule, recurrence: Recurrence | None = None) -> Family:
    """A family whose layers differ by kind only; `layer_types` of the config goes first."""

    def build(fields: Fields) -> Built:
        return by_kind(fields, kinds.listed(fields) or rule(fields), recurrence)

    return build


def pure_mamba2(fields: Fields) -> Built:
    own = {"mamba_head_dim": fields.count("head_dim"), "mamba_num_heads": fields.count("num_heads")}
    return ((state.mamba2(Fields({**fields.values, **own})),),) * fields.num_layers


def every_layer(recurrence: Recurrence) -> Family:
    return lambda fields: ((recurrence(fields),),) * fields.num_layers


def kimi_linear(fields: Fields) -> Built:
    listed = kinds.listed(fields)
    nested = fields.get("linear_attn_config")
    if listed is None and isinstance(nested, dict):
        inner = Fields({**nested, "num_hidden_layers": fields.num_layers})
        listed = kinds.attention_at("full_attn_layers", kinds.LINEAR, first=1)(inner)
    return by_kind(fields, listed or kinds.all_full(fields), state.kimi_delta)


PLAIN = pattern(kinds.all_full)
MISTRAL = pattern(kinds.all_sliding)
QWEN = pattern(kinds.qwen_windows)
DELTA_NET = pattern(kinds.interleaved(4, "full_attention_interval", other=kinds.LINEAR))
PATTERN_6 = pattern(kinds.interleaved(6, "sliding_window_pattern"))
PATTERN_4 = pattern(kinds.interleaved(4, "sliding_window_pattern"))
ALTERNATING = pattern(kinds.interleaved(2))

FULL_ATTENTION = """
    apertus arcee aria_text baichuan biogpt bitnet bloom chatglm codegen cohere dbrx deepseek
    deepseek_v2 deepseek_v3 deepseek_v32 dots1 emu3 ernie4_5 ernie4_5_moe exaone falcon gemma glm glm4
    glm4_moe glm4_moe_lite gpt-sw3 gpt2 gpt_bigcode gpt_neox gpt_neox_japanese gptj granite granitemoe
    granitemoeshared helium hyperclovax internlm internlm2 internlm3 jais2 kimi_k2 llama minicpm
    minicpm3 minimax_m2 mpt nanochat nemotron olmo olmo2 olmoe openai-gpt opt persimmon phi phimoe
    qwen2_5_vl_text qwen2_vl_text qwen3_vl_moe_text qwen3_vl_text sarvam_mla sarvam_moe seed_oss
    smollm3 solar_open stablelm xglm yi youtu
"""

FAMILIES: dict[str, Family] = {
    **dict.fromkeys(FULL_ATTENTION.split(), PLAIN),
    "afmoe": pattern(kinds.interleaved(4, "global_attn_every_n_layers")),
    "bamba": pattern(kinds.attention_at("attn_layer_indices", kinds.LINEAR), state.mamba2),
    "bart": special.encoder_decoder,
    "blenderbot": special.encoder_decoder,
    "cohere2": PATTERN_4,
    "exaone4": pattern(kinds.exaone_windows),
    "falcon_h1": special.falcon_h1,
    "falcon_mamba": every_layer(state.mamba1),
    "gemma2": ALTERNATING,
    "gemma3": PATTERN_6,
    "gemma3_text": PATTERN_6,
    "gemma3n": special.gemma3n,
    "gemma3n_text": special.gemma3n,
    "gemma4": special.gemma4,
    "gemma4_text": special.gemma4,
    "glm_moe_dsa": special.glm_dsa,
    "gpt_neo": pattern(kinds.gpt_neo_windows),
    "gpt_oss": ALTERNATING,
    "granitemoehybrid": pattern(kinds.all_full, state.mamba2),
    "hunyuan": special.hunyuan,
    "hunyuan_v1_dense": special.hunyuan,
    "hunyuan_v1_moe": special.hunyuan,
    "jamba": pattern(kinds.jamba_layers, state.mamba1),
    "kimi_linear": kimi_linear,
    "lfm2": pattern(kinds.attention_at("full_attn_idxs", kinds.CONV)),
    "lfm2_moe": pattern(kinds.attention_at("full_attn_idxs", kinds.CONV)),
    "llama4": pattern(kinds.llama4_chunks),
    "llama4_text": pattern(kinds.llama4_chunks),
    "longcat_flash": special.longcat,
    "m2m_100": special.encoder_decoder,
    "mamba": every_layer(state.mamba1),
    "mamba2": pure_mamba2,
    "marian": special.encoder_decoder,
    "mbart": special.encoder_decoder,
    "mimo_v2_flash": special.mimo,
    "minimax": pattern(kinds.minimax_layers, state.lightning_attention),
    "minimax_text_01": pattern(kinds.minimax_layers, state.lightning_attention),
    "ministral": MISTRAL,
    "ministral3": MISTRAL,
    "mistral": MISTRAL,
    "mixtral": MISTRAL,
    "mllama_text_model": special.mllama,
    "mt5": special.encoder_decoder,
    "nemotron_h": pattern(kinds.nemotron_layers, state.mamba2),
    "olmo3": PATTERN_4,
    "olmo_hybrid": pattern(kinds.all_full),
    "pegasus": special.encoder_decoder,
    "phi3": MISTRAL,
    "qwen2": QWEN,
    "qwen2_5_vl": QWEN,
    "qwen2_moe": QWEN,
    "qwen2_vl": QWEN,
    "qwen3": QWEN,
    "qwen3_5": DELTA_NET,
    "qwen3_5_moe": DELTA_NET,
    "qwen3_5_moe_text": DELTA_NET,
    "qwen3_5_text": DELTA_NET,
    "qwen3_moe": QWEN,
    "qwen3_next": DELTA_NET,
    "recurrent_gemma": pattern(kinds.griffin_layers, state.gated_linear_recurrence),
    "rwkv": every_layer(state.rwkv4),
    "starcoder2": MISTRAL,
    "t5": special.encoder_decoder,
    "umt5": special.encoder_decoder,
    "vaultgemma": ALTERNATING,
    "whisper": special.encoder_decoder,
    "zamba2": special.zamba2,
}
