"""Brute force: all runs that a prompt and the cached chains have in common."""

from __future__ import annotations

from typing import NamedTuple

from reuse.texts import Store

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.refusals import Limits
from kvtool.reuse.run import Run
from kvtool.reuse.runs import Found, find_runs

ANY_LENGTH = Limits(min_run=1)


class Key(NamedTuple):
    """What is equal of a run whichever of two equally good last blocks it ends in."""

    start: int
    delta: int
    block: int
    offset: int


def all_runs(tokens: Tokens, first: int, store: Store, namespace: bytes = b"") -> dict[Key, int]:
    """Key -> stop, for every maximal run in [first, n) with at least one whole full block.

    Chains share blocks, so several have the same run up to where they part: the longest counts.
    """
    runs: dict[Key, int] = {}
    size = store.pool.block_size
    for path in store.chains(namespace):
        donor = store.tokens_of(path)
        for delta in range(first - len(donor) + 1, len(tokens)):
            for start, stop in agreements(tokens, first, donor, delta):
                begin, end = start - delta, stop - delta  # donor positions
                first_whole = -(-begin // size) * size
                if first_whole + size <= end:
                    key = Key(start, delta, path[begin // size], begin % size)
                    runs[key] = max(stop, runs.get(key, 0))
    return runs


def agreements(tokens: Tokens, first: int, donor: Tokens, delta: int) -> list[tuple[int, int]]:
    """Maximal prompt ranges where token p equals donor token p - delta."""
    found = []
    begin, end = max(first, delta), min(len(tokens), len(donor) + delta)
    start = begin
    for at in range(begin, end + 1):
        if at == end or tokens[at] != donor[at - delta]:
            if at > start:
                found.append((start, at))
            start = at + 1
    return found


def as_keys(runs: list[Run]) -> dict[Key, int]:
    keys = {Key(run.start, run.delta, run.blocks[0], run.offset): run.stop for run in runs}
    assert len(keys) == len(runs), "a run was found twice"
    return keys


def check_run(run: Run, tokens: Tokens, store: Store) -> None:
    """The slots a run names hold the prompt's tokens, one chain's blocks in order."""
    pool, tree, size = store.pool, store.tree, store.pool.block_size
    slots = range(run.offset, run.offset + run.num_tokens)
    assert 0 <= run.offset < size and len(run.blocks) == slots[-1] // size + 1
    held = [int(pool.tokens[run.blocks[slot // size], slot % size]) for slot in slots]
    assert held == tokens[run.start : run.stop].tolist()
    assert tuple(tree.chain(run.blocks[-1])[-len(run.blocks) :]) == run.blocks
    assert slots[-1] % size < tree.num_tokens(run.blocks[-1])
    assert run.delta == run.start - (tree.position(run.blocks[0]) * size + run.offset)


def find(store: Store, tokens: Tokens, first: int = 0, limits: Limits = ANY_LENGTH) -> Found:
    """`find_runs`, each run checked against the pool, and the bound on the work."""
    found = find_runs(tokens, first, store.content, b"", limits=limits)
    for run in found.runs:
        check_run(run, tokens, store)
    assert found.num_verified <= limits.max_depth * (len(tokens) - first)
    return found
