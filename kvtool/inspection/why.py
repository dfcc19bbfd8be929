"""Why a prompt hits or misses: every token of it, in spans that tile the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.cache.namespace import Namespace
from kvtool.config import EngineConfig
from kvtool.inspection.elsewhere import Elsewhere, closest_elsewhere
from kvtool.inspection.first_difference import Decode
from kvtool.inspection.misses import missed_spans
from kvtool.inspection.moved import Piece, moved_pieces, with_moved
from kvtool.inspection.namespaces import visible_fields
from kvtool.inspection.overview import DISK
from kvtool.inspection.prompt_span import Span, compute
from kvtool.inspection.served import Rules, served_spans
from kvtool.inspection.stored_prefix import stored_prefix
from kvtool.tiers.disk.catalog import Catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The spans tile [0, prompt_tokens). namespace: what the prompt was looked up under."""

    prompt_tokens: int
    hit_tokens: int
    namespace: dict[str, object]
    spans: tuple[Span, ...]


def explain(
    catalog: Catalog, namespace: Namespace, tokens: Tokens, rules: Rules, decode: Decode
) -> Explanation:
    """tokens: of the prompt, int32, at least one. Reads the index, no KV, and changes nothing."""
    keys = BlockKeys(namespace.digest, tokens, namespace.block_size)
    prefix = stored_prefix(catalog, keys)
    spans = served_spans(keys, prefix.num_tokens, rules, DISK)
    if prefix.num_tokens < len(tokens):
        missed = missed_spans(catalog, keys, prefix, decode)
        other = closest_elsewhere(catalog, namespace, tokens)
        missed = missed if other is None else _with_other(missed, other)
        spans += with_moved(missed, _pieces(catalog, namespace, tokens, missed[0].start))
    return explanation(namespace, len(tokens), spans)


def _pieces(catalog: Catalog, namespace: Namespace, tokens: Tokens, start: int) -> list[Piece]:
    digest = namespace.digest
    entries = [entry for entry in catalog.entries() if entry.namespace == digest and entry.exact]
    return moved_pieces(entries, tokens, start, EngineConfig().min_run)


def explanation(namespace: Namespace, num_tokens: int, spans: Sequence[Span]) -> Explanation:
    borders = [0, *(span.end for span in spans)]
    assert borders[:-1] == [span.start for span in spans] and borders[-1] == num_tokens
    return Explanation(
        prompt_tokens=num_tokens,
        hit_tokens=sum(span.num_tokens for span in spans if span.kind == "hit"),
        namespace=visible_fields(namespace),
        spans=tuple(spans),
    )


def _with_other(missed: list[Span], other: Elsewhere) -> list[Span]:
    """What the other namespace has, as far as it reaches, takes the place of other reasons."""
    start, end = missed[0].start, other.num_tokens
    if end <= start:
        if missed[0].reason == "nothing_stored":
            missed[0] = replace(missed[0], differences=other.differences)
        return missed
    elsewhere = compute(
        start,
        end,
        "other_namespace",
        detail=f"stored, but under namespace {other.namespace.number}",
        difference=missed[0].first_difference,
        differences=other.differences,
    )
    behind = [replace(span, start=max(span.start, end)) for span in missed if span.end > end]
    return [elsewhere, *behind]
