"""The size formula with the model's numbers in it."""

from __future__ import annotations

from collections.abc import Iterable

from kvtool.sizing.formats import KVFormat
from kvtool.sizing.layers import CHUNKED, CROSS, LATENT, KVCacheSpec, LayerCache
from kvtool.sizing.lengths import batch_tokens, kept_tokens
from kvtool.sizing.sequence_bytes import Load, formula_bytes


def formula(specs: Iterable[KVCacheSpec], fmt: KVFormat, load: Load) -> str:
    """`2 · 32 layers · 4096 tokens · 8 KV heads · 128 head_dim · 2 B = 536,870,912 B`."""
    sized = [(s, formula_bytes(s, fmt, load)) for s in specs if s.cache.num_kv_heads]
    terms = [term(s, fmt, load) for s, _ in sized] or ["0"]
    return f"{' + '.join(terms)} = {sum(size for _, size in sized):,} B"


def term(spec: KVCacheSpec, fmt: KVFormat, load: Load) -> str:
    cache = spec.cache
    doubled = "2 · " if cache.k_dim == cache.v_dim else ""
    heads = "" if cache.kind == LATENT else f" · {cache.num_kv_heads} KV heads"
    return (
        f"{doubled}{len(spec.layers)} layers · {_tokens(cache, load)}{heads} · {_row(cache, fmt)}"
    )


def _tokens(cache: LayerCache, load: Load) -> str:
    kept = kept_tokens(cache, load.tokens)
    name = _name(cache) if kept != load.tokens or cache.kind == CROSS else "tokens"
    stored = batch_tokens(cache, load.tokens, load.batch, load.shared)
    if stored == kept:
        return f"{kept} {name}"
    if stored == load.batch * kept:
        return f"{load.batch} sequences · {kept} {name}"
    once = (load.batch * kept - stored) // (load.batch - 1)
    return f"({once} shared + {load.batch} sequences · {kept - once}) {name}"


def _name(cache: LayerCache) -> str:
    """What a number of tokens is that differs from the sequence's length."""
    return {CROSS: "encoder tokens", CHUNKED: "chunk tokens"}.get(cache.kind, "window tokens")


def _row(cache: LayerCache, fmt: KVFormat) -> str:
    width = f"{fmt.bits / 8:g} B"
    if fmt.rope_bits is not None:
        rope = cache.k_dim - cache.latent_dim
        return f"({cache.latent_dim} latent · {width} + {rope} rope · {fmt.rope_bits / 8:g} B)"
    if cache.kind == LATENT:
        return f"({cache.latent_dim} latent + {cache.k_dim - cache.latent_dim} rope) · {width}"
    if cache.k_dim == cache.v_dim:
        return f"{cache.k_dim} head_dim · {width}"
    return f"({cache.k_dim} K + {cache.v_dim} V) · {width}"
