"""What the cache did in a run: the `cache` part of the JSON document and the --stats table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvtool.cli.results import Completion
from kvtool.cli.sizes import format_size
from kvtool.engine.engine import Engine

HIT_RATE = (
    "matched prompt tokens / prompt tokens, counted before the last token of a fully cached "
    "prompt is computed again"
)
FRAGMENTATION = "slots without a token / slots of the blocks that running requests held, all steps"


def cache_report(engine: Engine) -> dict[str, Any]:
    """Take it before --verify, whose requests would count as well."""
    manager, metrics = engine.manager, engine.metrics
    stats = manager.stats.as_dict()
    queried, hits = stats["queried_tokens"], stats["hit_tokens"]
    return {
        "block_size": manager.config.block_size,
        "num_blocks": manager.num_blocks,
        "free_blocks": manager.num_free_blocks,
        "cached_blocks": manager.num_available_blocks - manager.num_free_blocks,
        "peak_blocks": metrics.peak_blocks,
        "hit_rate": {
            "value": hits / queried if queried else None,
            "numerator": hits,
            "denominator": queried,
            "definition": HIT_RATE,
        },
        "fragmentation": {"value": metrics.fragmentation, "definition": FRAGMENTATION},
        "full_hit_recomputed": stats["full_hit_recomputed"],
        "stored_blocks": stats["stored_blocks"],
        "evicted_blocks": stats["evicted_blocks"],
        "duplicate_blocks": stats["duplicate_blocks"],
        "copied_blocks": stats["copied_blocks"],
        "taken_over_blocks": stats["taken_over_blocks"],
        "collisions": stats["collisions"],
        "preemptions": metrics.preemptions,
        "steps": metrics.steps,
        "max_batch_requests": metrics.max_batch_requests,
        "max_batch_tokens": metrics.max_batch_tokens,
    }


def stats_rows(
    completions: list[Completion], cache: Mapping[str, Any], effective: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Two columns; times are means over the replies."""
    usages = [completion.usage for completion in completions]
    timings = [completion.timing for completion in completions]
    hit, fragmentation = cache["hit_rate"], cache["fragmentation"]
    return [
        ("prompt tokens", _usage_line(usages)),
        ("reply tokens", str(sum(usage.completion_tokens for usage in usages))),
        ("time to first token", _mean_ms([timing.ttft_ms for timing in timings])),
        ("time per token", _mean_ms([timing.tpot_ms for timing in timings])),
        ("hit rate", f"{_percent(hit['value'])} ({hit['numerator']} of {hit['denominator']})"),
        ("", hit["definition"]),
        ("blocks", _blocks_line(cache, effective)),
        ("fragmentation", f"{_percent(fragmentation['value'])} ({fragmentation['definition']})"),
        ("evicted blocks", str(cache["evicted_blocks"])),
        ("copied blocks", str(cache["copied_blocks"])),
        ("preemptions", str(cache["preemptions"])),
        ("steps", f"{cache['steps']}, at most {cache['max_batch_requests']} requests together"),
        ("shortest reusable prefix", _tokens(effective["min_reusable_tokens"])),
    ]


def _usage_line(usages: list[Any]) -> str:
    parts = ("prompt", "cached", "shifted", "recomputed", "computed")
    total, *rest = (sum(getattr(usage, f"{part}_tokens") for usage in usages) for part in parts)
    named = ", ".join(f"{count} {part}" for part, count in zip(parts[1:], rest))
    return f"{total}: {named}"


def _blocks_line(cache: Mapping[str, Any], effective: Mapping[str, Any]) -> str:
    size = format_size(effective["kv_memory"])
    return (
        f"{cache['num_blocks']} of {cache['block_size']} tokens ({size}): at most "
        f"{cache['peak_blocks']} in use, now {cache['cached_blocks']} cached, "
        f"{cache['free_blocks']} free"
    )


def _mean_ms(times: list[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{sum(known) / len(known):.1f} ms" if known else "n/a"


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f} %"


def _tokens(count: int | None) -> str:
    return "none: reuse is off" if count is None else f"{count} token" + "s" * (count > 1)
