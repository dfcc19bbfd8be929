"""What is stored, to the byte and the second."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from inspection.small_cache import NAMESPACE, encode, other, put

from kvtool.inspection.overview import iso_time, overview
from kvtool.tiers.disk.catalog import Catalog


def test_an_empty_cache(catalog: Catalog) -> None:
    found = overview(catalog)
    assert found.entries == ()
    tier = asdict(found.tiers[0])
    assert tier.pop("folder") == str(catalog.path)
    assert {**tier, "cap_bytes": 0} == {
        **dict.fromkeys(("entries", "blocks", "tokens", "bytes", "pinned_bytes", "cap_bytes"), 0),
        "name": "disk",
    }


def test_entries_to_the_byte(catalog: Catalog, clock: list[float]) -> None:
    entry = put(catalog, encode("abcdefghij"), provenance="import")
    clock[0] += 3600
    later = put(catalog, encode("zz"), other(salt="secret"))
    found = overview(catalog)
    (tier,) = found.tiers
    assert (tier.entries, tier.blocks, tier.tokens) == (2, 4, 12)
    assert tier.bytes == entry.num_bytes + later.num_bytes
    fields = {name: getattr(NAMESPACE, name) for name in ("weights", "architecture", "block_size")}
    assert [e.namespace["number"] for e in found.entries] == [1, 2]
    salted, plain = sorted(found.entries, key=lambda e: e.namespace["salt"] is None)
    assert salted.namespace["salt"] == "set"
    shown = asdict(plain)
    namespace = shown.pop("namespace")
    assert {name: namespace[name] for name in fields} == fields
    assert shown == {
        "key": entry.key,
        "start": 0,
        "tokens": 10,
        "blocks": 3,
        "bytes": entry.num_bytes,
        "tier": "disk",
        "created": "2026-09-21T14:13:20Z",
        "last_used": "2026-09-21T14:13:20Z",
        "hits": 0,
        "pinned": False,
        "exact": True,
        "provenance": "import",
    }


@pytest.mark.report("S49")
def test_namespaces_stay_apart(catalog: Catalog) -> None:
    """The same tokens of other weights, dtype, block size and rope are other entries."""
    spaces = [
        NAMESPACE,
        other(weights="ff"),
        other(kv_dtype="bfloat16"),
        other(block_size=8),
        other(rope_regime="linear 4"),
    ]
    for space in spaces:
        put(catalog, encode("abcdefgh"), space)
    found = overview(catalog)
    assert len({entry.key for entry in found.entries}) == 5
    assert {entry.namespace["number"] for entry in found.entries} == {1, 2, 3, 4, 5}
    for name in ("weights", "kv_dtype", "block_size", "rope_regime"):
        assert len({entry.namespace[name] for entry in found.entries}) == 2


@pytest.mark.report("S65")
def test_two_salts_differ_in_their_number_alone(catalog: Catalog) -> None:
    for salt in ("first", "second"):
        put(catalog, encode("abcd"), other(salt=salt))
    one, two = (entry.namespace for entry in overview(catalog).entries)
    assert one["number"] != two["number"]
    assert {**one, "number": 0} == {**two, "number": 0}
    assert one["salt"] == "set"


def test_a_time_that_no_calendar_has() -> None:
    """An index says what it likes."""
    assert iso_time(0.9) == iso_time(-1e300) == iso_time(float("-inf")) == "1970-01-01T00:00:00Z"
    assert iso_time(2.0**63) == iso_time(float("inf")) == "9999-12-31T23:59:59Z"
