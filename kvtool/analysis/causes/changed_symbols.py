"""What changed where nothing is known of messages: plain text, and hash ids."""

from __future__ import annotations

import numpy as np

from kvtool.analysis.causes.cause import (
    CONTEXT_REWRITTEN,
    PARTIAL_BLOCK,
    REPLY_RERENDERED,
    TRUNCATED_WINDOW,
)
from kvtool.analysis.causes.change import Change, Past
from kvtool.cache.common_prefix import common_prefix
from kvtool.reuse.rolling_hash import window_hashes
from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import TextPrompt

WINDOW = 32  # tokens in a row that both prompts have count as kept
MIN_KEPT = 0.5  # of the shorter prompt; with less this is no later form of the other


def id_change(request: PreparedRequest, past: Past, shared: int, unit: Unit) -> Change | None:
    """Within the length of the request before, ids that differ are a rewritten context; but the
    block that its end filled only in part has another id whenever the prompt goes on.

        before   a b c d|   full blocks: a b c
        now      a b x y z  rewritten: x, and y up to the end of d
        now      a b c e f  goes on: the part of e that d had
    """
    if not shared:
        return None
    size, before = unit.tokens_per_symbol, past.request.num_tokens
    goes_on = shared >= before // size
    cause = PARTIAL_BLOCK if goes_on else CONTEXT_REWRITTEN
    start, stop = shared * size, min(before, request.num_tokens)
    return Change(cause, start, stop, past.position) if start < stop else None


def text_change(
    request: PreparedRequest, past: Past, shared: int, output_kv: bool
) -> Change | None:
    """By stretches of WINDOW tokens of the earlier prompt that stand in this one."""
    now, before = request.symbols, past.request.symbols
    if shared == len(before):
        return _changed_reply(request, past) if output_kv else None
    kept, old = window_hashes(now[shared:], WINDOW), window_hashes(before[shared:], WINDOW)
    found = np.flatnonzero(np.isin(kept, old))
    num_kept = shared + len(found) + WINDOW - 1
    if not shared or not len(found) or num_kept < MIN_KEPT * min(len(now), len(before)):
        return None
    first, last = int(found[0]), int(found[-1])
    dropped = int(np.flatnonzero(old == kept[first])[0])
    cause = TRUNCATED_WINDOW if first == 0 and dropped > 0 else CONTEXT_REWRITTEN
    return Change(cause, shared, shared + last + WINDOW, past.position)


def _changed_reply(request: PreparedRequest, past: Past) -> Change | None:
    reply, prompt = past.request.request.reply, request.request.prompt
    if not isinstance(prompt, TextPrompt) or not isinstance(reply, str):
        return None
    if not len(past.request.reply) or reply.strip() not in prompt.text:
        return None
    emitted = np.concatenate([past.request.symbols, past.request.reply[:-1]])
    start = common_prefix(request.symbols, emitted)
    stop = min(len(emitted), len(request.symbols))
    return Change(REPLY_RERENDERED, start, stop, past.position) if start < stop else None
