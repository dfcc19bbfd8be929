"""A block as one object of the store: a header, then the block's bytes of every layer group.

One object, so that whoever finds the key finds the whole block. Integers are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import DIGEST_BYTES, hash_block, token_bytes
from kvtool.cache.group import GroupSpec

MAGIC = b"kvtool\0\1"  # the last byte is the format version, as is the 1 in the names
CHECKSUM_BYTES = 16  # xxh3_128

Headers = npt.NDArray[np.void]


def object_name(key: bytes) -> str:
    return f"kvtool/1/{key.hex()}"


class BlockFormat:
    """The layout for models with these groups and this block size."""

    def __init__(self, groups: Sequence[GroupSpec], block_size: int) -> None:
        self.sizes = [group.block_bytes(block_size) for group in groups]
        digest = ("u1", (DIGEST_BYTES,))
        self.header = np.dtype(
            [
                ("magic", f"S{len(MAGIC)}"),
                ("namespace", *digest),
                ("parent", *digest),
                ("home", "<i8"),
                ("exact", "<i4"),
                ("block_size", "<i4"),
                ("num_groups", "<i4"),
                ("sizes", "<i8", (len(groups),)),
                ("tokens", "<i4", (block_size,)),
                ("checksums", "u1", (len(groups), CHECKSUM_BYTES)),
                ("own_checksum", "u1", (CHECKSUM_BYTES,)),
            ]
        )
        self._block_size = block_size

    @property
    def object_bytes(self) -> int:
        return self.header.itemsize + sum(self.sizes)

    def empty(self, num_blocks: int) -> Headers:
        return np.zeros(num_blocks, dtype=self.header)

    def describe(self, run: Run, index: int, kv: Sequence[memoryview]) -> Headers:
        """The header, as an array of one, of the full block `index` of `run`."""
        header = self.empty(1)
        start = index * self._block_size
        parent = run.keys[index - 1] if index else run.parent
        header["magic"] = MAGIC
        header["namespace"] = np.frombuffer(run.namespace, dtype=np.uint8)
        header["parent"] = np.frombuffer(parent, dtype=np.uint8)
        header["home"] = run.home + start
        header["exact"] = run.exact
        header["block_size"] = self._block_size
        header["num_groups"] = len(self.sizes)
        header["sizes"] = self.sizes
        header["tokens"] = run.tokens[start : start + self._block_size]
        header["checksums"] = [_checksum(part) for part in kv]
        header["own_checksum"] = _own_checksum(header)
        return header

    def fault(
        self, header: Headers, key: bytes, tokens: bytes, kv: Sequence[memoryview]
    ) -> str | None:
        """What is wrong with a block that was read; None: it is the one that `key` names.

        header: an array of one. tokens: those asked for, as `token_bytes` gives them.
        """
        row = header[0]
        if not np.array_equal(row["own_checksum"], _own_checksum(header)):
            return "a header is damaged"
        if row["magic"] != MAGIC or row["sizes"].tolist() != self.sizes:
            return "a header is of another format"
        stored = token_bytes(row["tokens"])
        if stored != tokens or hash_block(row["parent"].tobytes(), stored) != key:
            return "a block holds other tokens than its key says"
        if any(bytes(a) != _checksum(part).tobytes() for a, part in zip(row["checksums"], kv)):
            return "a block is damaged"
        return None


def _own_checksum(header: Headers) -> npt.NDArray[np.uint8]:
    return _checksum(header.tobytes()[:-CHECKSUM_BYTES])


def _checksum(data: memoryview | bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(xxhash.xxh3_128_digest(data), dtype=np.uint8)
