"""Cached keys at other positions: may this model's keys move at all, and does a given move fit?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from kvtool.cache.block_pool import Tokens
from kvtool.errors import ModelError
from kvtool.models.attention_layer import Unsupported
from kvtool.models.contract import NUM_TOKENS, check_contract
from kvtool.models.first_layer import (
    LIMIT,
    first_layer_error,
    fresh_first_layer_keys,
    stored_first_layer_keys,
    unchecked_reason,
)
from kvtool.models.hf import PagedModel
from kvtool.models.layout import Layout
from kvtool.models.layout_probe import probe_layout
from kvtool.models.unrotated import other_use_of_positions
from kvtool.reuse.run import Run


class Move(NamedTuple):
    """tokens: int32 [run.num_tokens], those that the run is to stand for."""

    run: Run
    tokens: Tokens


def prepare_shift(
    paged: PagedModel, scheme: str = "rotate", *, num_positions: int | None = None
) -> None:
    """Find out how keys move and use it from now on (`paged.layout`); before pools are allocated.

    scheme: a name in `kvtool.config.REUSE_SCHEMES`. num_positions: that keys may stand at; default
    the model's maximum. Raises `ModelError`, with the reason, for a model whose keys cannot be
    moved, or not checked, or not be kept without their rotation.
    """
    layout = probe_layout(paged)
    if scheme == "nope" and layout.reason is None:
        _leave_unrotated(paged, layout, num_positions or paged.max_model_len)
        return
    reason = layout.reason or unchecked_reason(layout)
    if reason is not None:
        raise ModelError(
            f"{paged.architecture} cannot use cached text at other positions: {reason}.",
            hint="Use --reuse prefix.",
        )
    paged.use_layout(layout)


def _leave_unrotated(paged: PagedModel, layout: Layout, num_positions: int) -> None:
    """Layer 0 may be NoPE here: such a key stands anywhere, so its tokens are all there is to
    check."""
    assert not paged.pools, "pools that hold keys with their rotation"
    reason = other_use_of_positions(paged, layout)
    if reason is None:
        paged.use_layout(layout, unrotated=max(num_positions, NUM_TOKENS))
        try:
            check_contract(paged)
        except Unsupported as differs:
            paged.use_layout(None)
            reason = str(differs)
    if reason is not None:
        raise ModelError(
            f"{paged.architecture} cannot keep keys without their rotation: {reason}.",
            hint="Use --reuse-scheme rotate.",
        )


def failing_runs(paged: PagedModel, moves: Sequence[Move], block_size: int) -> list[Run]:
    """Runs whose stored keys of layer 0, turned by delta, are not those of these tokens there.

    Keys without rotation are compared as they are: only other tokens make them differ.
    """
    assert paged.layout is not None, "runs without a layout"
    runs = [move.run for move in moves]
    tokens = np.concatenate([move.tokens for move in moves]).astype(np.int64)
    positions = np.concatenate([np.arange(run.start, run.stop) for run in runs])
    slots = np.concatenate([run.slots(block_size) for run in runs])
    token_ids, where, stored_at = (
        torch.from_numpy(array).to(paged.device) for array in (tokens, positions, slots)
    )
    fresh = fresh_first_layer_keys(paged, token_ids, paged.position_ids(where))
    stored = stored_first_layer_keys(paged, stored_at)
    lengths = [run.num_tokens for run in runs]
    rotary = paged.paged_layers[0].rope
    parts = zip(runs, torch.split(fresh, lengths), torch.split(stored, lengths), strict=True)
    return [
        run
        for run, here, there in parts
        if not first_layer_error(here, there, rotary, run.delta) <= LIMIT
    ]
