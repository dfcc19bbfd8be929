from __future__ import annotations

import json

import pytest
from cache.walks import GROUP, make_manager, run, tokens_from, tokens_of

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes
from kvtool.cache.events import AllBlocksCleared, BlockRemoved, BlockStored, Event, as_json


def names(namespace: bytes, *blocks: tuple[int, ...]) -> tuple[str, ...]:
    digest, found = root_hash(namespace), []
    for block in blocks:
        digest = hash_block(digest, token_bytes(tokens_of(*block)))
        found.append(digest.hex())
    return tuple(found)


@pytest.mark.parametrize("prefix_index", ["radix", "chain"])
def test_events_name_blocks_alike_with_both_indexes(prefix_index: str) -> None:
    events: list[Event] = []
    manager = make_manager(2, 2, events=events.append, prefix_index=prefix_index)
    kv = manager.begin(tokens_of(1, 2, 3, 4), b"n")
    manager.allocate(kv, 4)
    manager.commit(kv, tokens_of(1, 2))
    manager.commit(kv, tokens_of(1, 2, 3, 4))
    manager.free(kv, tokens_of(1, 2, 3, 4))
    one, two = names(b"n", (1, 2), (3, 4))
    assert events == [
        BlockStored(block_hashes=(one,), parent_block_hash=None, token_ids=(1, 2), block_size=2),
        BlockStored(block_hashes=(two,), parent_block_hash=one, token_ids=(3, 4), block_size=2),
    ]
    events.clear()
    run(manager, tokens_of(5, 6))
    assert events[0] == BlockRemoved(block_hashes=(two,))
    events.clear()
    manager.clear()
    assert events == [AllBlocksCleared()]


def test_partial_blocks_and_twins_are_silent() -> None:
    events: list[Event] = []
    manager = make_manager(8, events=events.append)
    first, second = manager.begin(tokens_from(0, 6)), manager.begin(tokens_from(0, 6))
    for kv in (first, second):
        manager.allocate(kv, 6)
        manager.commit(kv, tokens_from(0, 6))
        manager.free(kv, tokens_from(0, 6))
    assert [type(event) for event in events] == [BlockStored]


def test_every_group_reports() -> None:
    events: list[Event] = []
    manager = make_manager(8, groups=(GROUP, GROUP), events=events.append)
    run(manager, tokens_from(0, 8))
    assert [event.group_id for event in events if isinstance(event, BlockStored)] == [0, 1]


def test_as_json() -> None:
    event = BlockStored(
        block_hashes=("ab",), parent_block_hash=None, token_ids=(1, 2), block_size=2
    )
    assert json.loads(json.dumps(as_json(event))) == {
        "type": "BlockStored",
        "block_hashes": ["ab"],
        "parent_block_hash": None,
        "token_ids": [1, 2],
        "block_size": 2,
        "lora_id": None,
        "medium": "device",
        "group_id": 0,
    }
    assert as_json(AllBlocksCleared()) == {"type": "AllBlocksCleared"}
