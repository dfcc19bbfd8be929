"""A model's config as Transformers reads it, checked before anything is built by it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from kvtool.errors import ModelError
from kvtool.models.source import ModelSource

if TYPE_CHECKING:
    from transformers import PretrainedConfig

_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
)
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
# Parameters described for each that is stored. A tied or absent head makes two of them at most,
# and what is missing by less is named by the loader.
_ROOM = 2


def read_config(source: ModelSource) -> PretrainedConfig:
    """Raises `ModelError` that names the field, or says that the weights are of another size."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    try:
        config = AutoConfig.from_pretrained(
            source.path, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:
        raise ModelError(f"{_file(source)} is not usable: {reason(error)}") from error
    _check_fields(source, config)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(
            f"{source.name} is of type {config.model_type!r}, which is not a causal language model."
        )
    _check_sizes(source, config)
    return config


def reason(error: BaseException) -> str:
    """What a library said, on one line; some of its messages begin with a mere heading."""
    text = " ".join(str(error).split()) or "no reason given"
    known = isinstance(error, ValueError | OSError | RuntimeError)
    return f"{text:.400}" if known else f"{type(error).__name__}: {text:.400}"


def _check_fields(source: ModelSource, config: PretrainedConfig) -> None:
    from transformers.activations import ACT2FN

    for field in _SIZES:
        value = getattr(config, field, None)
        if isinstance(value, int | float) and not value >= 1:
            raise ModelError(f"{_file(source)}: {field} is {value}; it must be at least 1.")
    for field in _ACTIVATIONS:
        value = getattr(config, field, None)
        if isinstance(value, str) and value not in ACT2FN:
            raise ModelError(f"{_file(source)}: {field} is {value!r}; allowed: {', '.join(ACT2FN)}")


def _check_sizes(source: ModelSource, config: PretrainedConfig) -> None:
    """A config of absurd sizes is refused before its layers are built or memory is asked for."""
    shapes = source.checkpoint.shapes
    layers = getattr(config, "num_hidden_layers", 0)
    if isinstance(layers, int) and layers > len(shapes):
        raise _other_weights(source, f"{layers} layers", f"{len(shapes)} tensors")
    if _sizes_occur(source, config) or getattr(config, "quantization_config", None):
        return
    stored = sum(map(math.prod, shapes.values()))
    described = _num_parameters(source, config)
    if described > _ROOM * stored:
        raise _other_weights(source, f"{described:.2e} parameters", f"{stored:.2e}")


def _sizes_occur(source: ModelSource, config: PretrainedConfig) -> bool:
    """Whether the main sizes are those of tensors; false also where that cannot be told so."""
    if any(getattr(config, field, None) for field in _EXPERTS):
        return False
    heads = getattr(config, "num_attention_heads", None) or 1
    head_dim = getattr(config, "head_dim", None)
    sizes = [getattr(config, name, None) for name in ("vocab_size", "hidden_size")]
    sizes += [getattr(config, "intermediate_size", None), head_dim and heads * head_dim]
    occurring = {size for shape in source.checkpoint.shapes.values() for size in shape}
    return {size for size in sizes if size is not None} <= occurring


def _num_parameters(source: ModelSource, config: PretrainedConfig) -> int:
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except Exception as error:
        raise ModelError(f"{source.name} cannot be built: {reason(error)}") from error
    return sum(parameter.numel() for parameter in model.parameters())


def _other_weights(source: ModelSource, described: str, stored: str) -> ModelError:
    return ModelError(
        f"{_file(source)} describes {described}, but the weights hold {stored}.",
        hint="config.json and the weights do not belong together, or one of them is damaged.",
    )


def _file(source: ModelSource) -> str:
    return str(source.path / "config.json")
