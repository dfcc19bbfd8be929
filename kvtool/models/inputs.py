"""What one forward reads besides the weights: index tensors on the model's device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, eq=False)
class GroupInputs:
    """One layer group's view of the step (T packed tokens, S sequences, E table entries).

    slots: int64 [T], where to store each token's KV, -1 = do not store.
    entries: int32 [E, 5] rows (block_id, offset, start, length, delta), sequence after sequence.
    cu_entries: int32 [S + 1], entries [cu[s], cu[s + 1]) belong to sequence s.
    """

    slots: torch.Tensor
    entries: torch.Tensor
    cu_entries: torch.Tensor


@dataclass(frozen=True, slots=True, eq=False)
class ForwardInputs:
    """A ragged batch packed into one row of T tokens.

    token_ids, positions: int64 [T]. logits_rows: int64 [R], the rows whose logits are wanted.
    cu_seqlens_q: int32 [S + 1]. max_query_len: the most tokens one sequence feeds.
    groups: one a layer group, in the order of `PagedModel.groups`.
    has_deltas: whether any entry has one; False saves the attention kernel its rotation.
    wait: called before the pages of a layer are written or read; returns when its KV that comes
    from elsewhere is there.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    logits_rows: torch.Tensor
    cu_seqlens_q: torch.Tensor
    max_query_len: int
    groups: tuple[GroupInputs, ...]
    has_deltas: bool = True
    wait: Callable[[int], None] | None = None
