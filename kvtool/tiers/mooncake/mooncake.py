"""A Mooncake store as a tier: every full block an object, put from and got into block memory."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from kvtool.cache.backing import Run, StoredBlock
from kvtool.cache.block_hash import token_bytes
from kvtool.cache.block_pool import Tokens
from kvtool.cache.group import GroupSpec
from kvtool.tiers.memory import BlockViews
from kvtool.tiers.mooncake.address import parse_remote
from kvtool.tiers.mooncake.block_object import BlockFormat, object_name
from kvtool.tiers.mooncake.client import Codes, Unavailable
from kvtool.tiers.mooncake.connection import load_library
from kvtool.tiers.mooncake.directory import TextDirectory
from kvtool.tiers.mooncake.forgotten import Forgotten
from kvtool.tiers.mooncake.store import FULL, OK, Buffers, RemoteStore, reason_of
from kvtool.tiers.text.listing import FoundText
from kvtool.tiers.tier import Missing, Part, Stored

CALL_BYTES = 16 << 20  # a call: a network of 10 MB/s carries it within the deadline
EVICTION_S = 0.05  # a full store makes room in the background
FORGOTTEN_S = 15.0  # a master lists what a dead machine held for 10 s
_log = logging.getLogger(__name__)


class MooncakeTier:
    """deadline_s: of every call; then the store is left alone for pause_s, and longer each time.

    The constructor tries to connect, which takes no longer either. Raises `ConfigError` for a
    wrong URL and where Mooncake is not installed, for nothing else.
    """

    name = "remote"

    def __init__(
        self,
        url: str,
        groups: tuple[GroupSpec, ...],
        block_size: int,
        *,
        deadline_s: float = 2.0,
        pause_s: float = 5.0,
    ) -> None:
        self._url = url
        self._store = RemoteStore(parse_remote(url), deadline_s, pause_s)
        self._directory = TextDirectory(self._store, block_size)
        self._format = BlockFormat(groups, block_size)
        self._groups = groups
        self._block_size = block_size
        self._forgotten = Forgotten(FORGOTTEN_S)
        self._said: set[str] = set()
        load_library(deadline_s)
        with contextlib.suppress(Unavailable):
            self._store.connect()

    def describe(self, namespace: bytes, fields: Mapping[str, object]) -> None:
        """Nothing: a store answers for keys, nobody can list what is in it."""

    def contains(self, keys: Sequence[bytes], tokens: Tokens) -> list[object]:
        """Places are the tokens asked for; those stored are compared when they are read."""
        try:
            present = self._exist(keys)
        except Unavailable:
            return []
        readable = [there and key not in self._forgotten for key, there in zip(keys, present)]
        leading = [*readable, False].index(False)
        return [token_bytes(row) for row in tokens[:leading]]

    def extend(self, parent: bytes, tokens: Tokens) -> Part | None:
        """None: keys cannot be searched for what begins alike."""
        return None

    def find_text(self, namespace: bytes, pieces: Sequence[Tokens]) -> list[FoundText]:
        """See `FindsText`."""
        try:
            return self._directory.find(namespace, pieces)
        except Unavailable:
            return []

    def get(
        self, blocks: Sequence[StoredBlock], views: BlockViews, arrived: Callable[[int], None]
    ) -> None:
        for span in self._calls(range(len(blocks))):
            self._read(blocks, views, span)
        for layer in range(sum(len(group.layers) for group in self._groups)):
            arrived(layer)

    def put(self, run: Run, views: BlockViews) -> Stored:
        """Full blocks; a partial last one is left out without a reason. Where one of them is new,
        others find the run by its text too."""
        num_stored = 0
        keys = run.keys[: len(run.tokens) // self._block_size]
        try:
            present = self._exist(keys)
            missing = [index for index, there in enumerate(present) if not there]
            for span in self._calls(missing):
                codes = self._write(run, views, span)
                num_stored += codes.count(OK)
                if (code := min(codes)) != OK:
                    return self._stored(num_stored, self._not_stored(code))
        except Unavailable as error:
            return self._stored(num_stored, str(error))._replace(unfinished=error.unfinished)
        if num_stored:
            self._directory.add(run)
        unreadable = any(key in self._forgotten for key in keys)
        return self._stored(
            num_stored, "a copy that is there cannot be read" if unreadable else None
        )

    def remove(self, keys: Sequence[bytes]) -> int:
        self._forgotten.add(keys)
        try:
            return self._store.remove([object_name(key) for key in keys]).count(OK)
        except Unavailable:
            return 0

    def check_integrity(self) -> None:
        """Nothing: what it holds is out of sight, and verified whenever it is read."""

    def close(self) -> None:
        """The connection serves the process (see `connection.connect`)."""

    def _exist(self, keys: Sequence[bytes]) -> list[bool]:
        return self._store.exist([object_name(key) for key in keys]) if keys else []

    def _calls(self, blocks: Sequence[int]) -> Iterator[Sequence[int]]:
        """`blocks` in parts that are moved by one call each."""
        length = max(1, CALL_BYTES // self._format.object_bytes)
        for start in range(0, len(blocks), length):
            yield blocks[start : start + length]

    def _kv(self, views: BlockViews, index: int) -> list[memoryview]:
        return [views.block(group, index) for group in range(len(self._groups))]

    def _read(self, blocks: Sequence[StoredBlock], views: BlockViews, span: Sequence[int]) -> None:
        """Blocks `span` of `blocks`, verified; raises `Missing`."""
        kv = {index: self._kv(views, index) for index in span}
        headers = {index: self._format.empty(1) for index in span}
        keys = [blocks[index].key for index in span]
        names = [object_name(key) for key in keys]
        try:
            codes = self._store.get(names, [[headers[index], *kv[index]] for index in span])
        except Unavailable as error:
            self._forgotten.add(keys)
            raise Missing(str(error), error.unfinished) from None
        if (code := min(codes)) < OK:
            self._forgotten.add([key for key, code in zip(keys, codes) if code < OK])
            raise Missing(self._unreadable(reason_of(code)))
        for index, key in zip(span, keys):
            tokens = blocks[index].place
            assert isinstance(tokens, bytes)
            fault = self._format.fault(headers[index], key, tokens, kv[index])
            if fault is not None:
                self.remove([key])  # so that somebody's good copy can take its place
                raise Missing(self._unreadable(fault))

    def _write(self, run: Run, views: BlockViews, span: Sequence[int]) -> Codes:
        """Codes of the blocks `span` of `run`, after one more try of those without room."""
        objects: dict[int, Buffers] = {}
        for index in span:
            kv = self._kv(views, index)
            objects[index] = [self._format.describe(run, index, kv), *kv]
        codes = dict.fromkeys(span, FULL)
        for wait_s in (0.0, EVICTION_S):
            time.sleep(wait_s)
            rest = [index for index in span if codes[index] == FULL]
            names = [object_name(run.keys[index]) for index in rest]
            codes.update(zip(rest, self._store.put(names, [objects[index] for index in rest])))
            if FULL not in codes.values():
                break
        self._forgotten.discard([run.keys[index] for index in span if codes[index] == OK])
        return list(codes.values())

    def _stored(self, num_blocks: int, reason: str | None = None) -> Stored:
        return Stored(num_blocks, num_blocks * sum(self._format.sizes), reason)

    def _not_stored(self, code: int) -> str:
        return self._say_once(reason_of(code), "does not keep everything", "computed again")

    def _unreadable(self, reason: str) -> str:
        return self._say_once(reason, "could not deliver KV", "computed instead")

    def _say_once(self, reason: str, what: str, consequence: str) -> str:
        if reason not in self._said:
            self._said.add(reason)
            _log.warning(
                "The remote store %s %s: %s. It is %s.", self._url, what, reason, consequence
            )
        return reason
