"""Names for blocks: the same number where everything from position 0 on is the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kvtool.traces.prepared import PreparedRequest, Symbols
from kvtool.traces.trace_request import BlockPrompt

_CONTENT_BITS = 32


class Chain(NamedTuple):
    """blocks: prefix ids; contents: content ids; both one a full block of symbols."""

    blocks: list[int]
    contents: list[int]
    namespace: int


class Chains:
    """Interns exactly, so nothing collides; memory is linear in distinct blocks."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._blocks: dict[int, int] = {}  # (parent, content) in one number -> prefix id
        self._contents: dict[bytes, int] = {}
        self._namespaces: dict[bytes, int] = {}

    def add(self, request: PreparedRequest) -> Chain:
        namespace = self._namespaces.setdefault(request.namespace, len(self._namespaces))
        contents = [] if _is_rest(request) else self._content_ids(request.symbols)
        parent, blocks, ids = -1 - namespace, [], self._blocks
        for content in contents:
            parent = ids.setdefault(parent << _CONTENT_BITS | content, len(ids))
            blocks.append(parent)
        return Chain(blocks, contents, namespace)

    def _content_ids(self, symbols: Symbols) -> list[int]:
        size = self._block_size
        if size == 1:  # a symbol names its content
            ids: list[int] = symbols.tolist()
            return ids
        full = np.ascontiguousarray(symbols[: len(symbols) // size * size], dtype=np.int32)
        known = self._contents
        text, step = full.tobytes(), full.itemsize * size
        rows = (text[start : start + step] for start in range(0, len(text), step))
        return [known.setdefault(row, len(known)) for row in rows]


def _is_rest(request: PreparedRequest) -> bool:
    """Shorter than a block, of a trace that gives such a rest no id: its symbol is no block."""
    prompt = request.request.prompt
    return isinstance(prompt, BlockPrompt) and not prompt.hash_ids
