"""The causes of a miss, and what is said of one request."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

FIRST_SIGHT = "first_sight"
DIVERGED = "diverged"
CONTEXT_REWRITTEN = "context_rewritten"
CAPACITY = "capacity"
POLICY = "policy"
TTL = "ttl"
IN_FLIGHT = "in_flight"
PARTIAL_BLOCK = "partial_block"
OTHER_NAMESPACE = "other_namespace"
REPLY_RERENDERED = "reply_rerendered"
TRUNCATED_WINDOW = "truncated_window"
BELOW_BLOCK_FLOOR = "below_block_floor"

CAUSES = {
    FIRST_SIGHT: "no earlier request had this text; of ids that are chained hashes: this id",
    DIVERGED: "an earlier request had this text in a whole block, but behind another beginning; "
    "shifted reuse is for it",
    CONTEXT_REWRITTEN: "an earlier message, or the tools, of the same session changed: the changed "
    "part, and all behind it that the request before had too; of hash ids, which say nothing of "
    "messages: what differs within the length of the request before",
    CAPACITY: "it was computed before with the same beginning and evicted; a larger cache would "
    "still have it (with --reuse none the cache has no block)",
    POLICY: "evicted as well, but at this capacity LRU, or the best possible choice (Belady's), "
    "keeps it and all in front of it",
    TTL: "it was dropped because nobody used it for longer than the time to live; kvtool's own "
    "cache has none",
    IN_FLIGHT: "the last request that had it was still computing it when this one started",
    PARTIAL_BLOCK: "seen before with the same beginning, but it ends inside a block, of which only "
    "the whole is found (or, of a hash-id trace, has an id)",
    OTHER_NAMESPACE: "the same prompt from its first token on was seen, but for another model, "
    "adapter or salt",
    REPLY_RERENDERED: "the prompt renders an earlier reply otherwise than the model emitted it, or "
    "without its thinking: the rest of what was computed for it",
    TRUNCATED_WINDOW: "older messages of the session were dropped, so what was kept of them moved",
    BELOW_BLOCK_FLOOR: "the prompt, or what it shares with earlier ones, is shorter than one block",
}


class CauseSpan(NamedTuple):
    """Missed prompt tokens [start, stop), all for one cause."""

    start: int
    stop: int
    cause: str

    @property
    def num_tokens(self) -> int:
        return self.stop - self.start


class RequestCauses(NamedTuple):
    """position: of the request in the order of the trace. spans: ascending; they hold exactly the
    missed tokens. recoverable_by_shift_tokens: of those behind everything that was seen with the
    same beginning, how many had been seen at another position in runs worth moving, what repair
    computes again subtracted, as if nothing were evicted; 0 where shifted reuse is on. capacity_blocks: what LRU takes to hit
    all that was evicted; None where nothing was, or where this capacity suffices."""

    position: int
    spans: tuple[CauseSpan, ...]
    recoverable_by_shift_tokens: int
    capacity_blocks: int | None

    @property
    def causes(self) -> Counter[str]:
        """Tokens by name, zeros left out."""
        counts = Counter[str]()
        for span in self.spans:
            counts[span.cause] += span.num_tokens
        return counts
