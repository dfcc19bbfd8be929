"""Chains that donate and stand for no prefix: found by content, walked, held and dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.oracle import ANY_LENGTH, Key, agreements, as_keys
from reuse.texts import text

from kvtool.cache.block_pool import BlockPool, Tokens
from kvtool.reuse.donor_chains import Chain, DonorChains
from kvtool.reuse.runs import find_runs

NOTHING = np.empty(0, dtype=np.int32)


def pools(num_groups: int = 1, num_blocks: int = 64, block_size: int = 4) -> list[BlockPool]:
    return [BlockPool(num_blocks, block_size) for _ in range(num_groups)]


def chain(of: list[BlockPool], tokens: Tokens, home: int = 0, **fields: Any) -> Chain:
    count = -(-len(tokens) // of[0].block_size)
    return Chain(
        blocks=tuple(pool.allocate(count) for pool in of),
        tokens=tokens,
        home=home,
        namespace=fields.pop("namespace", b""),
        first_token=fields.pop("first_token", 1),
        context=fields.pop("context", NOTHING),
        **fields,
    )


def stored(of: list[BlockPool], *texts: Tokens, **fields: Any) -> tuple[DonorChains, list[Chain]]:
    chains, added = DonorChains(of), [chain(of, tokens, **fields) for tokens in texts]
    for now, each in enumerate(added):
        chains.add(each, now)
    chains.check_integrity()
    return chains, added


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), block_size=st.sampled_from([1, 2, 4]))
def test_follows_a_plain_list(seed: int, block_size: int) -> None:
    """Chains over two ids come, go, are held by others, used and dropped; runs are found as brute
    force over the list finds them."""
    rng = np.random.default_rng(seed)
    of = pools(int(rng.integers(1, 3)), 40, block_size)
    chains, model = DonorChains(of), list[Chain]()
    pinned, last_use = list[Chain](), dict[Chain, int]()
    for now in range(30):
        tokens = rng.integers(0, 2, int(rng.integers(1, 5 * block_size + 2))).astype(np.int32)
        action = rng.random()
        if action < 0.5 and of[0].num_free * block_size > len(tokens) + block_size:
            home, namespace = int(rng.integers(0, 9)), rng.choice([b"a", b"b"])
            model.append(chain(of, tokens, home, namespace=namespace))
            chains.add(model[-1], now)
            last_use[model[-1]] = now
        elif action < 0.6 and model:
            pinned.append(model[int(rng.integers(len(model)))])
            for pool, blocks in zip(of, pinned[-1].blocks):
                pool.touch(blocks)
        elif action < 0.7 and model:
            gone = model.pop(int(rng.integers(len(model))))
            chains.remove(gone)
        elif action < 0.8:
            _dropped_oldest(of[0], chains, model, last_use)
        elif pinned:  # it may be gone
            used = pinned[int(rng.integers(len(pinned)))]
            chains.end_use(int(used.blocks[0][0]), now)
            last_use[used] = now
        assert list(chains) == model
        chains.check_integrity()
        _find_as_brute_force(rng.integers(0, 2, 12).astype(np.int32), chains, model)
    for each in pinned:
        for pool, blocks in zip(of, each.blocks):
            pool.give_back(pool.free(blocks))
    while chains.drop_oldest():
        pass
    assert not len(chains) and all(pool.num_free == 40 for pool in of)


def _dropped_oldest(
    pool: BlockPool, chains: DonorChains, model: list[Chain], last_use: dict[Chain, int]
) -> None:
    idle = [each for each in model if pool.ref_count[each.blocks[0][0]] == 1]
    assert pool.num_weak == sum(len(each.blocks[0]) for each in idle)
    oldest = min(idle, key=lambda each: last_use[each], default=None)
    assert chains.drop_oldest() == (oldest is not None)
    if oldest is not None:
        model.remove(oldest)


def _find_as_brute_force(tokens: Tokens, chains: DonorChains, model: list[Chain]) -> None:
    limits = ANY_LENGTH._replace(max_depth=255)
    found = find_runs(tokens, 0, chains, b"a", limits=limits).runs
    size, expected = chains.block_size, dict[Key, int]()
    for each in model:
        for shift in range(1 - len(each.tokens), len(tokens)):
            for start, stop in agreements(tokens, 0, each.tokens, shift):
                begin, end = start - shift, stop - shift
                if each.namespace == b"a" and -(-begin // size) * size + size <= end:
                    block = int(each.blocks[0][begin // size])
                    expected[Key(start, shift - each.home, block, begin % size)] = stop
    assert as_keys(found).items() <= expected.items()
    if chains.num_blocks <= 8:  # of one content at most eight are found
        assert as_keys(found) == expected


def test_walks() -> None:
    of = pools()
    chains, (one,) = stored(of, text(range(10)), home=100, context=text(7, 8, 9), first_token=3)
    a, b, c = one.blocks[0].tolist()
    assert [chains.home(block) for block in (a, b, c)] == [100, 104, 108]
    assert chains.ancestors(c, 9) == [b, a] and chains.ancestors(c, 1) == [b]
    assert chains.descendants(a, 9) == [b], "the last one is partly filled"
    assert chains.longest_child(b, text(8, 1)) == (c, 1)
    assert chains.longest_child(b, text(8, 9, 0)) == (c, 2)
    assert chains.longest_child(b, text(1)) == (-1, 0)
    assert chains.longest_child(c, text(1)) == (-1, 0)
    assert chains.first_token(c) == 3
    assert chains.context(a, 2, 4).tolist() == [8, 9, 0, 1]
    assert chains.context(b, 1, 256).tolist() == [7, 8, 9, 0, 1, 2, 3, 4]
    assert a in chains and 9 not in chains


def test_the_chain_used_last_comes_first() -> None:
    of = pools()
    chains, (old, new) = stored(of, text(range(8)), text(range(8)))
    first, second = int(old.blocks[0][0]), int(new.blocks[0][0])
    assert chains.copies(int(chains.newest(text(range(4)), b"")[0])) == [second, first]
    chains.touch(first)
    assert chains.copies(int(chains.newest(text(range(4)), b"")[0])) == [first, second]


def test_num_merged_is_an_average_over_blocks() -> None:
    of = pools()
    counts = np.array([2, 3, 4], dtype=np.int32)
    chains, (mean,) = stored(of, text(range(10)), num_merged=counts)
    assert mean.is_mean
    assert chains.num_merged(tuple(mean.blocks[0][1:].tolist())) == 3.5
    chains, (copy,) = stored(pools(), text(range(10)))
    assert not copy.is_mean and chains.num_merged((int(copy.blocks[0][2]),)) == 1


def test_blocks_stay_with_whoever_else_holds_them() -> None:
    of = pools(2)
    chains, (one,) = stored(of, text(range(8)))
    for pool, blocks in zip(of, one.blocks):
        pool.touch(blocks)
    assert not chains.drop_oldest() and of[0].num_weak == 0
    chains.remove(one)
    for pool, blocks in zip(of, one.blocks):
        assert (pool.ref_count[blocks] == 1).all()
        pool.give_back(pool.free(blocks))
        assert pool.num_free == pool.num_blocks


@pytest.mark.parametrize("damage", ["tokens", "freed", "place"])
def test_check_integrity_notices(damage: str) -> None:
    of = pools()
    chains, (one,) = stored(of, text(range(8)))
    block = int(one.blocks[0][1])
    if damage == "tokens":
        of[0].tokens[block] += 1
    elif damage == "freed":
        of[0].weak_count[block] = 0
    else:
        chains._place[block] = 0
    with pytest.raises(AssertionError):
        chains.check_integrity()
