"""What the store says of the text of its blocks: anchors, and the records they name.

A record is a stretch of one sequence: its tokens in full blocks, what stands in front of them, and
the key in front, from which the keys of all its blocks follow. Integers are little-endian.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import DIGEST_BYTES, hash_block, token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.tiers.text.listing import FoundText, Head

CHECKSUM_BYTES = 16  # xxh3_128, at the end of every object
MAX_TOKENS = 1 << 20  # of a record that is read
MAX_HOME = 1 << 30
_DIGEST = ("u1", (DIGEST_BYTES,))
_ANCHOR = np.dtype(
    [
        ("magic", "S8"),
        ("namespace", *_DIGEST),
        ("last_key", *_DIGEST),
        ("num_context", "<i4"),
        ("num_tokens", "<i4"),
    ]
)
_HEAD = np.dtype(
    [
        ("magic", "S8"),
        ("namespace", *_DIGEST),
        ("parent", *_DIGEST),
        ("home", "<i8"),
        ("first_token", "<i4"),
        ("block_size", "<i4"),
        ("num_context", "<i4"),
        ("num_tokens", "<i4"),
    ]
)
_ANCHOR_MAGIC = b"kvanchr\1"  # the last byte is the format version
_RECORD_MAGIC = b"kvrecrd\1"

Bytes = npt.NDArray[np.uint8]


class Reference(NamedTuple):
    """Names a record, whose size has to be known before it is read. last_key: of its last block."""

    last_key: bytes
    num_context: int
    num_tokens: int

    @property
    def name(self) -> str:
        return f"kvtool/1/run/{self.last_key.hex()}"

    @property
    def record_bytes(self) -> int:
        return _HEAD.itemsize + 4 * (self.num_context + self.num_tokens) + CHECKSUM_BYTES


def reference_of(found: FoundText) -> Reference:
    run = found.run
    return Reference(run.keys[-1], len(found.head.context), len(run.tokens))


ANCHOR_BYTES = _ANCHOR.itemsize + CHECKSUM_BYTES


def encode_anchor(namespace: bytes, reference: Reference) -> Bytes:
    head = np.zeros(1, dtype=_ANCHOR)
    head["magic"] = _ANCHOR_MAGIC
    head["namespace"] = np.frombuffer(namespace, dtype=np.uint8)
    head["last_key"] = np.frombuffer(reference.last_key, dtype=np.uint8)
    head["num_context"], head["num_tokens"] = reference[1:]
    return _sealed(head.tobytes())


def decode_anchor(data: Bytes, namespace: bytes) -> Reference | None:
    """None: it is damaged, of another format or of another namespace."""
    body = _unsealed(data)
    if body is None or len(body) != _ANCHOR.itemsize:
        return None
    head = np.frombuffer(body, dtype=_ANCHOR)[0]
    if head["magic"] != _ANCHOR_MAGIC or head["namespace"].tobytes() != namespace:
        return None
    reference = Reference(
        head["last_key"].tobytes(), int(head["num_context"]), int(head["num_tokens"])
    )
    sizes = reference.num_context, reference.num_tokens
    return reference if all(0 <= size <= MAX_TOKENS for size in sizes) else None


def encode_record(found: FoundText, block_size: int) -> Bytes:
    run, context = found.run, found.head.context
    head = np.zeros(1, dtype=_HEAD)
    head["magic"] = _RECORD_MAGIC
    head["namespace"] = np.frombuffer(run.namespace, dtype=np.uint8)
    head["parent"] = np.frombuffer(run.parent, dtype=np.uint8)
    head["home"], head["first_token"] = run.home, found.head.first_token
    head["block_size"] = block_size
    head["num_context"], head["num_tokens"] = len(context), len(run.tokens)
    return _sealed(head.tobytes() + token_bytes(context) + token_bytes(run.tokens))


def decode_record(
    data: Bytes, reference: Reference, namespace: bytes, block_size: int
) -> FoundText | None:
    """None: it is damaged, of another format, or not what the anchor named."""
    body = _unsealed(data)
    if body is None or len(body) < _HEAD.itemsize:
        return None
    head = np.frombuffer(body[: _HEAD.itemsize], dtype=_HEAD)[0]
    tokens = np.frombuffer(body[_HEAD.itemsize :], dtype="<i4").astype(np.int32)
    num_context, num_tokens = int(head["num_context"]), int(head["num_tokens"])
    if (
        head["magic"] != _RECORD_MAGIC
        or head["namespace"].tobytes() != namespace
        or int(head["block_size"]) != block_size
        or (num_context, num_tokens) != reference[1:]
        or num_tokens % block_size
        or not num_context <= int(head["home"]) <= MAX_HOME
    ):
        return None
    context, tokens = tokens[:num_context], tokens[num_context:]
    parent = head["parent"].tobytes()
    keys = chained_keys(parent, tokens, block_size)
    if not keys or keys[-1] != reference.last_key:
        return None
    run = Run(namespace, parent, keys, tokens, int(head["home"]))
    return FoundText(run, Head(int(head["first_token"]), context))


def chained_keys(parent: bytes, tokens: Tokens, block_size: int) -> tuple[bytes, ...]:
    """Keys of full blocks behind `parent`."""
    keys = []
    for start in range(0, len(tokens), block_size):
        parent = hash_block(parent, token_bytes(tokens[start : start + block_size]))
        keys.append(parent)
    return tuple(keys)


def _sealed(body: bytes) -> Bytes:
    return np.frombuffer(body + xxhash.xxh3_128_digest(body), dtype=np.uint8)


def _unsealed(data: Bytes) -> bytes | None:
    raw = data.tobytes()
    body, checksum = raw[:-CHECKSUM_BYTES], raw[-CHECKSUM_BYTES:]
    return body if xxhash.xxh3_128_digest(body) == checksum else None
