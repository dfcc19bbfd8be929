"""What to do about a cause, in one sentence."""

from __future__ import annotations

from kvtool.analysis.causes import RequestCauses
from kvtool.analysis.causes import cause as names
from kvtool.analysis.first_difference import FirstDifference

REMEDIES = {
    names.FIRST_SIGHT: "Nothing to change: nobody had this text before.",
    names.DIVERGED: "Put what is shared in front of what differs, or try --reuse shift: "
    "{recoverable:,} tokens of this prompt had been seen at another position.",
    names.CONTEXT_REWRITTEN: "Leave earlier messages as they were and append: what changes belongs "
    "behind them.",
    names.CAPACITY: "A cache of {capacity:,} blocks would still have had it with LRU.",
    names.POLICY: "The cache is large enough for a better choice of what to evict: try other "
    "--evict policies, or pin the shared beginning.",
    names.TTL: "Ask again before the time to live is over, or choose a longer one.",
    names.IN_FLIGHT: "Let the first of several requests with the same beginning get its first "
    "token before the others start.",
    names.PARTIAL_BLOCK: "Smaller blocks, or --prefix-index radix, find the part of a block too.",
    names.OTHER_NAMESPACE: "The same prompt is cached for another model, adapter or salt; these "
    "never share.",
    names.REPLY_RERENDERED: "Send the conversation on as token ids, or keep replies, their "
    "thinking included, as the model wrote them.",
    names.TRUNCATED_WINDOW: "Drop older messages seldom and many at a time, or try --reuse shift.",
    names.BELOW_BLOCK_FLOOR: "Smaller blocks, or --prefix-index radix, find prompts this short.",
}
ORDERED = "Write tools and their keys in the same order every time."
VOLATILE = "Move what changes every time ({pattern}) behind the stable beginning."


def remedy(
    cause: str | None, difference: FirstDifference | None, found: RequestCauses
) -> str | None:
    """None: nothing was missed."""
    if cause is None:
        return None
    pattern = difference.pattern if difference is not None else None
    if cause in (names.DIVERGED, names.CONTEXT_REWRITTEN) and pattern is not None:
        return ORDERED if pattern.startswith("order of") else VOLATILE.format(pattern=pattern)
    return REMEDIES[cause].format(
        recoverable=found.recoverable_by_shift_tokens, capacity=found.capacity_blocks or 0
    )
