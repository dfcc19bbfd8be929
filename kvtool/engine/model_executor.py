"""Carries out batches on a real model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kvtool.cache.backing import Load
from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, ScheduledRequest, StepOutput
from kvtool.engine.sampler import sample
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs, GroupInputs
from kvtool.tiers.loading import Loading
from kvtool_kernels import copy_blocks


class Loader(Protocol):
    """Reads stored KV into blocks of the pool (`tiers.stack.Tiers`)."""

    def start(self, load: Load) -> Loading: ...


class ModelExecutor:
    """Owns the model and, through it, the KV pools.

    A step that is interrupted leaves nothing behind but slots no index points to: copies and
    stores go to blocks that only their request holds, and only whole steps are committed.
    """

    def __init__(
        self,
        model: PagedModel,
        num_blocks: int,
        block_size: int,
        loader: Loader | None = None,
    ) -> None:
        self.model = model
        self.loader = loader
        self.groups: tuple[GroupSpec, ...] = model.groups
        model.allocate_pools(num_blocks, block_size)

    @torch.inference_mode()
    def execute(self, batch: Batch) -> StepOutput:
        for pool, copies in zip(self.model.pools, batch.copies):
            if len(copies):
                copy_blocks(pool, self._tensor(copies))
        loadings = self._start(batch.loads)
        logits = self.model.forward(self._inputs(batch.requests, loadings))
        for loading in loadings:
            loading.finish()
        sampled = [scheduled.request for scheduled in batch.requests if scheduled.sample]
        return {request.id: token for request, token in zip(sampled, sample(logits, sampled))}

    def close(self) -> None:
        """Frees the pools."""
        self.model.release_pools()

    def _start(self, loads: Sequence[Load]) -> list[Loading]:
        if not loads:
            return []
        assert self.loader is not None, "something is to be loaded, and nothing to load it with"
        return [self.loader.start(load) for load in loads]

    def _inputs(
        self, requests: Sequence[ScheduledRequest], loadings: Sequence[Loading]
    ) -> ForwardInputs:
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
            has_deltas=any(entries[:, 4].any() for s in requests for entries in s.entries),
            wait=partial(_wait_for_all, loadings) if loadings else None,
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


def _wait_for_all(loadings: Sequence[Loading], layer: int) -> None:
    for loading in loadings:
        loading.wait(layer)


def _cumulative(lengths: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *lengths], dtype=np.int32)
