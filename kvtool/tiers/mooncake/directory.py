"""The text of what lies in the store, found by content: the store itself is the directory."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Run
from kvtool.cache.block_hash import root_hash
from kvtool.cache.block_pool import Tokens
from kvtool.tiers.mooncake.anchors import anchor_names
from kvtool.tiers.mooncake.client import Unavailable
from kvtool.tiers.mooncake.store import RemoteStore
from kvtool.tiers.mooncake.text_record import (
    ANCHOR_BYTES,
    chained_keys,
    decode_anchor,
    decode_record,
    encode_anchor,
    encode_record,
    reference_of,
)
from kvtool.tiers.text.listing import FoundText, Head

OVERLAP_TOKENS = 256  # of a record with the one in front of it, so that no text falls between
CONTEXT_TOKENS = 256
MAX_ANCHORS = 1024  # asked for at once: of 32,000 tokens
MAX_RECORDS = 256  # read for one prompt

Bytes = npt.NDArray[np.uint8]


class TextDirectory:
    """Records of stored runs under the anchors of their text.

    A newer copy of a text takes the anchors of an older one over, so what is found was stored last.
    Nothing is looked after: an anchor whose KV the store has dropped leads to nothing, until the
    text is stored again.
    """

    def __init__(self, store: RemoteStore, block_size: int) -> None:
        self._store = store
        self._block_size = block_size

    def add(self, run: Run) -> None:
        """run: of which blocks were stored just now; without `before` nothing is said of it.

        What cannot be written is found by its prefix alone.
        """
        record = self._record(run)
        if record is None:
            return
        names = anchor_names(run.namespace, record.run.tokens)
        reference = reference_of(record)
        anchor = encode_anchor(run.namespace, reference)
        objects = [encode_record(record, self._block_size), *[anchor] * len(names)]
        with contextlib.suppress(Unavailable):
            self._store.replace([reference.name, *names], objects)

    def find(self, namespace: bytes, pieces: Sequence[Tokens]) -> list[FoundText]:
        """Records that have an anchor in common with the pieces, by home; raises `Unavailable`.

        At most two calls, none where the pieces have no anchors.
        """
        all_names = (name for piece in pieces for name in anchor_names(namespace, piece))
        names = list(dict.fromkeys(all_names))[:MAX_ANCHORS]
        anchors = self._read(names, [ANCHOR_BYTES] * len(names))
        decoded = [decode_anchor(data, namespace) for data in anchors.values()]
        wanted = {found.name: found for found in decoded if found is not None}
        references = list(wanted.values())[:MAX_RECORDS]
        records = self._read(
            [reference.name for reference in references],
            [reference.record_bytes for reference in references],
        )
        found = [
            decode_record(data, wanted[name], namespace, self._block_size)
            for name, data in records.items()
        ]
        return sorted((f for f in found if f is not None), key=lambda record: record.run.home)

    def _read(self, names: list[str], sizes: list[int]) -> dict[str, Bytes]:
        """Those that are there, with just these sizes."""
        if not names:
            return {}
        objects = [np.zeros(size, dtype=np.uint8) for size in sizes]
        codes = self._store.get(names, [[data] for data in objects])
        return {
            name: data
            for name, data, code in zip(names, objects, codes, strict=True)
            if code == len(data)
        }

    def _record(self, run: Run) -> FoundText | None:
        """Its full blocks, and those right in front of it."""
        size = self._block_size
        num_full = len(run.tokens) // size
        if run.before is None or not num_full or not run.exact:
            return None
        assert len(run.before) == run.home
        overlap = min(OVERLAP_TOKENS // size * size, run.home)
        home = run.home - overlap
        in_front = chained_keys(root_hash(run.namespace), run.before, size)
        first = home // size
        stretch = run._replace(
            parent=in_front[first - 1] if first else root_hash(run.namespace),
            keys=(*in_front[first:], *run.keys[:num_full]),
            tokens=np.concatenate((run.before[home:], run.tokens[: num_full * size])),
            home=home,
            before=None,
        )
        first_token = int((run.before if run.home else run.tokens)[0])
        context = run.before[max(0, home - CONTEXT_TOKENS) : home]
        return FoundText(stretch, Head(first_token, context))
