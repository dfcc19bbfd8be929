"""Names of blocks: sha256 over the tokens of a block and of all blocks in front of it.

The same in every process and on every machine: a pure function of namespace and token ids.
"""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from kvtool.cache.block_pool import Tokens

DIGEST_BYTES = 32


def root_hash(namespace: bytes) -> bytes:
    """What the first block of a sequence is chained to."""
    return sha256(b"kvtool block chain\0" + namespace).digest()


def token_bytes(tokens: Tokens) -> bytes:
    """Little-endian int32, whatever the machine."""
    return np.ascontiguousarray(tokens, dtype="<i4").tobytes()


def hash_block(parent: bytes, tokens: bytes) -> bytes:
    """vLLM's chained block hash: `parent` is the hash of the block in front, always 32 bytes (so
    that parent and tokens cannot run into each other); `tokens` comes from `token_bytes`."""
    assert len(parent) == DIGEST_BYTES
    return sha256(parent + tokens).digest()
