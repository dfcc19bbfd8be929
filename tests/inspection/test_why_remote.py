"""A prompt and a store that answers for keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest
from inspection.small_cache import NAMESPACE, encode

from kvtool.cache.block_keys import BlockKeys
from kvtool.cache.block_pool import Tokens
from kvtool.inspection.served import Rules
from kvtool.inspection.why_remote import explain_remote
from kvtool.tiers.tier import Tier


class Store:
    name = "remote"

    def __init__(self, text: str) -> None:
        tokens = encode(text)
        keys = BlockKeys(NAMESPACE.digest, tokens, NAMESPACE.block_size)
        self.held = set(keys.span(0, keys.num_full_blocks))

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        assert tokens.shape == (len(keys), NAMESPACE.block_size)
        held = [key in self.held for key in keys]
        return [None] * (held.index(False) if False in held else len(held))


@pytest.mark.parametrize(
    ("prompt", "spans"),
    [
        ("abcdefgh", [(0, 7, None), (7, 8, "last_token")]),
        ("abcdefghij", [(0, 8, None), (8, 10, "not_in_store")]),
        ("abcdxxxx", [(0, 4, None), (4, 8, "not_in_store")]),
        ("abc", [(0, 3, "not_in_store")]),
    ],
)
def test_full_blocks_hit(prompt: str, spans: list[Any]) -> None:
    tier = cast(Tier, Store("abcdefgh"))
    found = explain_remote(tier, NAMESPACE, encode(prompt), Rules())
    assert [(s.start, s.end, s.reason) for s in found.spans] == spans
    assert {s.tier for s in found.spans if s.kind == "hit"} <= {"remote"}
