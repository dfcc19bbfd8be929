"""Carries out batches on a real model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, ScheduledRequest, StepOutput
from kvtool.engine.sampler import sample
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs, GroupInputs
from kvtool_kernels import copy_blocks


class ModelExecutor:
    """Owns the model and, through it, the KV pools.

    A step that is interrupted leaves nothing behind but slots no index points to: copies and
    stores go to blocks that only their request holds, and only whole steps are committed.
    """

    def __init__(self, model: PagedModel, num_blocks: int, block_size: int) -> None:
        self.model = model
        self.groups: tuple[GroupSpec, ...] = model.groups
        model.allocate_pools(num_blocks, block_size)

    @torch.inference_mode()
    def execute(self, batch: Batch) -> StepOutput:
        for pool, copies in zip(self.model.pools, batch.copies):
            if len(copies):
                copy_blocks(pool, self._tensor(copies))
        logits = self.model.forward(self._inputs(batch.requests))
        sampled = [scheduled.request for scheduled in batch.requests if scheduled.sample]
        return {request.id: token for request, token in zip(sampled, sample(logits, sampled))}

    def close(self) -> None:
        """Frees the pools."""
        self.model.release_pools()

    def _inputs(self, requests: Sequence[ScheduledRequest]) -> ForwardInputs:
        """Requests one behind the other in one row of tokens."""
        lengths = [scheduled.num_tokens for scheduled in requests]
        ends = np.cumsum(lengths)
        positions = [np.arange(s.start, s.end, dtype=np.int64) for s in requests]
        rows = [end - 1 for end, scheduled in zip(ends, requests) if scheduled.sample]
        return ForwardInputs(
            token_ids=self._tensor(np.concatenate([s.token_ids for s in requests])).long(),
            positions=self._tensor(np.concatenate(positions)),
            logits_rows=self._tensor(np.array(rows, dtype=np.int64)),
            cu_seqlens_q=self._tensor(_cumulative(lengths)),
            max_query_len=max(lengths),
            groups=tuple(self._group_inputs(requests, g) for g in range(len(self.groups))),
        )

    def _group_inputs(self, requests: Sequence[ScheduledRequest], group: int) -> GroupInputs:
        entries = [scheduled.entries[group] for scheduled in requests]
        return GroupInputs(
            slots=self._tensor(np.concatenate([s.slots[group] for s in requests])),
            entries=self._tensor(np.concatenate(entries)),
            cu_entries=self._tensor(_cumulative([len(rows) for rows in entries])),
        )

    def _tensor(self, array: npt.NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(self.model.device)


def _cumulative(lengths: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *lengths], dtype=np.int32)
