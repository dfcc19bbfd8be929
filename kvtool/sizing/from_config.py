"""A config.json becomes a ModelSpec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvtool.errors import ModelError
from kvtool.sizing import class_defaults, unknown
from kvtool.sizing.families import FAMILIES
from kvtool.sizing.fields import MAX_LAYERS, Fields
from kvtool.sizing.layers import FULL, LATENT, LayerCache
from kvtool.sizing.model_spec import ModelSpec
from kvtool.sizing.special import Built

DRAFT_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers")


def model_spec(
    config: Mapping[str, Any], name: str = "config.json", weight_bytes: int | None = None
) -> ModelSpec:
    """Raises `ModelError` where a field that matters is missing or means something unknown."""
    fields = Fields(config)
    try:
        class_defaults.fill(fields)
        main = FAMILIES.get(fields.model_type or "", unknown.layers_of)(fields)
        draft = _draft_layers(fields, main)
    except (TypeError, ValueError, KeyError, AttributeError) as error:  # a list where a dict …
        raise ModelError(f"A field of {name} has an unexpected form: {error}.") from error
    return ModelSpec(
        name=name,
        model_type=fields.model_type,
        layers=main + draft,
        max_model_len=fields.max_model_len,
        weight_bytes=weight_bytes,
        assumptions=tuple(fields.assumptions),
    )


def _draft_layers(fields: Fields, main: Built) -> Built:
    """Multi-token-prediction layers (DeepSeek-V3) keep what the last full layer keeps."""
    number = fields.at_least_zero(*DRAFT_LAYERS)
    modules = fields.at_least_zero("num_mtp_modules")
    number += modules * fields.count("mtp_transformer_layers", default=1)
    whole = [c for caches in main for c in caches if c.kind in (FULL, LATENT)]
    if not number or not whole:
        return ()
    if number > MAX_LAYERS:
        raise ModelError(f"{number} draft layers are more than any model has ({MAX_LAYERS}).")
    draft: LayerCache = replace(whole[-1], draft=True)
    return ((draft,),) * number
