"""The kinds of advice. Rewritings of text are combined in this order."""

from __future__ import annotations

REWRITINGS = {
    "tool-order": "kvtool.advice.tool_order:tool_order",
    "volatile-fields": "kvtool.advice.volatile_fields:volatile_fields",
    "stable-first": "kvtool.advice.stable_first:stable_first",
    "compaction": "kvtool.advice.compaction:compaction",
}
SETTINGS = {
    "shifted-reuse": "kvtool.advice.shifted_reuse:shifted_reuse",
    "pinning": "kvtool.advice.pinning:pinning",
    "eviction": "kvtool.advice.eviction:eviction",
    "block-size": "kvtool.advice.block_size:block_size",
    "capacity": "kvtool.advice.capacity:capacity",
}
