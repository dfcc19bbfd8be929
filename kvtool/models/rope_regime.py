"""How far the rotary frequencies stay the same.

Dynamic NTK and LongRoPE recompute their frequencies from the longest position of a forward. In
a packed batch one request would change the keys of another, and a cached key would depend on
the length it was computed at. Within the original context they are constant, so that is the
context such a model gets here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transformers import PretrainedConfig

DEFAULT_MAX_MODEL_LEN = 4096  # tokens, where a config states no maximum
SHIFTABLE = {"default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional"}


class RopeRegime(NamedTuple):
    """name: part of the cache namespace. reason: what limits max_model_len other than the
    config's maximum, or how it was chosen without one; None: it is the config's."""

    name: str
    max_model_len: int
    reason: str | None


def rope_regime(config: PretrainedConfig) -> RopeRegime:
    """The regime of a decoder config (Transformers' `rope_parameters`, one or one a layer type)."""
    stated = getattr(config, "max_position_embeddings", None)
    maximum = int(stated or DEFAULT_MAX_MODEL_LEN)
    reason = None if stated else f"the config states no maximum context; {maximum} is assumed"
    names = []
    for layer_type, rope in _by_layer_type(getattr(config, "rope_parameters", None)):
        rope_type = str(rope.get("rope_type", "default"))
        constant = _constant_up_to(rope_type, rope, int(stated or maximum))
        if constant is not None:
            rope_type += f"[0,{constant})"
        if constant is not None and constant <= maximum:
            maximum = constant
            reason = (
                f"{rope['rope_type']} RoPE changes its frequencies beyond {constant} tokens, "
                "which would change keys that are already cached"
            )
        names.append(f"{layer_type}={rope_type}" if layer_type else rope_type)
    return RopeRegime("+".join(names) or "none", maximum, reason)


def unshiftable_rope(config: PretrainedConfig) -> str | None:
    """Why keys of this config must not be moved, if its RoPE is not one rotation by position."""
    for _, rope in _by_layer_type(getattr(config, "rope_parameters", None)):
        rope_type = str(rope.get("rope_type", "default"))
        if "mrope_section" in rope:
            return "its RoPE has several position axes (M-RoPE)"
        if rope_type not in SHIFTABLE:
            return f"RoPE type {rope_type!r} is not known to be a rotation by position"
    return None


def length_dependent_rope(config: PretrainedConfig) -> str | None:
    """The RoPE type of a config whose frequencies follow the longest position of a forward."""
    for _, rope in _by_layer_type(getattr(config, "rope_parameters", None)):
        rope_type = str(rope.get("rope_type", "default"))
        if _constant_up_to(rope_type, rope, 0) is not None:
            return rope_type
    return None


def _by_layer_type(
    parameters: Mapping[str, Any] | None,
) -> Iterable[tuple[str, Mapping[str, Any]]]:
    if not parameters:
        return ()
    nested = {key: value for key, value in parameters.items() if isinstance(value, Mapping)}
    return sorted(nested.items()) if nested else (("", parameters),)


def _constant_up_to(rope_type: str, rope: Mapping[str, Any], maximum: int) -> int | None:
    """Tokens for which the frequencies are constant; None: for all."""
    if "dynamic" in rope_type:
        return maximum
    if rope_type == "longrope":
        return int(rope.get("original_max_position_embeddings") or maximum)
    return None
