"""What the cache did in a run: the `cache` part of the JSON document and the --stats table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kvtool.cli.results import Completion
from kvtool.cli.sizes import format_size
from kvtool.cli.tier_rows import tier_rows
from kvtool.engine.request import Request
from kvtool.runtime import Runtime

HIT_RATE = (
    "matched prompt tokens / prompt tokens, counted before the last token of a fully cached "
    "prompt is computed again"
)
FRAGMENTATION = "slots without a token / slots of the blocks that running requests held, all steps"


def cache_report(runtime: Runtime, requests: Sequence[Request]) -> dict[str, Any]:
    """Of a run and its requests. Take it before --verify, whose requests would count as well."""
    manager, metrics = runtime.engine.manager, runtime.engine.metrics
    manager.release_ended_transfers()
    tiers = runtime.storage.tiers
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
        "shifted_tokens": stats["shifted_tokens"],
        "recomputed_tokens": stats["recomputed_tokens"],
        "refused_runs": stats["refused_runs"],
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
        "cached_by_tier": _cached_by_tier(requests),
        "tiers": [] if tiers is None else tiers.report(),
    }


def _cached_by_tier(requests: Sequence[Request]) -> dict[str, int]:
    """Prompt tokens taken from each tier, the block pool (device) included."""
    total: Counter[str] = Counter()
    for request in requests:
        total.update(request.cached_by_tier)
    return dict(total)


def stats_rows(
    completions: list[Completion], cache: Mapping[str, Any], effective: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Two columns; the definitions of the rates are in the report and in docs/cli.md."""
    usages = [completion.usage for completion in completions]
    timings = [completion.timing for completion in completions]
    hit, mean = cache["hit_rate"], "mean " * (len(completions) > 1)
    per_token = f"{effective['kv_bytes_per_token']:,} B per token ({effective['dtype']})"
    return [
        ("prompt tokens", _usage_line(usages)),
        ("reply tokens", str(sum(usage.completion_tokens for usage in usages))),
        (f"{mean}time to first token", _mean_ms([timing.ttft_ms for timing in timings])),
        (f"{mean}time per token", _mean_ms([timing.tpot_ms for timing in timings])),
        ("hit rate", f"{_percent(hit['value'])} ({hit['numerator']} of {hit['denominator']})"),
        *_moved_rows(cache, effective),
        *tier_rows(cache, effective),
        ("blocks", blocks_line(cache, effective)),
        ("KV", per_token),
        ("fragmentation", _percent(cache["fragmentation"]["value"])),
        ("evicted blocks", str(cache["evicted_blocks"])),
        ("copied blocks", str(cache["copied_blocks"])),
        ("preemptions", str(cache["preemptions"])),
        ("steps", _steps_line(cache)),
        ("shortest reusable prefix", _tokens(effective["min_reusable_tokens"])),
    ]


def _usage_line(usages: list[Any]) -> str:
    parts = ("prompt", "cached", "shifted", "recomputed", "computed")
    total, *rest = (sum(getattr(usage, f"{part}_tokens") for usage in usages) for part in parts)
    named = dict(zip(parts[1:], rest))
    shown = [f"{n} {part}" for part, n in named.items() if n or part in ("cached", "computed")]
    return f"{total}: {', '.join(shown)}"


def _moved_rows(cache: Mapping[str, Any], effective: Mapping[str, Any]) -> list[tuple[str, str]]:
    if effective["reuse"] != "shift":
        return []
    refused = [f"{count} {reason}" for reason, count in cache["refused_runs"].items()]
    rule = f"donor {effective['donor']}, repair {effective['repair']}"
    return [
        (
            "moved text",
            f"{_tokens(cache['shifted_tokens'])} as it was, {cache['recomputed_tokens']} computed "
            f"again ({rule})",
        ),
        ("runs not moved", ", ".join(refused) or "none"),
    ]


def blocks_line(cache: Mapping[str, Any], effective: Mapping[str, Any]) -> str:
    size = format_size(effective["kv_memory"])
    peak = cache["peak_blocks"] * cache["block_size"] * effective["kv_bytes_per_token"]
    held = cache["num_blocks"] - cache["cached_blocks"] - cache["free_blocks"]
    return (
        f"{cache['num_blocks']} of {cache['block_size']} tokens ({size}): at most "
        f"{cache['peak_blocks']} in use ({format_size(peak)}), now {cache['cached_blocks']} cached, "
        f"{cache['free_blocks']} free" + (f", {held} being saved" if held else "")
    )


def _steps_line(cache: Mapping[str, Any]) -> str:
    tokens = _count(cache["max_batch_tokens"], "token")
    requests = _count(cache["max_batch_requests"], "request")
    return f"{cache['steps']}, at most {tokens} and {requests} in one step"


def _mean_ms(times: list[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{sum(known) / len(known):.1f} ms" if known else "n/a"


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f} %"


def _tokens(count: int | None) -> str:
    return "none: reuse is off" if count is None else _count(count, "token")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" + "s" * (number != 1)
