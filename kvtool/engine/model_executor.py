"""Carries out batches on a real model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kvtool.cache.backing import Load
from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import (
    Batch,
    ScheduledRequest,
    ScheduledSelection,
    Selected,
    StepOutput,
)
from kvtool.engine.executor import RunRefused
from kvtool.engine.sampler import sample
from kvtool.models.hf import PagedModel
from kvtool.models.inputs import ForwardInputs, GroupInputs
from kvtool.models.moving import merge_keys, move_keys
from kvtool.models.selection import select_tokens
from kvtool.models.shift_check import Move, failing_runs
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
        self._block_size = block_size
        model.allocate_pools(num_blocks, block_size)

    @torch.inference_mode()
    def execute(self, batch: Batch) -> StepOutput:
        _finish(self._start(batch.donor_loads))
        self._check_runs(batch.scheduled)
        for pool, copies in zip(self.model.pools, batch.copies):
            if len(copies):
                copy_blocks(pool, self._tensor(copies))
        loadings = self._start(batch.loads)
        if any(map(len, batch.moves)):
            _finish(loadings)  # they write whole blocks, the last of which moved text may go on in
        for group, moves in enumerate(batch.moves):
            if len(moves):
                move_keys(self.model, group, *self._tensor(moves).unbind(1))
        output = self._tokens(batch.requests, loadings) if batch.requests else {}
        _finish(loadings)
        for group, merges in enumerate(batch.merges):
            if len(merges):
                merge_keys(self.model, group, self._tensor(merges))
        return output

    def _tokens(
        self, requests: Sequence[ScheduledRequest], loadings: Sequence[Loading]
    ) -> StepOutput:
        logits = self.model.forward(self._inputs(requests, loadings))
        _finish(loadings)
        sampled = [scheduled.request for scheduled in requests if scheduled.sample]
        return {request.id: token for request, token in zip(sampled, sample(logits, sampled))}

    def select(self, selections: Sequence[ScheduledSelection]) -> Mapping[int, Selected]:
        selected = {}
        for rows, rule, candidates in ((s.rows, s.rule, s.candidates) for s in selections):
            choice = select_tokens(self.model, rule, self._inputs([rows], []), candidates)
            selected[rows.request.id] = Selected(choice.positions, choice.row_layers)
        return selected

    def close(self) -> None:
        """Frees the pools."""
        self.model.release_pools()

    def _check_runs(self, scheduled: Sequence[ScheduledRequest]) -> None:
        """Before anything is stored: every run that is read for the first time."""
        owners = [(s.request, run) for s in scheduled for run in s.runs]
        if not owners:
            return
        moves = [Move(run, request.tokens[run.start : run.stop]) for request, run in owners]
        failing = set(failing_runs(self.model, moves, self._block_size))
        if failing:
            ids = {request.id for request, run in owners if run in failing}
            raise RunRefused(
                {i: tuple(run for r, run in owners if r.id == i and run in failing) for i in ids}
            )

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
        rows = [end - 1 for end, scheduled in zip(ends, requests) if scheduled.sample]
        return ForwardInputs(
            token_ids=self._tensor(np.concatenate([s.token_ids for s in requests])).long(),
            positions=self._tensor(np.concatenate([s.positions for s in requests])),
            logits_rows=self._tensor(np.array(rows, dtype=np.int64)),
            cu_seqlens_q=self._tensor(_cumulative(lengths)),
            max_query_len=max(lengths),
            has_deltas=self.model.layout is not None
            and any(entries[:, 4].any() for s in requests for entries in s.entries),
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


def _finish(loadings: Sequence[Loading]) -> None:
    for loading in loadings:
        loading.finish()


def _wait_for_all(loadings: Sequence[Loading], layer: int) -> None:
    for loading in loadings:
        loading.wait(layer)


def _cumulative(lengths: Sequence[int]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *lengths], dtype=np.int32)
