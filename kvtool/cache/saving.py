"""Which blocks of a sequence are written to the tiers below, and when."""

from __future__ import annotations

import numpy as np

from kvtool.cache.backing import Run, Save
from kvtool.cache.block_pool import Tokens
from kvtool.cache.sequence import SequenceKV

MIN_SAVED_BLOCKS = 16  # new full blocks, while a request runs; at its end the rest


def next_save(kv: SequenceKV, block_size: int, at_least: int, tail: Tokens | None) -> Save | None:
    """A run of what is committed and not saved yet; marks it as saved. None: too little.

    at_least: blocks. tail: tokens [0, n) of a sequence that ends, or None; its partly filled
    last block comes along if any of it is new.
    """
    if kv.keys is None:
        return None
    first, end = kv.num_saved_blocks, kv.num_committed_blocks
    keys = kv.keys.span(first, end) if end > first else []
    tokens = kv.keys.tokens[first * block_size : max(first, end) * block_size]
    if tail is not None and end >= first and _has_new_tail(kv, tail, block_size):
        keys.append(kv.keys.partial(end, tail[end * block_size :]))
        tokens = tail[first * block_size :]
    if len(keys) < max(1, at_least):
        return None
    run = Run(
        namespace=kv.namespace,
        parent=kv.keys.parent(first),
        keys=tuple(keys),
        tokens=np.array(tokens),
        home=first * block_size,
        before=kv.keys.tokens[: first * block_size],
    )
    kv.num_saved_blocks = max(first, end)
    return Save(run, tuple(table.ids(first, first + len(keys)) for table in kv.tables))


def _has_new_tail(kv: SequenceKV, tokens: Tokens, block_size: int) -> bool:
    """Whether all full blocks are committed and behind them are tokens that were computed here."""
    num_full = len(tokens) // block_size
    return (
        kv.indexable
        and num_full == kv.num_committed_blocks
        and len(tokens) % block_size > 0
        and len(tokens) > kv.num_cached
    )
