"""Which URLs name a remote store, and what is said about the others."""

from __future__ import annotations

import sys

import pytest

from kvtool.errors import ConfigError
from kvtool.tiers.mooncake import MooncakeTier, parse_remote


@pytest.mark.parametrize(
    ("url", "host", "port", "text"),
    [
        ("mooncake://127.0.0.1:50051", "127.0.0.1", 50051, "127.0.0.1:50051"),
        ("mooncake://kv.example:1/", "kv.example", 1, "kv.example:1"),
        ("mooncake://kv_1-a.example.:1", "kv_1-a.example.", 1, "kv_1-a.example.:1"),
        ("mooncake://[::1]:65535", "::1", 65535, "[::1]:65535"),
    ],
)
def test_addresses(url: str, host: str, port: int, text: str) -> None:
    address = parse_remote(url)
    assert address == (host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "does not begin with mooncake://"),
        ("127.0.0.1:50051", "does not begin with mooncake://"),
        ("redis://127.0.0.1:50051", "does not begin with mooncake://"),
        ("mooncake://", "names no host"),
        ("mooncake://:50051", "names no host"),
        ("mooncake://host", "names no port"),
        ("mooncake://host:0", "names no port"),
        ("mooncake://host:70000", "port is not a number"),
        ("mooncake://host:http", "port is not a number"),
        ("mooncake://[::1:5", "neither a name nor an address"),
        ("mooncake://a b:1", "neither a name nor an address"),
        ("mooncake://\udcff:1", "neither a name nor an address"),
        ("mooncake://h\u00f6st:1", "neither a name nor an address"),
        ("mooncake://\u2100:1", "neither a name nor an address"),
        ("mooncake://a..b:1", "neither a name nor an address"),
        (f"mooncake://{'a' * 64}:1", "neither a name nor an address"),
        (f"mooncake://{'a.' * 127}:1", "neither a name nor an address"),
        ("mooncake://[::g]:1", "neither a name nor an address"),
        ("mooncake://[fe80::1%a]:1", "neither a name nor an address"),
        ("mooncake://host:1/kv", "more in it than host and port"),
        ("mooncake://host:1?segment=1", "more in it than host and port"),
        ("mooncake://me:secret@host:1", "more in it than host and port"),
    ],
)
def test_refused(url: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        parse_remote(url)
    assert "mooncake://HOST:PORT" in refused.value.message
    assert refused.value.hint


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mooncake.store", None)
    with pytest.raises(ConfigError, match="not installed") as refused:
        MooncakeTier("mooncake://127.0.0.1:1", (), 16)
    assert refused.value.hint == "pip install 'kvtool[mooncake]'"
