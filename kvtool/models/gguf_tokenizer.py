"""The tokenizer files that a GGUF file's metadata stands for."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvtool.errors import ModelError

_log = logging.getLogger(__name__)

_FIELDS = {
    "model": "tokenizer_type",
    "pre": "pre_tokenizer_type",
    "tokens": "tokens",
    "scores": "scores",
    "token_type": "token_type",
    "merges": "merges",
    "bos_token_id": "bos_token_id",
    "eos_token_id": "eos_token_id",
    "unknown_token_id": "unk_token_id",
    "padding_token_id": "pad_token_id",
    "add_space_prefix": "add_prefix_space",
}

# llama.cpp's names for byte-level splits, grouped by the rule they stand for. The rules that
# `transformers` knows itself (llama-bpe, qwen2, tekken, …) are not repeated here.
_GPT2 = frozenset({"gpt-2", "mpt", "olmo", "phi-2", "jais", "trillion"})
_SINGLE_DIGITS = frozenset({"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"})


def write_tokenizer(path: Path, metadata: Mapping[str, Any], folder: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and, if there is one, chat_template.jinja."""
    ggml = {k.removeprefix("tokenizer.ggml."): v for k, v in metadata.items()}
    if "tokens" not in ggml:
        raise ModelError(f"{path} carries no tokenizer.")
    _backend(path, str(metadata["general.architecture"]), ggml).save(str(folder / "tokenizer.json"))
    content = json.dumps(_settings(metadata, ggml), indent=2, sort_keys=True, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(content + "\n", "utf-8")
    if template := metadata.get("tokenizer.chat_template"):
        (folder / "chat_template.jinja").write_text(template, "utf-8", newline="")


def _backend(path: Path, architecture: str, ggml: Mapping[str, Any]) -> Any:
    from transformers.integrations.gguf import convert_gguf_tokenizer

    fields = {name: ggml[key] for key, name in _FIELDS.items() if key in ggml}
    try:
        backend, _ = convert_gguf_tokenizer(architecture, fields)
    except (ValueError, KeyError) as error:
        raise ModelError(f"{path}: its tokenizer cannot be converted: {error}.") from error
    if ggml.get("model") == "gpt2":
        _set_split(backend, path, ggml.get("pre"))
    _set_bos(backend, ggml)
    return backend


def _set_split(backend: Any, path: Path, rule: str | None) -> None:
    from tokenizers import pre_tokenizers
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    if rule in GGUF_PRE_TOKENIZER_SPLITS:
        return
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if rule in _SINGLE_DIGITS:
        digits = pre_tokenizers.Digits(individual_digits=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
        return
    backend.pre_tokenizer = byte_level
    if rule not in _GPT2:
        _log.warning(
            "%s: its pre-tokenizer %r is not known; text is split by GPT-2's rule.", path, rule
        )


def _set_bos(backend: Any, ggml: Mapping[str, Any]) -> None:
    """Llama's and Gemma's vocabularies begin a text with BOS unless the file says otherwise."""
    from tokenizers import processors

    bos = ggml.get("bos_token_id")
    steps: list[Any] = []
    if ggml.get("model") == "gpt2":
        steps.append(processors.ByteLevel(trim_offsets=False))
    if bos is not None and ggml.get("add_bos_token", ggml.get("model") == "llama"):
        token = ggml["tokens"][bos]
        steps.append(
            processors.TemplateProcessing(
                single=f"{token} $A", pair=f"{token} $A $B", special_tokens=[(token, bos)]
            )
        )
    backend.post_processor = processors.Sequence(steps)


def _settings(metadata: Mapping[str, Any], ggml: Mapping[str, Any]) -> dict[str, Any]:
    tokens = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    special = {
        f"{name}_token": ggml["tokens"][ggml[f"{key}_token_id"]]
        for key, name in tokens.items()
        if ggml.get(f"{key}_token_id") is not None
    }
    length = metadata[f"{metadata['general.architecture']}.context_length"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": int(length),
        "clean_up_tokenization_spaces": False,
        **special,
    }
