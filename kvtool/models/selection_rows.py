"""Rows of one sequence, fed to the model a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from kvtool.models.inputs import ForwardInputs
from kvtool.reuse.probe import Candidates


def in_chunks(
    inputs: ForwardInputs, start: int, stop: int, max_rows: int
) -> Iterator[ForwardInputs]:
    """Rows [start, stop) of a sequence in order, over the same table, without logits."""
    for first in range(start, stop, max_rows):
        rows = slice(first, min(first + max_rows, stop))
        length = rows.stop - rows.start
        yield replace(
            inputs,
            token_ids=inputs.token_ids[rows],
            positions=inputs.positions[rows],
            logits_rows=inputs.logits_rows[:0],
            cu_seqlens_q=inputs.cu_seqlens_q.new_tensor([0, length]),
            max_query_len=length,
            groups=tuple(replace(group, slots=group.slots[rows]) for group in inputs.groups),
        )


def without_storing(inputs: ForwardInputs, candidates: Sequence[Candidates]) -> ForwardInputs:
    """Rows of candidates are computed but not kept: their slots may be those of donors."""
    kept = torch.ones_like(inputs.positions, dtype=torch.bool)
    for tokens in candidates:
        kept &= (inputs.positions < tokens.start) | (inputs.positions >= tokens.stop)
    groups = (replace(g, slots=torch.where(kept, g.slots, -1)) for g in inputs.groups)
    return replace(inputs, groups=tuple(groups))
