"""What people are told about a cache folder: its runs, their sum, what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Entry:
    """One stored run: consecutive blocks of one sequence, one file.

    key: hex, the stem of the file's name, made from its content. fields: those of `Namespace`;
    of a salt only "set" or None; empty where nobody described the namespace. parent: the key in
    front of the first block. keys: one a block. tokens: int32 [num_tokens]. home: the position of
    the first token. num_bytes: of the file. created, last_used: unix seconds.
    """

    key: str
    namespace: bytes
    fields: Mapping[str, object]
    parent: bytes
    keys: tuple[bytes, ...]
    tokens: Tokens
    home: int
    block_size: int
    num_bytes: int
    created: float
    last_used: float
    hits: int
    pinned: bool
    exact: bool
    provenance: str

    @property
    def num_blocks(self) -> int:
        return len(self.keys)

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)


class RunContents(NamedTuple):
    """kv: per group, verified bytes, uint8 [num_blocks, num_layers, layer_bytes].

    A layer's bytes are [2, num_kv_heads, block_size, head_dim] values of the group's dtype, of a
    latent group [block_size, head_dim]; slots behind the last token are zero.
    """

    groups: tuple[GroupSpec, ...]
    block_size: int
    kv: tuple[npt.NDArray[np.uint8], ...]


class Totals(NamedTuple):
    """cap_bytes: what the last process that wrote here was allowed; None: nobody wrote yet."""

    entries: int
    blocks: int
    tokens: int
    bytes: int
    cap_bytes: int | None
    pinned_bytes: int


FOREIGN = "not a file of the cache; it is never touched"


class Damage(NamedTuple):
    """file: its name inside the cache folder. reason: a sentence without a full stop; `FOREIGN`
    is for information, no harm was done."""

    file: str
    reason: str


class Repaired(NamedTuple):
    """kept: runs in the new index. dropped: what was removed, with the reason."""

    kept: int
    dropped: list[Damage]


def bytes_text(num_bytes: int) -> str:
    return "1 byte" if num_bytes == 1 else f"{num_bytes:,} bytes"
