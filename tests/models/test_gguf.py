"""GGUF files become Hugging Face folders that compute the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from model_files import tiny_model, write_gguf

from kvtool.errors import ModelError
from kvtool.models.checkpoint import read_header
from kvtool.models.digest import models_dir
from kvtool.models.gguf import converted
from kvtool.models.load import load_model
from kvtool.models.tokenizer import load_tokenizer

pytestmark = pytest.mark.usefixtures("own_cache")

RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
EXPERT_KEYS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 16}
CAPPED = {"attn_logit_softcapping": 3.0, "final_logit_softcapping": 4.0}

# architecture → (model type, what the config sets, what the file says)
FAMILIES = {
    "llama": ("llama", {"rms_norm_eps": 1e-5}, {**RMS, "rope.dimension_count": 8}),
    "llama-untied": ("llama", {"rms_norm_eps": 1e-5, "tie_word_embeddings": False}, RMS),
    "llama-linear": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5}},
        {
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.freq_base": 5e5,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 4.0,
        },
    ),
    "llama-yarn": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "factor": 4.0,
                "rope_theta": 1e4,
                "original_max_position_embeddings": 64,
            }
        },
        {
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 4.0,
            "rope.scaling.original_context_length": 64,
        },
    ),
    "qwen2": ("qwen2", {"rms_norm_eps": 1e-5}, RMS),
    "qwen3": ("qwen3", {"rms_norm_eps": 1e-5, "head_dim": 16}, {**RMS, "attention.key_length": 16}),
    "qwen2moe": (
        "qwen2_moe",
        {"rms_norm_eps": 1e-5, "shared_expert_intermediate_size": 24, **EXPERTS},
        {**RMS, **EXPERT_KEYS, "expert_shared_feed_forward_length": 24},
    ),
    "qwen3moe": (
        "qwen3_moe",
        {"rms_norm_eps": 1e-5, "head_dim": 16, "norm_topk_prob": True, **EXPERTS},
        {**RMS, **EXPERT_KEYS, "attention.key_length": 16},
    ),
    "phi3": ("phi3", {"rms_norm_eps": 1e-5}, RMS),
    "phi3-partial": (
        "phi3",
        {
            "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.5,
            },
        },
        {**RMS, "rope.dimension_count": 4},
    ),
    "gemma2": (
        "gemma2",
        {
            "rms_norm_eps": 1e-5,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 8,
            **CAPPED,
        },
        {**RMS, **CAPPED, "attention.key_length": 16, "attention.sliding_window": 8},
    ),
    "gemma3": (
        "gemma3_text",
        {
            "rms_norm_eps": 1e-5,
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 8,
            "num_hidden_layers": 7,
        },
        {**RMS, "attention.key_length": 16, "attention.sliding_window": 8, "rope.freq_base": 1e6},
    ),
    "starcoder2": ("starcoder2", {"norm_epsilon": 1e-5}, {"attention.layer_norm_epsilon": 1e-5}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_the_model_that_was_written(family, tmp_path):
    model_type, options, metadata = FAMILIES[family]
    model = tiny_model(model_type, **options)
    path = write_gguf(tmp_path / "m.gguf", model, family.partition("-")[0], metadata)
    loaded = load_model(str(path), device="cpu", dtype="float32")
    ids = torch.arange(20)[None] * 7 % 300
    with torch.inference_mode():
        expected, actual = model(ids).logits, loaded.model(ids).logits
    assert torch.equal(actual, expected)


def test_llama3_scaling_is_recovered_from_its_frequencies(tmp_path):
    rope = {
        "rope_type": "llama3",
        "rope_theta": 5e5,
        "factor": 32.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    model = tiny_model(rms_norm_eps=1e-5, rope_parameters=rope)
    rotary = model.model.rotary_emb
    plain = 1 / 5e5 ** (torch.arange(4) / 4)
    stretch = (plain / rotary.inv_freq).numpy()
    assert 1 < stretch[2] < 32  # all three branches of the rule are in the test
    path = write_gguf(
        tmp_path / "m.gguf",
        model,
        "llama",
        {**RMS, "rope.freq_base": 5e5},
        extra={"rope_freqs.weight": stretch},
    )
    loaded = load_model(str(path), device="cpu", dtype="float32")
    torch.testing.assert_close(loaded.model.model.rotary_emb.inv_freq, rotary.inv_freq)


def test_unknown_frequencies_are_refused(tmp_path):
    path = write_gguf(
        tmp_path / "m.gguf",
        tiny_model(),
        "llama",
        RMS,
        extra={"rope_freqs.weight": np.array([1, 2, 3, 9], np.float32)},
    )
    with pytest.raises(ModelError, match="unknown rule"):
        converted(path)


@pytest.mark.parametrize(
    ("metadata", "extra", "reason"),
    [
        ({"rope.scaling.type": "longrope"}, {}, "scales its positions by 'longrope'"),
        ({"rope.dimension_count": 4}, {}, "rotates 4 of 8 dimensions"),
        ({"expert_count": 8}, {}, "does not support llama files with experts"),
        ({}, {"blk.0.attn_sinks.weight": np.zeros(4, np.float32)}, "blk.0.attn_sinks.weight"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(metadata, extra, reason, tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS | metadata, extra=extra)
    with pytest.raises(ModelError, match=reason):
        converted(path)


def test_a_missing_tensor_is_named(tmp_path):
    model = tiny_model(num_hidden_layers=1)
    path = write_gguf(tmp_path / "m.gguf", model, "llama", RMS | {"block_count": 2})
    with pytest.raises(ModelError, match=r"lacks 9 parameters .* model\.layers\.1\."):
        converted(path)


def test_unsupported_architecture(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "baichuan", RMS)
    with pytest.raises(ModelError, match="'baichuan'; GGUF conversion supports: llama, qwen2"):
        converted(path)


@pytest.mark.parametrize("keep", [4, 30, 500, 3000, -5000, -1])
def test_truncated_files_are_refused_and_leave_nothing(keep, tmp_path):
    whole = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS).read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[:keep])
    with pytest.raises(ModelError, match="is damaged or cut short") as caught:
        converted(path)
    assert "\n" not in caught.value.message
    assert not [p for p in models_dir().iterdir() if p.is_dir()]


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 something else"])
def test_not_a_gguf_file(content, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="is not a GGUF file"):
        converted(path)


def test_converted_once_by_many_and_leftovers_are_cleared(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS)
    models_dir().mkdir(parents=True)
    leftover = models_dir() / f"{'0' * 64}.part"
    leftover.mkdir()
    (leftover / "model.safetensors").write_bytes(b"half")
    lines: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: converted(path, lines.append), range(4)))
    assert len(set(results)) == 1
    waiting = "Waiting for another process, which converts a model"
    (line,) = [line for line in lines if line != waiting]
    assert line.startswith("Converting m.gguf (once) to ")
    assert not leftover.exists()
    names = {p.name for p in models_dir().iterdir()}
    assert names == {results[0].path.name, "conversion.lock", "digests.json"}
    assert {file.stat().st_mode & 0o777 for file in results[0].path.iterdir()} == {0o644}


def test_a_folder_of_an_older_converter_is_replaced(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS)
    folder = converted(path).path
    (folder / "kvtool.json").write_text('{"converter": 0}')
    (folder / "stale").touch()
    assert converted(path).path == folder
    assert not (folder / "stale").exists()


def test_settings_of_the_file_are_carried_over(tmp_path):
    metadata = RMS | {"attention.layer_norm_rms_epsilon": 3e-5, "rope.freq_base": 12345.0}
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", metadata, eot=0)
    loaded = load_model(str(path), device="cpu", dtype="float32")
    config = loaded.model.config
    assert config.rms_norm_eps == pytest.approx(3e-5)
    assert config.rope_parameters["rope_theta"] == 12345.0
    assert config.max_position_embeddings == 256
    assert loaded.eos_ids == {0, 2}
    assert loaded.tokenizer.has_chat_template
    assert loaded.tokenizer.render([{"role": "user", "content": "x"}]).startswith(
        "<|im_start|>user"
    )


@pytest.mark.parametrize(
    ("flags", "bos"), [({}, [1]), ({"add_bos_token": True}, [1]), ({"add_bos_token": False}, [])]
)
def test_sentencepiece_tokenizer(flags, bos, tmp_path):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS, sentencepiece=flags)
    tokenizer = load_tokenizer(converted(path).path)
    assert tokenizer.encode("ab c") == [*bos, 287, 259, 262]
    assert tokenizer.encode("é", add_special_tokens=False) == [259, 3 + 0xC3, 3 + 0xA9]
    assert tokenizer.decode(tokenizer.encode("ab cé"), skip_special_tokens=True) == "ab cé"
    assert not tokenizer.has_chat_template


@pytest.mark.parametrize(
    ("rule", "warned"), [("smollm", False), ("qwen2", False), ("gpt-2", False), ("klingon", True)]
)
def test_an_unknown_split_rule_is_said(rule, warned, tmp_path, caplog):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS, split=rule)
    converted(path)
    assert ("pre-tokenizer 'klingon' is not known" in caplog.text) is warned


def test_settings_that_are_not_used_are_said(tmp_path, caplog):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS | {"attention.scale": 0.5})
    converted(path)
    assert "not carried over: attention.scale" in caplog.text


def test_a_conversion_prints_nothing(tmp_path, capfd):
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS)
    capfd.readouterr()
    converted(path)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("kind", "stored"), [("Q8_0", "BF16"), ("BF16", "BF16"), ("F16", "F16"), ("F32", "F32")]
)
def test_type_of_the_converted_weights(kind, stored, tmp_path):
    quantize = {"ffn_up": kind}
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS, quantize=quantize)
    header = read_header(converted(path).path / "model.safetensors")
    assert {tensor["dtype"] for tensor in header.values()} == {stored}


def test_a_quantisation_without_a_reader_is_named(tmp_path):
    quantize = {"blk.0.ffn_up": "Q8_1"}
    path = write_gguf(tmp_path / "m.gguf", tiny_model(), "llama", RMS, quantize=quantize)
    with pytest.raises(ModelError, match=r"holds blk\.0\.ffn_up\.weight as Q8_1"):
        converted(path)
