"""What each tier did, as rows of the --stats table: loaded, passed over, stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvtool.cli.sizes import format_size

Row = tuple[str, str]


def tier_rows(cache: Mapping[str, Any], effective: Mapping[str, Any]) -> Iterator[Row]:
    """Of a cache report; nothing where the block pool is all there is."""
    if not cache["tiers"]:
        return
    hits = [f"{tokens} {tier}" for tier, tokens in cache["cached_by_tier"].items() if tokens]
    yield "cached tokens from", ", ".join(hits) or "nowhere"
    for tier in cache["tiers"]:
        yield f"{tier['name']} loaded", _loaded(tier)
        if tier["skipped_tokens"]:
            yield f"{tier['name']} passed over", _passed_over(tier, effective["kv_bytes_per_token"])
        yield f"{tier['name']} stored", _stored(tier)


def _loaded(tier: Mapping[str, Any]) -> str:
    if not tier["loaded_tokens"]:
        return _tokens(0) + _failures(tier)
    return (
        f"{_tokens(tier['loaded_tokens'])} ({format_size(tier['loaded_bytes'])}): loading took "
        f"{_ms(tier['load_seconds'])}, computing takes {_computing(tier, tier['loaded_tokens'])}"
        f"{_failures(tier)}"
    )


def _passed_over(tier: Mapping[str, Any], bytes_per_token: int) -> str:
    """What was computed, because that is faster than to load it."""
    loading = _quotient(tier["skipped_tokens"] * bytes_per_token, tier["bytes_per_s"])
    return (
        f"{_tokens(tier['skipped_tokens'])}: loading takes {_ms(loading)}, computing takes "
        f"{_computing(tier, tier['skipped_tokens'])}"
    )


def _stored(tier: Mapping[str, Any]) -> str:
    kept = f"{_tokens(tier['stored_tokens'])} ({format_size(tier['stored_bytes'])})"
    return "; ".join([kept, *(f"not stored: {reason}" for reason in tier["not_stored"])])


def _failures(tier: Mapping[str, Any]) -> str:
    failures = tier["load_failures"]
    return f"; {failures} could not be read" if failures else ""


def _computing(tier: Mapping[str, Any], num_tokens: int) -> str:
    return _ms(_quotient(num_tokens, tier["compute_tokens_per_s"]))


def _quotient(amount: int, rate: float | None) -> float | None:
    return amount / rate if rate else None


def _ms(seconds: float | None) -> str:
    return "an unknown time" if seconds is None else f"{1000 * seconds:.1f} ms"


def _tokens(count: int) -> str:
    return f"{count} token{'s' * (count != 1)}"
