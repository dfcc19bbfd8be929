"""Tiny models as folders and GGUF files, made on the spot: no downloads, kilobytes each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXT = ["the quick brown fox jumps over the lazy dog", "user assistant system im_end 0123456789"]

TINY = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}


def tiny_model(model_type: str = "llama", **options: Any) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **{**TINY, **options})
    model = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:  # norms and biases are constants otherwise
                parameter.add_(torch.randn_like(parameter) * 0.1)
            assert name
    return model


def byte_level(chat_template: str | None = CHATML) -> PreTrainedTokenizerFast:
    fast = Tokenizer(models.BPE())
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    fast.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=TINY["vocab_size"],
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    fast.train_from_iterator(TEXT, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=fast, bos_token=SPECIAL[1], eos_token=SPECIAL[2], pad_token=SPECIAL[2]
    )
    tokenizer.chat_template = chat_template
    return tokenizer


def save_folder(folder: Path, model: Any = None, tokenizer: Any = None, **options: Any) -> Path:
    (tiny_model() if model is None else model).save_pretrained(folder, **options)
    (byte_level() if tokenizer is None else tokenizer).save_pretrained(folder)
    return folder


def write_gguf(
    path: Path,
    model: Any,
    architecture: str,
    metadata: dict[str, Any],
    *,
    extra: dict[str, np.ndarray] | None = None,
    eot: int | None = None,
    quantize: dict[str, str] | None = None,
    split: str = "smollm",
    sentencepiece: dict[str, bool] | None = None,
) -> Path:
    """`model` as llama.cpp's converter would write it, in float32, with a byte-level tokenizer.

    metadata: the keys of the architecture beyond the sizes, without their prefix. extra: tensors
    that the model does not have. quantize: part of a tensor's name to its type. eot: id of the token that ends a turn. split: rule of the
    byte-level tokenizer. sentencepiece: flags of one of Llama's kind, in its place.
    """
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (_sizes(config) | metadata).items():
        _add(writer, f"{architecture}.{key}", value)
    if sentencepiece is None:
        _add_byte_level(writer, split)
    else:
        _add_sentencepiece(writer, sentencepiece)
    if eot is not None:
        writer.add_eot_token_id(eot)
    kind = next(k for k, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for gguf_name, data in _llama_cpp(architecture, config, names, name, tensor.numpy()):
            kinds = [kind for part, kind in (quantize or {}).items() if part in gguf_name]
            _add_tensor(writer, gguf_name, data, kinds[0] if kinds else "F32")
    for name, data in (extra or {}).items():
        writer.add_tensor(name, np.ascontiguousarray(data, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tensor(writer: gguf.GGUFWriter, name: str, data: np.ndarray, kind: str) -> None:
    kind = gguf.GGMLQuantizationType[kind]
    try:
        blocks = gguf.quants.quantize(np.ascontiguousarray(data), kind)
    except NotImplementedError:  # as many bytes as blocks of this type have
        blocks = np.zeros(gguf.quant_shape_to_byte_shape(data.shape, kind), np.uint8)
    writer.add_tensor(name, blocks, raw_dtype=kind)


def _sizes(config: Any) -> dict[str, Any]:
    return {
        "context_length": config.max_position_embeddings,
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
    }


def _add(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_string(key, value)


def _add_sentencepiece(writer: gguf.GGUFWriter, flags: dict[str, bool]) -> None:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁"]
    kinds = [2, 3, 3, *[6] * 256, 1]
    tokens += [*"abcdefghijklmnopqrstuvwxyz", "▁a", "▁ab"]
    tokens += [f"<pad{i}>" for i in range(TINY["vocab_size"] - len(tokens))]
    kinds += [1] * (len(tokens) - len(kinds))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(i) for i in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    for key, value in flags.items():
        writer.add_bool(f"tokenizer.ggml.{key}", value)


def _add_byte_level(writer: gguf.GGUFWriter, split: str) -> None:
    tokenizer = byte_level()
    vocab = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list([token for token, _ in vocab])
    writer.add_token_types([3 if token in SPECIAL else 1 for token, _ in vocab])
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_chat_template(CHATML)


def _llama_cpp(architecture: str, config: Any, names: Any, name: str, data: np.ndarray) -> Any:
    """Name and layout of one tensor in the file; merged experts become two tensors."""
    base, dot, suffix = name.rpartition(".")
    if suffix not in ("weight", "bias"):
        base, dot, suffix = name, ".", "weight"
    if base.endswith("gate_up_proj") and data.ndim == 3:
        layer = base.split(".")[2]
        for part, half in zip(("gate", "up"), np.split(data, 2, axis=1)):
            yield f"blk.{layer}.ffn_{part}_exps.weight", half
        return
    if architecture == "llama" and base.endswith(("q_proj", "k_proj")):
        heads = config.num_attention_heads
        if base.endswith("k_proj"):
            heads = config.num_key_value_heads
        data = data.reshape(heads, 2, data.shape[0] // heads // 2, *data.shape[1:])
        data = data.swapaxes(1, 2).reshape(-1, *data.shape[3:])
    if architecture.startswith("gemma") and base.endswith("norm"):
        data = data + 1
    if base.endswith("shared_expert_gate"):
        data = data[0]
    yield names.get_name(base) + dot + suffix, data
