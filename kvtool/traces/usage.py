"""Token counts as APIs report them, in one convention: cached tokens are part of the prompt's."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.traces.record import inner, whole
from kvtool.traces.trace_request import Json


class Usage(NamedTuple):
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


def usage_of(usage: Json) -> Usage:
    """Of a `usage` object of OpenAI's chat or responses API, Anthropic's or DeepSeek's.

    OpenAI counts cached tokens inside the prompt's, Anthropic beside them; so does a gateway whose
    cached tokens are more than the prompt's. Raises `BadRecord` for counts that are none.
    """
    written = whole(usage, "cache_creation_input_tokens")
    beside = whole(usage, "cache_read_input_tokens")
    prompt = whole(usage, "prompt_tokens")
    output = whole(usage, "completion_tokens", "output_tokens")
    if prompt is None and (beside is not None or written is not None):
        uncached = whole(usage, "input_tokens") or 0
        return Usage(uncached + (beside or 0) + (written or 0), beside or 0, output)
    if prompt is None:
        prompt = whole(usage, "input_tokens")
    return Usage(*inclusive(prompt, _cached(usage, beside)), output)


def inclusive(
    prompt: int | None, cached: int | None, written: int | None = None
) -> tuple[int | None, int | None]:
    """Prompt tokens with the cached ones in them, and those. written: to the cache. What is more
    than the prompt cannot be a part of it, so it is beside it."""
    if prompt is not None and (cached or 0) + (written or 0) > prompt:
        return prompt + (cached or 0) + (written or 0), cached
    return prompt, cached


def _cached(usage: Json, beside: int | None) -> int | None:
    details = inner(usage, "prompt_tokens_details", "input_tokens_details")
    cached = whole(details, "cached_tokens")
    if cached is None:
        cached = whole(usage, "cached_tokens", "cached_input_tokens", "prompt_cache_hit_tokens")
    return beside if cached is None else cached
