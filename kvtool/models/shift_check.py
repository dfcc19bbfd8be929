"""Cached keys at other positions: may this model's keys move at all, and does a given move fit?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from kvtool.cache.block_pool import Tokens
from kvtool.errors import ModelError
from kvtool.models.first_layer import (
    LIMIT,
    first_layer_error,
    fresh_first_layer_keys,
    stored_first_layer_keys,
    unchecked_reason,
)
from kvtool.models.hf import PagedModel
from kvtool.models.layout_probe import probe_layout
from kvtool.reuse.run import Run


class Move(NamedTuple):
    """tokens: int32 [run.num_tokens], those that the run is to stand for."""

    run: Run
    tokens: Tokens


def prepare_shift(paged: PagedModel) -> None:
    """Find out how keys move and use it from now on (`paged.layout`).

    Raises `ModelError`, with the reason, for a model whose keys cannot be moved, or not checked.
    """
    layout = probe_layout(paged)
    reason = layout.reason or unchecked_reason(layout)
    if reason is not None:
        raise ModelError(
            f"{paged.architecture} cannot use cached text at other positions: {reason}.",
            hint="Use --reuse prefix.",
        )
    paged.use_layout(layout)


def failing_runs(paged: PagedModel, moves: Sequence[Move], block_size: int) -> list[Run]:
    """Runs whose stored keys of layer 0, turned by delta, are not those of these tokens there."""
    assert paged.layout is not None, "runs without a layout"
    runs = [move.run for move in moves]
    tokens = np.concatenate([move.tokens for move in moves]).astype(np.int64)
    positions = np.concatenate([np.arange(run.start, run.stop) for run in runs])
    slots = np.concatenate([run.slots(block_size) for run in runs])
    token_ids, where, stored_at = (
        torch.from_numpy(array).to(paged.device) for array in (tokens, positions, slots)
    )
    fresh = fresh_first_layer_keys(paged, token_ids, where)
    stored = stored_first_layer_keys(paged, stored_at)
    lengths = [run.num_tokens for run in runs]
    rotary = paged.layout.rotary(0)
    parts = zip(runs, torch.split(fresh, lengths), torch.split(stored, lengths), strict=True)
    return [
        run
        for run, here, there in parts
        if not first_layer_error(here, there, rotary, run.delta) <= LIMIT
    ]
