"""The layer groups of a model that is not loaded: a tracing forward without weights."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import torch

from kvtool.cache.group import GroupSpec
from kvtool.errors import ModelError
from kvtool.models.attention_layer import Unsupported, group_layers
from kvtool.models.attention_switch import AttentionSwitch
from kvtool.models.capture import trace_layers
from kvtool.models.contract import cache_argument
from kvtool.models.model_config import reason
from kvtool.models.quiet import quiet

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel


def groups_of_config(config: PretrainedConfig, dtype: torch.dtype) -> tuple[GroupSpec, ...]:
    """What `PagedModel.groups` will be. Raises `ModelError` where shapes alone do not tell."""
    try:
        with quiet():
            model = _model_without_weights(config, dtype)
            switch = AttentionSwitch(model)
            traces = trace_layers(model, switch, cache_argument(model), (1, 2), (0, 1))
        return group_layers(tuple(trace.spec for trace in traces))
    except Unsupported as why:
        raise ModelError(f"{config.model_type} cannot run on paged KV: {why}.") from why
    except Exception as error:  # model code, driven in a way its authors may not foresee
        raise ModelError(
            f"The KV layers of {config.model_type} cannot be told without its weights: {reason(error)}"
        ) from error


def _model_without_weights(config: PretrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            _traceable(config),
            dtype=dtype,
            attn_implementation="eager",
            experts_implementation="batched_mm",  # the others look at numbers or at the device
        )
    return model.eval()


def _traceable(config: PretrainedConfig) -> PretrainedConfig:
    """Dynamic RoPE looks at the positions' values; of the keys only the shape is wanted."""
    copied = copy.deepcopy(config)
    parameters: dict[str, Any] = getattr(copied, "rope_parameters", None) or {}
    for rope in (parameters, *parameters.values()):
        if isinstance(rope, dict) and rope.get("rope_type") == "dynamic":
            rope["rope_type"] = "default"
    return copied
