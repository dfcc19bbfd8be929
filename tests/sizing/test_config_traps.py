"""Configs that fool other calculators, and configs that must be refused."""

from __future__ import annotations

from typing import Any

import pytest
from sizing.published import MODELS

from kvtool.errors import ModelError
from kvtool.sizing.calculate import calculate
from kvtool.sizing.families import FAMILIES
from kvtool.sizing.from_config import model_spec
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.request import SizeRequest

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
}
MISTRAL = {**LLAMA, "model_type": "mistral", "sliding_window": 4096}
DEEPSEEK = next(m["config"] for m in MODELS if "DeepSeek" in m["model"])


SPECIAL_FIELDS = {
    "attn_config": {"kv_n_heads": 2},
    "per_layer_config": {"1": {"head_dim": 64}},
    "linear_attn_config": {"full_attn_layers": [1]},
    "attention_types": [[["global", "local"], 4]],
    "no_rope_layers": [1] * 8,
    "indexer_types": ["full"] * 8,
    "cross_attention_layers": [3],
    "block_types": ["recurrent"],
    "attn_layer_indices": [1],
    "hybrid_layer_pattern": [1] * 8,
    "sliding_window_pattern": 2,
    "sliding_window": 64,
    "layer_types": None,
    "num_mtp_modules": 1,
}


def kinds(model: ModelSpec) -> list[str]:
    return [" + ".join(c.kind for c in caches) or "none" for caches in model.layers]


def bytes_of(config: dict[str, Any], tokens: int = 4096, **request: Any) -> int:
    return calculate(model_spec(config), SizeRequest(tokens=tokens, **request)).bytes


@pytest.mark.report("S54")
@pytest.mark.parametrize(
    ("heads", "kv_heads", "hidden", "head_dim"), [(32, 8, 2560, 128), (64, 8, 2880, 64)]
)
def test_explicit_head_dim_wins(heads: int, kv_heads: int, hidden: int, head_dim: int) -> None:
    config = {
        "model_type": "qwen3",
        "num_hidden_layers": 2,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": hidden,
        "head_dim": head_dim,
    }
    report = calculate(model_spec(config), SizeRequest(tokens=1))
    assert report.bytes == 2 * 2 * kv_heads * head_dim * 2
    assert f"{kv_heads} KV heads · {head_dim} head_dim" in report.formula


def test_null_head_dim_means_derive() -> None:
    assert bytes_of({**LLAMA, "head_dim": None}) == bytes_of({**LLAMA, "head_dim": 128})


@pytest.mark.report("S56")
@pytest.mark.parametrize(("kv_heads", "ratio"), [(32, 1), (8, 4), (1, 32)])
def test_mha_gqa_mqa(kv_heads: int, ratio: int) -> None:
    mha = 2 * 8 * 4096 * 32 * 128 * 2
    assert bytes_of({**LLAMA, "num_key_value_heads": kv_heads}) == mha // ratio


@pytest.mark.report("S56")
def test_latents_are_neither_doubled_nor_divided_by_tensor_ranks() -> None:
    report = calculate(model_spec(DEEPSEEK), SizeRequest(tokens=1, tp=8, mtp=False))
    assert report.bytes == report.per_rank.bytes == (512 + 64) * 61 * 2
    assert report.per_rank.all_ranks_bytes == 8 * report.per_rank.allocated_bytes


def test_multi_query_flag_wins_over_a_stored_head_count() -> None:
    falcon = next(m["config"] for m in MODELS if "falcon" in m["model"])
    assert bytes_of({**falcon, "num_kv_heads": 71}, tokens=1) == 8192
    large = {**falcon, "new_decoder_architecture": True, "num_kv_heads": 8}
    large |= {"num_attention_heads": 128, "hidden_size": 8192}
    assert bytes_of(large, tokens=1) == 2 * 32 * 8 * 64 * 2


def test_draft_layers_are_counted_apart() -> None:
    with_draft = calculate(model_spec(DEEPSEEK), SizeRequest(tokens=16))
    without = calculate(model_spec(DEEPSEEK), SizeRequest(tokens=16, mtp=False))
    assert with_draft.mtp_bytes == 16 * 1152
    assert with_draft.bytes == without.bytes
    assert with_draft.allocated_bytes == without.allocated_bytes + 16 * 1152


def test_sparse_attention_keeps_indexer_keys_for_every_token() -> None:
    config = {**DEEPSEEK, "model_type": "deepseek_v32", "index_head_dim": 128, "index_topk": 2048}
    config["num_nextn_predict_layers"] = 0
    report = calculate(model_spec(config), SizeRequest(tokens=100_000))
    assert report.bytes == 100_000 * 61 * 1152
    assert report.indexer_bytes == 100_000 * 61 * 132
    assert report.decode_read_bytes == 61 * (2048 * 1152 + 100_000 * 132)


def test_shared_indexers_keep_no_keys() -> None:
    config = {**DEEPSEEK, "model_type": "glm_moe_dsa", "index_head_dim": 128, "index_topk": 2048}
    config |= {"num_hidden_layers": 4, "index_topk_pattern": "FSSF", "num_nextn_predict_layers": 0}
    assert calculate(model_spec(config), SizeRequest(tokens=10)).indexer_bytes == 2 * 10 * 132


def test_longcat_has_two_attention_blocks_a_layer() -> None:
    config = {**DEEPSEEK, "model_type": "longcat_flash", "num_layers": 28}
    del config["num_hidden_layers"], config["num_nextn_predict_layers"]
    report = calculate(model_spec(config), SizeRequest(tokens=1))
    assert report.bytes == 56 * 576 * 2
    assert [row.layer for row in report.per_layer[:4]] == [0, 0, 1, 1]


@pytest.mark.report("S55")
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (MISTRAL, ["sliding"] * 8),
        ({**MISTRAL, "sliding_window": None}, ["full"] * 8),
        (
            {**MISTRAL, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 6},
            ["full"] * 6 + ["sliding"] * 2,
        ),
        (
            {**MISTRAL, "model_type": "qwen2", "use_sliding_window": False, "max_window_layers": 6},
            ["full"] * 8,
        ),
        ({**MISTRAL, "model_type": "gemma2"}, ["sliding", "full"] * 4),
        ({**MISTRAL, "model_type": "gemma3_text"}, ["sliding"] * 5 + ["full"] + ["sliding"] * 2),
        ({**MISTRAL, "model_type": "cohere2"}, (["sliding"] * 3 + ["full"]) * 2),
        (
            {**MISTRAL, "model_type": "exaone4", "sliding_window_pattern": "LLG"},
            ["sliding", "sliding", "full"] * 2 + ["sliding", "sliding"],
        ),
        (
            {**LLAMA, "model_type": "llama4_text", "attention_chunk_size": 8192},
            (["chunked"] * 3 + ["full"]) * 2,
        ),
        (
            {
                **LLAMA,
                "model_type": "gemma3n_text",
                "sliding_window": 512,
                "num_kv_shared_layers": 2,
            },
            ["sliding"] * 4 + ["full", "sliding", "none", "none"],
        ),
        (
            {**LLAMA, "model_type": "hunyuan", "use_cla": True, "cla_share_factor": 2},
            ["full", "none"] * 4,
        ),
        (
            {**LLAMA, "model_type": "hunyuan", "use_cla": False, "cla_share_factor": 2},
            ["full"] * 8,
        ),
        (
            {**LLAMA, "layer_types": ["attention", "sliding_attention"] * 4, "sliding_window": 7},
            ["full", "sliding"] * 4,
        ),
    ],
    ids=lambda value: value.get("model_type") if isinstance(value, dict) else "",
)
def test_which_layers_have_a_window(config: dict[str, Any], expected: list[str]) -> None:
    assert kinds(model_spec(config)) == expected


STATEFUL = {
    "jamba": (
        {"attn_layer_period": 4, "attn_layer_offset": 1, "mamba_d_conv": 4, "mamba_d_state": 16},
        ["state", "full", "state", "state"] * 2,
        6 * (3 * 8192 * 2 + 8192 * 16 * 4),
    ),
    "nemotron_h": (
        {
            "hybrid_override_pattern": "M-M*M-E*",
            "mamba_num_heads": 128,
            "mamba_head_dim": 64,
            "ssm_state_size": 128,
            "n_groups": 8,
            "conv_kernel": 4,
        },
        ["state", "none", "state", "full", "state", "none", "none", "full"],
        3 * (3 * (8192 + 2 * 8 * 128) * 2 + 128 * 64 * 128 * 4),
    ),
    "minimax": (
        {"attn_type_list": [0, 0, 0, 1] * 2},
        ["state", "state", "state", "full"] * 2,
        6 * 32 * 128 * 128 * 4,
    ),
    "lfm2": (
        {"full_attn_idxs": [2, 5], "conv_L_cache": 3},
        ["state", "state", "full", "state", "state", "full", "state", "state"],
        6 * 2 * 4096 * 2,
    ),
    "falcon_h1": (
        {
            "mamba_n_heads": 24,
            "mamba_d_head": 64,
            "mamba_d_state": 256,
            "mamba_n_groups": 1,
            "mamba_d_conv": 4,
        },
        ["full + state"] * 8,
        8 * (3 * (24 * 64 + 2 * 256) * 2 + 24 * 64 * 256 * 4),
    ),
    "recurrent_gemma": (
        {"lru_width": 4096},
        ["state", "state", "sliding"] * 2 + ["state", "state"],
        6 * (3 * 4096 * 2 + 4096 * 4),
    ),
}


@pytest.mark.parametrize("model_type", STATEFUL)
def test_recurrent_layers(model_type: str) -> None:
    extra, expected, state_bytes = STATEFUL[model_type]
    model = model_spec({**LLAMA, "model_type": model_type, **extra})
    assert kinds(model) == expected
    assert calculate(model, SizeRequest(tokens=50, batch=3)).state_bytes == 3 * state_bytes
    assert calculate(model, SizeRequest(tokens=5000)).state_bytes == state_bytes


def test_kimi_linear_counts_layers_from_one() -> None:
    config = {
        **DEEPSEEK,
        "model_type": "kimi_linear",
        "num_hidden_layers": 8,
        "num_nextn_predict_layers": 0,
        "linear_attn_config": {
            "full_attn_layers": [4, 8],
            "kda_layers": [1, 2, 3, 5, 6, 7],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    }
    model = model_spec(config)
    assert kinds(model) == (["state"] * 3 + ["latent"]) * 2
    state = 6 * (3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4)
    assert calculate(model, SizeRequest(tokens=9)).state_bytes == state


def test_gemma4_global_layers_have_their_own_heads_and_are_not_halved() -> None:
    config = {
        **LLAMA,
        "model_type": "gemma4_text",
        "num_hidden_layers": 6,
        "head_dim": 256,
        "global_head_dim": 512,
        "num_global_key_value_heads": 4,
        "attention_k_eq_v": True,
        "sliding_window": 1024,
    }
    assert bytes_of(config, tokens=1) == 5 * 2 * 8 * 256 * 2 + 2 * 4 * 512 * 2


def test_whisper_keeps_the_encoder_tokens_of_every_layer() -> None:
    config = {
        "model_type": "whisper",
        "is_encoder_decoder": True,
        "num_hidden_layers": 32,
        "decoder_layers": 2,
        "decoder_attention_heads": 20,
        "d_model": 1280,
        "max_source_positions": 1500,
    }
    per_token = 2 * 2 * 20 * 64 * 2
    assert bytes_of(config, tokens=448) == (448 + 1500) * per_token
    assert bytes_of(config, tokens=448, encoder_tokens=10) == (448 + 10) * per_token


def test_sparse_multimodal_config_uses_the_class_defaults_and_says_so() -> None:
    config = {
        "model_type": "gemma3",
        "vision_config": {"num_hidden_layers": 27, "hidden_size": 1152},
        "text_config": {
            "model_type": "gemma3_text",
            "num_hidden_layers": 34,
            "hidden_size": 2560,
            "sliding_window": 1024,
        },
    }
    report = calculate(model_spec(config), SizeRequest(tokens=8192))
    assert report.bytes == (29 * 1024 + 5 * 8192) * 2 * 4 * 256 * 2
    assert "head_dim is not in the config: 256, the default of gemma3_text" in report.assumptions


def test_unknown_architecture_is_computed_with_a_printed_assumption() -> None:
    report = calculate(model_spec({**LLAMA, "model_type": "brand_new"}), SizeRequest())
    assert report.bytes == bytes_of(LLAMA)
    assert "model_type 'brand_new' is not known: computed from its plain fields" in (
        report.assumptions
    )


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "llama"}, "no num_hidden_layers"),
        ({"model_type": "llama", "num_hidden_layers": 2}, "no num_attention_heads"),
        ({**LLAMA, "num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({**LLAMA, "num_hidden_layers": 10**9}, "more than any model has"),
        ({**LLAMA, "num_hidden_layers": -3}, "num_hidden_layers is -3"),
        ({**LLAMA, "num_attention_heads": "32"}, "num_attention_heads is '32'"),
        ({**LLAMA, "num_key_value_heads": 5}, "5 KV heads do not divide 32"),
        ({**LLAMA, "num_attention_heads": 24}, "24 heads do not divide hidden_size 4096"),
        ({**LLAMA, "model_type": "new", "sliding_window": 512}, "sliding_window=512"),
        ({**LLAMA, "model_type": "new", "ssm_state_size": 16}, "ssm_state_size=16"),
        ({**LLAMA, "layer_types": ["strange"] * 8}, "'strange'"),
        ({**LLAMA, "layer_types": ["full_attention"] * 3}, "3 entries for 8 layers"),
        ({**LLAMA, "layer_types": ["linear_attention"] * 8}, "linear-attention layers of 'llama'"),
        ({**LLAMA, "layer_types": ["sliding_attention"] * 8}, "no sliding_window"),
        ({**LLAMA, "model_type": "new", "layer_types": ["indexed_attention"] * 8}, "kv_lora_rank"),
        ({**LLAMA, "model_type": "nemotron_h"}, "hybrid_override"),
    ],
)
def test_what_cannot_be_known_is_refused(config: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError) as refused:
        model_spec(config)
    assert says in refused.value.message


JUNK = (0, -1, 2.5, True, "text", [], [None], [-1], {}, {"a": 1}, {"1": 1}, 10**30)


DISTINCT = {rule: name for name, rule in sorted(FAMILIES.items(), reverse=True)}


@pytest.mark.parametrize("model_type", [*DISTINCT.values(), "brand_new"])
@pytest.mark.parametrize("latent_rank", [512, None])
def test_junk_in_any_field_is_an_error_of_the_user(
    model_type: str, latent_rank: int | None
) -> None:
    """Every field that the family reads, replaced by junk: a result or a `ModelError`."""
    extra, *_ = STATEFUL.get(model_type, ({},))
    whole = {**DEEPSEEK, **LLAMA, **SPECIAL_FIELDS, **extra, "model_type": model_type}
    whole["kv_lora_rank"] = latent_rank
    for name in whole:
        for junk in JUNK:
            try:
                layers = model_spec({**whole, name: junk}).layers
            except ModelError as refused:
                assert refused.message
            else:
                assert isinstance(layers, tuple)
