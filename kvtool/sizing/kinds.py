"""Which layers attend fully, which through a window, which keep a state: one name a layer.

The names are those of `layer_types` in a config. A config that has the list is taken at its word;
the functions here are the families' rules for configs that do not.
"""

from __future__ import annotations

from collections.abc import Callable

from kvtool.errors import ModelError
from kvtool.sizing.fields import Fields

Rule = Callable[[Fields], list[str]]

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, CONV, INDEXED, NOTHING = "linear_attention", "conv", "indexed_attention", "mlp"
OLD_NAMES = {
    "attention": FULL,
    "global": FULL,
    "local": SLIDING,
    "mamba": LINEAR,
    "recurrent": LINEAR,
    "deepseek_sparse_attention": INDEXED,
    "moe": NOTHING,
}
KNOWN = {FULL, SLIDING, CHUNKED, LINEAR, CONV, INDEXED, NOTHING, "hybrid"}


def listed(fields: Fields) -> list[str] | None:
    """`layer_types` of the config in today's names; anything unknown is an error."""
    names = fields.get("layer_types", "layers_block_type")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ModelError(f"layer_types is {names!r}; it must be a list of names.")
    kinds = [OLD_NAMES.get(str(n), str(n)) for n in names]
    unknown = sorted(set(kinds) - KNOWN)
    if unknown:
        raise ModelError(f"layer_types has {unknown[0]!r}; known: {', '.join(sorted(KNOWN))}.")
    if len(kinds) < fields.num_layers:
        raise ModelError(f"layer_types has {len(kinds)} entries for {fields.num_layers} layers.")
    return kinds[: fields.num_layers]


def all_full(fields: Fields) -> list[str]:
    return [FULL] * fields.num_layers


def all_sliding(fields: Fields) -> list[str]:
    """Mistral's rule: every layer slides if there is a window at all."""
    return [FULL if fields.get("sliding_window") is None else SLIDING] * fields.num_layers


def full_every(interval: int, num_layers: int, other: str = SLIDING) -> list[str]:
    """`interval - 1` layers of `other`, then a full one, and again."""
    return [other if (i + 1) % interval else FULL for i in range(num_layers)]


def repeat(unit: list[str], num_layers: int) -> list[str]:
    return (unit * (num_layers // len(unit) + 1))[:num_layers]


def interleaved(default: int, *names: str, other: str = SLIDING) -> Rule:
    """The rule `(i + 1) % n == 0 is full`, with n from the first of `names` or `default`."""

    def rule(fields: Fields) -> list[str]:
        interval = fields.count(*names, default=default) if names else default
        return full_every(interval, fields.num_layers, other)

    return rule


def qwen_windows(fields: Fields) -> list[str]:
    """`sliding_window` counts only with `use_sliding_window`, from layer max_window_layers on."""
    if fields.get("use_sliding_window") is not True or fields.get("sliding_window") is None:
        return all_full(fields)
    first = fields.get("max_window_layers")
    if not isinstance(first, int):
        raise ModelError("use_sliding_window is true but max_window_layers is missing.")
    return [SLIDING if i >= first else FULL for i in range(fields.num_layers)]


def exaone_windows(fields: Fields) -> list[str]:
    if fields.get("sliding_window") is None:
        return all_full(fields)
    pattern = fields.get("sliding_window_pattern") or 4
    if isinstance(pattern, int):
        return full_every(pattern, fields.num_layers)
    return repeat([_LETTERS[c] for c in pattern], fields.num_layers)


_LETTERS = {"L": SLIDING, "G": FULL}


def llama4_chunks(fields: Fields) -> list[str]:
    """Layers with rotary embedding see one chunk, the others (every fourth) everything."""
    if fields.get("attention_chunk_size") is None:
        return all_full(fields)
    rope_layers = fields.get("no_rope_layers")  # 1 = with rotary embedding
    if not rope_layers:
        interval = fields.count("no_rope_layer_interval", default=4)
        return full_every(interval, fields.num_layers, CHUNKED)
    return [CHUNKED if uses_rope else FULL for uses_rope in rope_layers]


def gpt_neo_windows(fields: Fields) -> list[str]:
    unit = fields.get("attention_types") or [[["global", "local"], fields.num_layers // 2]]
    return [OLD_NAMES[kind] for kinds, times in unit for kind in kinds * times]


def mimo_windows(fields: Fields) -> list[str]:
    """MiMo-V2: full in the first and every sixth layer, unless hybrid_layer_pattern has a 1."""
    if fields.get("hybrid_layer_pattern") is not None:
        return [SLIDING if flag else FULL for flag in fields.numbers("hybrid_layer_pattern")]
    return [FULL, *full_every(6, fields.num_layers)[1:]]


def jamba_layers(fields: Fields) -> list[str]:
    period, offset = fields.count("attn_layer_period"), fields.at_least_zero("attn_layer_offset")
    return [FULL if i % period == offset else LINEAR for i in range(fields.num_layers)]


def attention_at(name: str, other: str, first: int = 0) -> Rule:
    """Full attention in the layers that field `name` lists, counted from `first`."""

    def rule(fields: Fields) -> list[str]:
        full = set(fields.numbers(name))
        return [FULL if i + first in full else other for i in range(fields.num_layers)]

    return rule


def nemotron_layers(fields: Fields) -> list[str]:
    """`hybrid_override_pattern`: M Mamba-2, * attention, - and E feed-forward."""
    pattern = fields.get("hybrid_override_pattern")
    letters = {"M": LINEAR, "*": FULL, "-": NOTHING, "E": NOTHING}
    if not isinstance(pattern, str) or set(pattern) - set(letters):
        raise ModelError(f"hybrid_override_pattern is {pattern!r}; letters known: M * - E.")
    return [letters[c] for c in pattern]


def minimax_layers(fields: Fields) -> list[str]:
    """`attn_type_list`: 1 is softmax attention, 0 lightning attention."""
    types = fields.get("attn_type_list")
    if types is None:
        return repeat([FULL, LINEAR], fields.num_layers)
    return [FULL if t == 1 else LINEAR for t in fields.numbers("attn_type_list")]


def griffin_layers(fields: Fields) -> list[str]:
    """RecurrentGemma: its attention blocks always have a window."""
    blocks = fields.get("block_types") or ["recurrent", "recurrent", "attention"]
    unit = [SLIDING if b == "attention" else LINEAR for b in blocks]
    return repeat(unit, fields.num_layers)
