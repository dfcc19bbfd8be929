"""Tiers that a test can look into, break and hold up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from typing import NamedTuple

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_hash import token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.tiers.host import one_block
from kvtool.tiers.host_index import common_bytes
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.text.listing import Changes, Listed
from kvtool.tiers.tier import Missing, Part, Stored


class Kept(NamedTuple):
    run: Run  # this one block
    kv: tuple[bytes, ...]  # per group

    @property
    def token_bytes(self) -> bytes:
        return token_bytes(self.run.tokens)


class DictTier:
    """Layer by layer. calls: names of the methods called, in order."""

    def __init__(
        self, name: str, groups: tuple[GroupSpec, ...], block_size: int, kept: Mapping | None = None
    ) -> None:
        self.name = name
        self.groups = groups
        self.block_size = block_size
        self.kept: dict[bytes, Kept] = dict(kept or {})
        self.calls: list[str] = []
        self.runs: list[Run] = []
        self.namespaces: dict[bytes, Mapping[str, object]] = {}
        self.is_closed = False

    def describe(self, namespace: bytes, fields: Mapping[str, object]) -> None:
        self.namespaces[namespace] = fields

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        self.calls.append("contains")
        places: list[object] = []
        for key, row in zip(keys, tokens):
            if key not in self.kept or self.kept[key].token_bytes != token_bytes(row):
                break
            places.append(self.kept[key])
        return places

    def extend(self, parent: bytes, tokens: Tokens) -> Part | None:
        self.calls.append("extend")
        wanted = token_bytes(tokens)
        parts = [
            Part(key, common_bytes(kept.token_bytes, wanted) // 4, kept)
            for key, kept in list(self.kept.items())
            if kept.run.parent == parent
        ]
        best = max(parts, key=lambda part: part.num_tokens, default=None)
        return best if best is not None and best.num_tokens else None

    def get(
        self, blocks: Sequence[StoredBlock], views: BlockViews, arrived: Callable[[int], None]
    ) -> None:
        self.calls.append("get")
        for layer in range(sum(len(group.layers) for group in self.groups)):
            self.before_layer(layer)
            for index, block in enumerate(blocks):
                if block.key not in self.kept:
                    raise Missing("it is gone")
                self._copy_layer(layer, self.kept[block.key], views, index)
            arrived(layer)

    def before_layer(self, layer: int) -> None:
        """For subclasses that fail or wait."""

    def _copy_layer(self, layer: int, kept: Kept, views: BlockViews, index: int) -> None:
        for group, raw in zip(self.groups, kept.kv):
            if layer in group.layers:
                size, row = len(raw) // len(group.layers), group.layers.index(layer)
                views.layer(layer, index)[:] = raw[row * size : (row + 1) * size]

    def put(self, run: Run, views: BlockViews) -> Stored:
        self.calls.append("put")
        self.runs.append(run)
        new = [index for index, key in enumerate(run.keys) if key not in self.kept]
        for index in new:
            kv = tuple(bytes(views.block(group, index)) for group in range(len(self.groups)))
            self.kept[run.keys[index]] = Kept(one_block(run, index, self.block_size), kv)
        return Stored(len(new), sum(g.block_bytes(self.block_size) for g in self.groups) * len(new))

    def remove(self, keys: Sequence[bytes]) -> int:
        self.calls.append("remove")
        return sum(self.kept.pop(key, None) is not None for key in keys)

    def check_integrity(self) -> None:
        assert all(kept.run.keys == (key,) for key, kept in list(self.kept.items()))

    def close(self) -> None:
        self.is_closed = True


class FailingTier(DictTier):
    """Cannot read layer `fails_at` of anything it reads, and forgets what it was asked for."""

    fails_at: int | None = None
    error: type[Exception] = Missing

    def get(
        self, blocks: Sequence[StoredBlock], views: BlockViews, arrived: Callable[[int], None]
    ) -> None:
        try:
            super().get(blocks, views, arrived)
        except Missing:
            self.remove([block.key for block in blocks])
            raise

    def before_layer(self, layer: int) -> None:
        if layer == self.fails_at:
            raise self.error("its checksum differs")


class GatedTier(DictTier):
    """Neither reads a layer nor writes a run before the gate is open."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.gate = threading.Event()
        self.gate.set()
        self.reached = threading.Event()

    def before_layer(self, layer: int) -> None:
        self.reached.set()
        self.gate.wait()

    def put(self, run: Run, views: BlockViews) -> Stored:
        self.reached.set()
        self.gate.wait()
        return super().put(run, views)


class TextTier(FailingTier):
    """Says what text it has, a run a block."""

    def text_changes(self, namespace: bytes, known: Set[Hashable], state: object) -> Changes:
        new = [
            Listed(key, kept.run, 0)
            for key, kept in list(self.kept.items())
            if key not in known and kept.run.namespace == namespace and kept.run.exact
        ]
        return Changes(None, {key for key in known if key not in self.kept}, new)
