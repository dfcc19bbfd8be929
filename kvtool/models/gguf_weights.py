"""The parameters of a model from the tensors of a GGUF file.

They become bfloat16 where the file holds quantised blocks; a file of plain floats keeps its own
type. Layouts follow the tables of `transformers`, names those of `gguf`; a tensor or a parameter
that they do not account for is an error, never dropped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from kvtool.errors import ModelError


def model_weights(
    path: Path, architecture: str, tensors: Sequence[Any], config: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """Parameter name to tensor, everything in one type; raises `ModelError`."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=dict(config))
    names = _parameter_names(model, architecture, processor)
    dtype = _storage_dtype(tensors)
    weights: dict[str, torch.Tensor] = {}
    for tensor in tensors:
        if tensor.name == "rope_freqs.weight":
            continue  # became `rope_parameters` in the config
        result = processor.process(
            weights=_dequantized(path, tensor),
            name=tensor.name,
            tensor_key_mapping=names,
            parsed_parameters={"tensors": weights},
        )
        if result.name is None:
            continue  # the processor stored it itself: experts are merged into one tensor
        if result.name not in names:
            raise ModelError(f"{path} holds a tensor that {architecture} lacks: {result.name}.")
        weights[names[result.name]] = torch.from_numpy(result.weights.copy()).to(dtype)
    _check_complete(path, model, weights)
    return {name: weight.to(dtype).contiguous() for name, weight in weights.items()}


def _parameter_names(model: Any, architecture: str, processor: Any) -> dict[str, str]:
    """The name of each tensor in the file to the name of the parameter it fills."""
    from gguf import MODEL_ARCH_NAMES, get_tensor_name_map

    kind = next(kind for kind, name in MODEL_ARCH_NAMES.items() if name == architecture)
    stems = get_tensor_name_map(kind, model.config.num_hidden_layers)
    names: dict[str, str] = {}
    for parameter in model.state_dict():
        base, dot, last = parameter.rpartition(".")
        stem, suffix = (base, dot + last) if last in ("weight", "bias") else (parameter, "")
        if (name := stems.get_name(stem)) is not None:
            names[name + suffix] = parameter
        else:  # two tensors of the file are one parameter
            processor.perform_fallback_tensor_mapping(names, suffix, "", parameter)
    return names


def _dequantized(path: Path, tensor: Any) -> Any:
    from gguf import dequantize

    try:
        return dequantize(tensor.data, tensor.tensor_type)
    except NotImplementedError:
        raise ModelError(
            f"{path} holds {tensor.name} as {tensor.tensor_type.name}, which is not supported.",
            hint="Use a file with another quantisation, for example Q4_K_M or Q8_0.",
        ) from None


def _storage_dtype(tensors: Sequence[Any]) -> torch.dtype:
    kinds = {tensor.tensor_type.name for tensor in tensors}
    if kinds == {"F32"}:
        return torch.float32
    return torch.float16 if kinds <= {"F32", "F16"} else torch.bfloat16


def _check_complete(path: Path, model: Any, weights: Mapping[str, torch.Tensor]) -> None:
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    if missing := sorted(model.state_dict().keys() - weights.keys() - tied):
        raise ModelError(
            f"{path} lacks {len(missing)} parameters of its architecture, first {missing[0]}."
        )
