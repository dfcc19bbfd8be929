"""What is indexed, in which order copies come, and that nothing stays behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reuse.texts import Store, text

from kvtool.cache.block_pool import BlockPool
from kvtool.cache.block_tree import BlockTree
from kvtool.cache.index import INDEXES
from kvtool.reuse.content_index import ContentIndex


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("block_size", [1, 4])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_index_follows_the_pool(index: str, block_size: int, seed: int) -> None:
    """Texts over two ids come in two namespaces, leaves go, blocks are used."""
    rng = np.random.default_rng(seed)
    store = Store(48, block_size, index)
    for _ in range(40):
        leaves = store.leaves()
        tokens = rng.integers(0, 2, int(rng.integers(1, 5 * block_size + 2))).astype(np.int32)
        if store.pool.num_free * block_size > len(tokens) + block_size and rng.random() < 0.6:
            store.add(tokens, rng.choice([b"a", b"b"]))
        elif leaves and rng.random() < 0.8:
            store.remove(int(rng.choice(leaves)))
        else:
            cached = sorted(store.tree.blocks())
            full = [block for block in cached if store.tree.num_tokens(block) == block_size]
            store.content.touch(rng.permutation(np.array(full, dtype=np.int64))[:5])
        store.check_integrity()
    while leaves := store.leaves():
        store.remove(leaves[0])
    store.check_integrity()
    assert (store.content.newest(text(range(2)), b"a") == -1).all()


def copies(store: Store, content: range) -> list[int]:
    newest = store.content.newest(text(content), b"")
    return store.content.copies(int(newest[0])) if newest[0] >= 0 else []


def test_at_most_eight_copies_last_used_first() -> None:
    store = Store()
    blocks = [store.add(text([90 + i] * 4, range(4)))[1] for i in range(10)]
    assert copies(store, range(4)) == blocks[:1:-1]
    store.content.touch(np.array([blocks[0], blocks[5]]))
    newest = [blocks[i] for i in (0, 5, 9, 8, 7, 6, 4, 3)]
    assert copies(store, range(4)) == newest
    store.remove(blocks[9])
    assert copies(store, range(4)) == [blocks[i] for i in (0, 5, 8, 7, 6, 4, 3, 2)]
    store.check_integrity()


def test_of_a_repeated_text_the_first_block_comes_first() -> None:
    """So that the run from there on is as long as it can be."""
    store = Store()
    blocks = store.add(text(90, 91, 92, 93, range(4), range(4), range(4)))
    assert copies(store, range(4)) == blocks[1:]


def test_copies_older_than_the_found_one_are_its_own_namespace() -> None:
    store = Store()
    a = store.add(text(range(8)), b"a")
    b = store.add(text(range(8)), b"b")
    for namespace, blocks in ((b"a", a), (b"b", b)):
        newest = store.content.newest(text(range(8)), namespace)
        assert [newest[0], newest[4]] == blocks and (newest[1:4] == -1).all()
        assert store.content.copies(blocks[0]) == blocks[:1]
    assert (store.content.newest(text(range(8)), b"c") == -1).all()


def test_chains_can_be_walked_both_ways() -> None:
    store = Store()
    content, blocks = store.content, store.add(text(7, range(12)))
    assert [store.tree.num_tokens(block) for block in blocks] == [4, 4, 4, 1]
    assert [content.first_token(block) for block in blocks] == [7] * 4
    assert [content.home(block) for block in blocks] == [0, 4, 8, 12]
    assert content.ancestors(blocks[3], 9) == blocks[2::-1]
    assert content.ancestors(blocks[3], 2) == blocks[2:0:-1]
    assert content.descendants(blocks[0], 9) == blocks[1:3], "the last one is partly filled"
    assert content.descendants(blocks[0], 1) == blocks[1:2]
    store.add(text(7, range(7), 70))
    assert content.descendants(blocks[0], 9) == blocks[1:2], "a fork"
    assert content.longest_child(blocks[1], text(7, 8, 9, 1)) == (blocks[2], 3)
    assert content.tokens(blocks[:2]).tolist() == [[7, 0, 1, 2], [3, 4, 5, 6]]


@pytest.mark.parametrize("column", ["_root", "_first", "tokens"])
def test_check_integrity_compares_the_index_with_the_tree(column: str) -> None:
    store = Store()
    blocks = store.add(text(range(12)))
    store.check_integrity()
    owner = store.pool if column == "tokens" else store.content
    getattr(owner, column)[blocks[1]] += 1
    with pytest.raises(AssertionError):
        store.content.check_integrity()


def test_a_block_that_was_never_removed_is_noticed() -> None:
    store = Store()
    blocks = store.add(text(range(8)))
    store.prefix.remove(blocks[-1:])
    with pytest.raises(AssertionError):
        store.content.check_integrity()


def test_memory_of_a_block() -> None:
    pool = BlockPool(100_000, 16)
    index = ContentIndex(BlockTree(pool))
    parts = (index, index._table)
    arrays = [value for part in parts for value in vars(part).values()]
    owned = [a for a in arrays if isinstance(a, np.ndarray) and a.base is not pool.tokens]
    assert sum(array.nbytes for array in owned) <= 36 * pool.num_blocks
