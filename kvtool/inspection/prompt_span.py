"""A span of a prompt: served from a tier, or computed for a reason."""

from __future__ import annotations

from dataclasses import dataclass

from kvtool.inspection.first_difference import FirstDifference
from kvtool.inspection.namespaces import FieldDifference

REASONS = {
    "nothing_stored": "nothing is stored under this namespace",
    "diverges": "no stored sequence goes on as the prompt does",
    "stored_end": "the stored sequence ends at the end of a block",
    "partial_block": "the stored sequence ends inside a block",
    "whole_blocks": "stored, but only whole blocks are taken with --prefix-index chain",
    "whole_chunks": "stored, but only whole chunks are taken with --deterministic",
    "evicted": "not stored any more, though blocks behind it are",
    "head_missing": "stored, but what stands in front of it is not",
    "other_position": "stored, but computed at another position; the disk serves prefixes only",
    "other_namespace": "these tokens are stored under another namespace",
    "last_token": "the last token is always computed: its logits are what the reply begins with",
    "not_in_store": "the store does not have it; it cannot list what it has instead",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Positions [start, end). kind: hit or compute.

    tier: that serves it. delta: how far the KV is moved, 0 for a prefix; with "other_position",
    how far it would be. reason: a key of `REASONS`, with its sentence in `detail`. differences: of
    the namespaces, where that is the reason.
    """

    start: int
    end: int
    kind: str
    tier: str | None
    delta: int | None
    reason: str | None
    first_difference: FirstDifference | None
    detail: str | None = None
    differences: tuple[FieldDifference, ...] | None = None

    @property
    def num_tokens(self) -> int:
        return self.end - self.start


def hit(start: int, end: int, tier: str) -> Span:
    return Span(
        start=start, end=end, kind="hit", tier=tier, delta=0, reason=None, first_difference=None
    )


def compute(
    start: int,
    end: int,
    reason: str,
    *,
    detail: str | None = None,
    difference: FirstDifference | None = None,
    differences: tuple[FieldDifference, ...] | None = None,
) -> Span:
    return Span(
        start=start,
        end=end,
        kind="compute",
        tier=None,
        delta=None,
        reason=reason,
        first_difference=difference,
        detail=detail or f"{REASONS[reason]}",
        differences=differences,
    )
