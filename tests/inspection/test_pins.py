"""Pins, and what stands in front of them."""

from __future__ import annotations

import pytest
from inspection.small_cache import encode, put

from kvtool.errors import CacheError
from kvtool.inspection.pins import find_keys, pin, unpin
from kvtool.tiers.disk.catalog import Catalog


@pytest.fixture
def chain(catalog: Catalog) -> tuple[str, str]:
    head = put(catalog, encode("abcd"))
    return head.key, put(catalog, encode("abcdefgh"), first_block=1).key


def pinned(catalog: Catalog) -> set[str]:
    return {entry.key for entry in catalog.entries() if entry.pinned}


def test_a_pin_holds_what_stands_in_front(catalog: Catalog, chain: tuple[str, str]) -> None:
    change = pin(catalog, [chain[1]])
    assert set(change.keys) == pinned(catalog) == set(chain)
    assert change.tokens == 8
    assert pin(catalog, [chain[1]]).keys == ()


def test_unpin_undoes_pin(catalog: Catalog, chain: tuple[str, str]) -> None:
    pin(catalog, [chain[1]])
    change = unpin(catalog, [chain[1]])
    assert (set(change.keys), change.kept) == (set(chain), 0)
    assert pinned(catalog) == set()
    assert unpin(catalog, [chain[1]]).keys == ()


def test_a_head_that_another_pinned_run_needs_stays(
    catalog: Catalog, chain: tuple[str, str]
) -> None:
    other = put(catalog, encode("abcdxyzw"), first_block=1).key
    pin(catalog, [chain[1], other])
    assert unpin(catalog, [chain[1]]).keys == (chain[1],)
    assert pinned(catalog) == {chain[0], other}
    change = unpin(catalog, [chain[0]])
    assert (change.keys, change.kept) == ((), 1)
    assert set(unpin(catalog, [other]).keys) == {chain[0], other}


def test_keys_are_named_by_their_beginning(catalog: Catalog, chain: tuple[str, str]) -> None:
    assert find_keys(catalog, [chain[0][:10], chain[0], chain[1]]) == list(chain)
    with pytest.raises(CacheError):
        find_keys(catalog, ["0" * 70])
    with pytest.raises(CacheError):
        find_keys(catalog, [""])
