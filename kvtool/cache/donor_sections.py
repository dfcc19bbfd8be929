"""Where a donor found in the first layer group stands in every group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvtool.cache.group_cache import GroupCache
from kvtool.cache.section import KEPT, POOL, Section
from kvtool.reuse.donor_chains import DonorChains
from kvtool.reuse.run import Run


class DonorSections:
    """Blocks of a prefix index are found by its tokens in the other groups, those of `chains` are
    known there."""

    def __init__(self, groups: Sequence[GroupCache], chains: DonorChains) -> None:
        self._groups = groups
        self._chains = chains

    def find(self, run: Run, namespace: bytes) -> Section | None:
        """The donor of a run, from its first block on; None: a group has lost it."""
        if run.blocks[0] in self._chains:
            return self._kept(run)
        first, *others = self._groups
        if not first.tree.is_cached(run.blocks[-1]):
            return None
        chain = first.chain(run.blocks[-1])
        num_tokens = run.stop - run.delta  # of the donor, up to the end of the run
        # With the rest of the last block: an index of full blocks finds no part of one.
        end = int(chain[-1])
        num_cached = first.tree.position(end) * first.pool.block_size + first.tree.num_tokens(end)
        tokens = first.pool.tokens[chain].reshape(-1)[:num_cached]
        chains = [chain]
        for group in others:
            match = group.match(tokens, namespace)
            if match.num_tokens < num_tokens:
                return None
            chains.append(np.array(match.block_ids))
        runs = (chain[-len(run.blocks) :].tolist() for chain in chains)
        moved = tuple(run._replace(blocks=tuple(blocks)) for blocks in runs)
        return Section(moved, tuple(chains), POOL)

    def _kept(self, run: Run) -> Section:
        end = self._chains.place(run.blocks[-1]) + 1
        pins = tuple(blocks[:end] for blocks in self._chains.chain(run.blocks[0]).blocks)
        runs = (blocks[end - len(run.blocks) :].tolist() for blocks in pins)
        return Section(tuple(run._replace(blocks=tuple(b)) for b in runs), pins, KEPT)
