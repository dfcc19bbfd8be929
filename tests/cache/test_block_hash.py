from __future__ import annotations

from hashlib import sha256

import numpy as np
import pytest
from cache.walks import tokens_of

from kvtool.cache.block_hash import hash_block, root_hash, token_bytes


def test_token_bytes_are_little_endian_int32() -> None:
    assert token_bytes(tokens_of(1, 258)) == b"\1\0\0\0\2\1\0\0"
    assert token_bytes(tokens_of(1, 258).astype(">i4")) == b"\1\0\0\0\2\1\0\0"
    assert token_bytes(np.arange(8, dtype=np.int32)[::4]) == token_bytes(tokens_of(0, 4))


@pytest.mark.report("S66")
def test_a_hash_covers_the_tokens_and_everything_in_front_of_them() -> None:
    root, tokens = root_hash(b""), token_bytes(tokens_of(1, 2))
    first = hash_block(root, tokens)
    assert first == sha256(root + tokens).digest()
    assert len({first, hash_block(first, tokens), hash_block(root_hash(b"x"), tokens)}) == 3
    assert root_hash(b"") != root_hash(b"\0")
