"""Text of a prompt that lies in the tiers alone: brought into the pool, and moved from there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvtool.cache.backing import Backing, Load, StoredDonor
from kvtool.cache.block_pool import Tokens
from kvtool.cache.gaps import gaps
from kvtool.cache.group_cache import GroupCache
from kvtool.cache.incoming import Incoming
from kvtool.cache.section import Section
from kvtool.cache.sequence import SequenceKV
from kvtool.cache.stats import CacheStats
from kvtool.cache.transfers import Transfers
from kvtool.reuse.donor_chains import Chain, DonorChains
from kvtool.reuse.planner import Rules
from kvtool.reuse.run import Run

MakeRoom = Callable[[Sequence[int]], None]


class StoredDonors:
    """Found → blocks reserved, a chain of `chains`, `kv.incoming` → read within the first step.

    Others may use the chain at once: in that step it is read before anything else, and if it
    cannot be read, none of its requests gets anywhere.
    """

    def __init__(
        self,
        backing: Backing,
        groups: Sequence[GroupCache],
        chains: DonorChains,
        transfers: Transfers,
        stats: CacheStats,
    ) -> None:
        self._backing = backing
        self._groups = groups
        self._chains = chains
        self._transfers = transfers
        self._stats = stats
        self._size = groups[0].pool.block_size

    def fetch(
        self,
        kv: SequenceKV,
        tokens: Tokens,
        used: Sequence[Run],
        rules: Rules,
        make_room: MakeRoom,
        now: int,
    ) -> dict[Run, Section]:
        """What is stored of the tokens that no run of `used`, by start, covers: as many runs as
        there is room for. The blocks of all others are pinned. make_room: called with the empty
        blocks of each group that are wanted."""
        end = len(tokens) - 1  # the last token is computed whatever is found
        pieces = list(gaps(min(kv.num_cached, end), end, used))
        if max((stop - start for start, stop in pieces), default=0) < rules.limits.min_run:
            return {}
        num_own = sum(stop - start for start, stop in pieces) + 1
        found: dict[Run, Section] = {}
        for donor in self._backing.donors(tokens[:end], pieces, kv.namespace, rules):
            count, rest = len(donor.blocks), num_own - (donor.stop - donor.start)
            # Every stretch of own tokens begins in a block of its own.
            num_own_blocks = rest // self._size + len(pieces) + len(found) + 1
            if all(count + num_own_blocks <= group.pool.num_available for group in self._groups):
                make_room([count] * len(self._groups))
                section = self._reserve(kv, donor, now)
                found[section.runs[0]] = section
                num_own = rest
        return found

    def _reserve(self, kv: SequenceKV, donor: StoredDonor, now: int) -> Section:
        blocks = tuple(group.allocate(len(donor.blocks)) for group in self._groups)
        load = Load(donor.blocks, blocks)
        self._transfers.hold(load, blocks)
        chain = Chain(
            blocks=blocks,
            tokens=donor.tokens,
            home=donor.home,
            namespace=kv.namespace,
            first_token=donor.first_token,
            context=donor.context,
        )
        self._chains.add(chain, now)
        for group, own in zip(self._groups, blocks):
            group.pool.touch(own)
        kv.incoming = (*kv.incoming, Incoming(load, chain))
        runs = tuple(
            Run(donor.start, donor.stop, donor.delta, tuple(own.tolist()), donor.offset)
            for own in blocks
        )
        return Section(runs, blocks, donor.blocks[0].tier)

    def end_step(self, kv: SequenceKV, tokens: Tokens) -> None:
        """tokens: those of `kv` whose KV is there; empty where the step failed or never was."""
        for load, chain in kv.incoming:
            if load.claim():  # nobody has begun to read
                load.end()
                self._drop(chain)
            elif len(tokens):
                self._stats.count_loaded(load)
            else:
                self._drop(chain)
            for group, blocks in zip(self._groups, chain.blocks):
                group.let_go(blocks)
        kv.incoming = ()

    def _drop(self, chain: Chain) -> None:
        if self._chains.holds(chain):
            self._chains.remove(chain)
