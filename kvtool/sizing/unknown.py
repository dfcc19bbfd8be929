"""A model_type no table has: computed from its plain fields and said so, or refused."""

from __future__ import annotations

import re

from kvtool.errors import ModelError
from kvtool.sizing import kinds, special
from kvtool.sizing.blocks import by_kind
from kvtool.sizing.fields import Fields
from kvtool.sizing.special import Built

# Fields that say "not every layer caches all tokens" in a way only its own family explains.
_TELLING = re.compile(
    r"window|chunk_size$|ssm|mamba|(^|_)conv|recurrent|^linear_|hybrid|compress|^index|kv_shared"
    r"|use_cla|lru_|rwkv|attn_type|attn_layer|layers_block|cross_attention|per_layer|layer_pattern"
)


def layers_of(fields: Fields) -> Built:
    name = repr(fields.model_type) if fields.model_type else "(none given)"
    if fields.get("is_encoder_decoder") is True and fields.get("decoder_layers") is not None:
        fields.assume(f"model_type {name} is not known: computed as an encoder-decoder")
        return special.encoder_decoder(fields)
    listed = kinds.listed(fields)
    if listed is None:
        _refuse_telling_fields(fields, name)
    fields.assume(f"model_type {name} is not known: computed from its plain fields")
    return by_kind(fields, listed or kinds.all_full(fields))


def _refuse_telling_fields(fields: Fields, name: str) -> None:
    windowless = fields.get("use_sliding_window") is False or (
        fields.get("sliding_window") is None and "sliding_window" in fields.values
    )
    for field, value in fields.values.items():
        ignored = windowless and "window" in field
        if value and not ignored and _TELLING.search(field):
            raise ModelError(
                f"model_type {name} is not known and its field {field}={value!r} changes what is cached.",
                hint="add layer_types to the config, or give the numbers: kvtool size-calc --layers L …",
            )
