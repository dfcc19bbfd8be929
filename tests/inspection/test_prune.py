"""What --prune names, and what stays all the same."""

from __future__ import annotations

import pytest
from inspection.small_cache import encode, other, put

from kvtool.inspection.changes import Change
from kvtool.inspection.prune import is_prune_target, prune_plan
from kvtool.tiers.disk.catalog import Catalog

DAY = 86400.0


@pytest.mark.parametrize(
    "text", ["all", "older:7d", "unused:12h", "unused:1w", "model:Llama", "3fa2b1", "0"]
)
def test_grammar(text: str) -> None:
    assert is_prune_target(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "everything", "older:", "older:7", "older:d", "older:-1d", "unused:1y", "model:"),
        *("XYZ", "../x", "all:1", "older:7d,unused:1d", "older:\u0667d"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    assert not is_prune_target(text)


def keys(change: Change) -> set[str]:
    return set(change.keys)


def test_all_but_pinned(catalog: Catalog, clock: list[float]) -> None:
    one, two = put(catalog, encode("abcd")), put(catalog, encode("xyzw"))
    plan = prune_plan(catalog, "all", clock[0])
    assert (keys(plan), plan.kept) == ({one.key, two.key}, 0)
    assert (plan.tokens, plan.bytes) == (8, one.num_bytes + two.num_bytes)
    catalog.pin([one.key])
    plan = prune_plan(catalog, "all", clock[0])
    assert (keys(plan), plan.kept) == ({two.key}, 1)


def test_by_age(catalog: Catalog, clock: list[float]) -> None:
    old = put(catalog, encode("abcd"))
    clock[0] += 6 * DAY
    young = put(catalog, encode("xyzw"))
    clock[0] += 2 * DAY
    assert keys(prune_plan(catalog, "older:7d", clock[0])) == {old.key}
    assert keys(prune_plan(catalog, "unused:7d", clock[0])) == {old.key}
    assert keys(prune_plan(catalog, "older:1d", clock[0])) == {old.key, young.key}
    assert keys(prune_plan(catalog, "older:2w", clock[0])) == set()
    assert keys(prune_plan(catalog, "older:1s", clock[0] - 30 * DAY)) == set()  # a clock set back


def test_a_head_stays_as_long_as_what_continues_it(catalog: Catalog, clock: list[float]) -> None:
    head = put(catalog, encode("abcd"))
    clock[0] += 8 * DAY
    tail = put(catalog, encode("abcdefgh"), first_block=1)
    plan = prune_plan(catalog, "older:7d", clock[0])
    assert (keys(plan), plan.kept) == (set(), 1)
    clock[0] += 8 * DAY
    assert keys(prune_plan(catalog, "older:7d", clock[0])) == {head.key, tail.key}


def test_a_key_takes_what_continues_it(catalog: Catalog, clock: list[float]) -> None:
    head = put(catalog, encode("abcd"))
    middle = put(catalog, encode("abcdefgh"), first_block=1)
    end = put(catalog, encode("abcdefghij"), first_block=2)
    put(catalog, encode("xyzw"))
    plan = prune_plan(catalog, middle.key[:16], clock[0])
    assert keys(plan) == {middle.key, end.key}
    assert keys(prune_plan(catalog, head.key, clock[0])) == {head.key, middle.key, end.key}
    catalog.pin([end.key])
    plan = prune_plan(catalog, head.key, clock[0])
    assert (keys(plan), plan.kept) == (set(), 3)


def test_by_model(catalog: Catalog, clock: list[float]) -> None:
    llama = put(catalog, encode("abcd"))
    gemma = put(catalog, encode("abcd"), other(architecture="Gemma3 00", weights="ee" * 32))
    assert keys(prune_plan(catalog, "model:gemma3", clock[0])) == {gemma.key}
    assert keys(prune_plan(catalog, "model:3fa2b1", clock[0])) == {llama.key}
    assert keys(prune_plan(catalog, "model:Qwen", clock[0])) == set()
