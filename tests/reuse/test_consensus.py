"""Which means are begun and continued after a text was computed."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.oracle import check_run
from reuse.texts import Store, text

from kvtool.cache.block_pool import Tokens
from kvtool.reuse.consensus import MAX_MERGED, MeanPlan, Text, _contexts, plan_means
from kvtool.reuse.donor_chains import Chain, DonorChains
from kvtool.reuse.refusals import Limits

CHUNK = text(range(5000, 5045))
LIMITS = Limits(min_run=16)


def number(tokens: Tokens) -> float:
    return zlib.crc32(tokens.tobytes()) / 2**32


class Pool:
    """Texts come one after the other; every plan is carried out at once.

    The KV of a slot is one number, drawn from all tokens up to it.
    """

    def __init__(self, num_blocks: int = 512, block_size: int = 4) -> None:
        self.store = Store(num_blocks, block_size)
        self.chains = DonorChains([self.store.pool])
        self.kv = np.zeros((num_blocks, block_size))
        self.prefixes: dict[int, Tokens] = {}  # by what tells contexts apart

    def add(self, tokens: Tokens, first: int = 0, limits: Limits = LIMITS) -> list[MeanPlan]:
        size, blocks = self.chains.block_size, self.store.add(tokens)
        tokens = tokens[: len(blocks) * size]
        values = [number(tokens[: i + 1]) for i in range(len(tokens))]
        self.kv[blocks] = np.resize(values, (len(blocks), size))
        self.prefixes |= {int(key): tokens[:i] for i, key in enumerate(_contexts(tokens))}
        known = Text(tokens, blocks, first, b"")
        plans = plan_means(known, self.store.content, self.chains, limits)
        for plan in plans:
            self._carry_out(plan)
        return plans

    def _carry_out(self, plan: MeanPlan) -> None:
        size, blocks = self.chains.block_size, self.store.pool.allocate(len(plan.num_merged))
        mean, slots = np.full(len(blocks) * size, np.nan), self.kv.reshape(-1)
        for run, n in plan.contributions:
            if run.blocks[0] not in self.chains:
                check_run(run, np.insert(plan.tokens, 0, [0] * plan.home), self.store)
            part = slice(run.start - plan.home, run.stop - plan.home)
            added = slots[run.slots(size)]
            mean[part] = added if n == 1 else mean[part] + (added - mean[part]) / n
        self.kv[blocks] = mean.reshape(-1, size)
        chain = Chain(
            blocks=(blocks,),
            tokens=plan.tokens,
            home=plan.home,
            namespace=b"",
            first_token=plan.first_token,
            context=plan.context,
            num_merged=plan.num_merged,
            contexts=plan.contexts,
        )
        self.chains.add(chain, 0)
        if plan.replaces is not None:
            self.chains.remove(plan.replaces)

    def check(self) -> None:
        """Each slot holds the arithmetic mean over different contexts of what was computed there."""
        self.chains.check_integrity()
        size = self.chains.block_size
        for chain in self.chains:
            counts = np.broadcast_to(chain.num_merged, len(chain.blocks[0]))
            for place, (block, count) in enumerate(zip(chain.blocks[0], counts)):
                keys = set(chain.contexts[place, :count].tolist())
                assert 2 <= len(keys) == count <= MAX_MERGED
                own = chain.tokens[place * size : (place + 1) * size]
                for i in range(len(own)):
                    copies = [number(text(self.prefixes[key], own[: i + 1])) for key in keys]
                    np.testing.assert_allclose(self.kv[block, i], np.mean(copies), rtol=1e-12)

    @property
    def means(self) -> list[list[int]]:
        """num_merged of every block of every mean."""
        self.check()
        return [np.array(chain.num_merged).tolist() for chain in self.chains]


def test_the_second_context_begins_a_mean_and_later_ones_continue_it() -> None:
    pool = Pool()
    assert pool.add(text(range(20), CHUNK)) == []
    (plan,) = pool.add(text(range(100, 131), CHUNK, 9))
    assert plan.home == 20 and plan.tokens.tolist() == CHUNK.tolist()
    first, second = plan.contributions
    assert (first.number, first.run.delta) == (1, 0) and (second.number, second.run.delta) == (
        2,
        -11,
    )
    assert plan.context.tolist() == list(range(100, 131)) and plan.first_token == 100
    assert pool.means == [[2] * 12]
    pool.add(text(range(200, 217), CHUNK, 8))
    pool.add(text(range(300, 317), CHUNK, 7))
    assert pool.means == [[4] * 12]
    assert pool.add(text(range(400, 417), CHUNK)) == []


def test_a_context_counts_once() -> None:
    pool = Pool()
    contexts = [text(range(i, i + 21), CHUNK) for i in (0, 100, 200)]
    for tokens in contexts:
        pool.add(tokens)
    assert pool.means == [[3] * 12]
    for tokens in contexts:
        assert pool.add(tokens) == []
    while leaves := pool.store.leaves():  # evicted, and computed again
        pool.store.remove(leaves[0])
    for tokens in contexts:
        assert pool.add(tokens) == []


def test_a_part_of_the_text_continues_whole_blocks_of_it() -> None:
    pool = Pool()
    for i in (0, 100):
        pool.add(text(range(i, i + 20), CHUNK))
    pool.add(text(range(200, 220), CHUNK[6:31], 9))  # 24..44 of 20..65
    assert pool.means == [[2, 2, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2]]
    pool.add(text(range(300, 320), CHUNK[18:]))
    assert pool.means == [[2, 2, 3, 3, 3, 4, 4, 3, 3, 3, 3, 3]]
    pool.add(text(range(400, 420), CHUNK))
    assert pool.means == [[3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4]]


def test_a_longer_text_gets_a_mean_of_its_own() -> None:
    pool = Pool()
    for i in (0, 100):
        pool.add(text(range(i, i + 20), CHUNK))
    for i in (200, 300):
        pool.add(text(range(i, i + 20), CHUNK, range(6000, 6030)))
    assert pool.means == [[4] * 12, [2] * 19]


def test_text_at_position_0_leaves_out_its_sink() -> None:
    pool = Pool()
    pool.add(CHUNK)
    (plan,) = pool.add(text(range(20), CHUNK))
    assert plan.home == 4 and plan.tokens.tolist() == CHUNK[4:].tolist()
    pool = Pool()
    pool.add(text(range(20), CHUNK))
    (plan,) = pool.add(CHUNK)
    assert plan.home == 24
    pool.add(text(range(30), CHUNK))
    assert pool.means == [[3] * 11]


def test_text_known_before_and_short_text_is_left_alone() -> None:
    pool = Pool()
    pool.add(text(range(20), CHUNK))
    assert pool.add(text(range(100, 120), CHUNK), first=65) == []
    assert pool.add(text(range(200, 220), CHUNK[:15], 9)) == []


def test_shared_prefixes_are_one_context() -> None:
    pool = Pool()
    pool.add(text(range(20), CHUNK))
    assert pool.add(text(range(20), CHUNK, range(90))) == []


def test_donors_without_bos_are_left_out() -> None:
    pool, limits = Pool(), LIMITS._replace(bos_id=1)
    for first in (1, 2):
        pool.add(text(first, range(30, 50), CHUNK), limits=limits)
    assert pool.add(text(3, CHUNK), limits=limits) == []
    assert pool.add(text(1, range(70, 90), CHUNK), limits=limits)[0].home == 21


def test_moves_by_whole_chunks_only() -> None:
    pool, limits = Pool(), LIMITS._replace(delta_multiple=8)
    pool.add(text(range(20), CHUNK), limits=limits)
    assert pool.add(text(range(100, 127), CHUNK), limits=limits) == []
    (plan,) = pool.add(text(range(200, 228), CHUNK), limits=limits)
    assert plan.contributions[1].run.delta == -8


@pytest.mark.parametrize("block_size", [1, 4])
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_comes_plans_are_whole(block_size: int, seed: int) -> None:
    """Texts of pieces in any order, some of them evicted or known before."""
    rng = np.random.default_rng(seed)
    pieces = [rng.integers(0, 3, int(rng.integers(5, 25))).astype(np.int32) for _ in range(5)]
    pool = Pool(4096, block_size)
    for _ in range(9):
        tokens = np.concatenate([pieces[i] for i in rng.integers(0, 5, int(rng.integers(1, 5)))])
        pool.add(tokens, int(rng.choice([0, 0, 7])), Limits(min_run=int(rng.integers(1, 12))))
        for leaf in pool.store.leaves()[: int(rng.integers(0, 2))]:
            pool.store.remove(leaf)
    pool.check()
