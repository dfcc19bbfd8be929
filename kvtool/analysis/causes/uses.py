"""What each request makes use of in a cache that forgets nothing, and what it finds there.

A request's blocks in the order in which LRU stacks them:

    prompt, full blocks | reply, full blocks | the end that fills no block
    '--- num_blocks --'
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.causes.elsewhere import Elsewhere, MovedIds, MovedText
from kvtool.analysis.prompt_tree import Prefix, PromptTree
from kvtool.analysis.served import CauseSettings, Served
from kvtool.cache.block_pool import Tokens
from kvtool.traces.prepared import PreparedRequest


class Uses(NamedTuple):
    """blocks: see above; num_blocks of them are the prompt's own. source: a block that the prompt
    shares in part and goes on from, which takes a copy and is no use of it for LRU. seen: leading tokens that an earlier request had, or 0.
    elsewhere: what stands behind another beginning."""

    blocks: list[int]
    num_blocks: int
    source: int | None
    seen: int
    elsewhere: Elsewhere


class History(Protocol):
    def use(self, position: int, request: PreparedRequest, served: Served) -> Uses:
        """Of the requests one after another."""
        ...


class Fresh:
    """Numbers that nothing else has."""

    def __init__(self) -> None:
        self._last = 0

    def take(self, count: int) -> range:
        first = self._last - 1
        self._last -= count
        return range(first, self._last - 1, -1)


class IdHistory:
    """Of a hash-id trace. Replies leave blocks behind the prompt that have no id."""

    def __init__(self, accesses: Accesses, settings: CauseSettings) -> None:
        self._accesses = accesses
        self._settings = settings
        self._fresh = Fresh()
        self._elsewhere = MovedIds(accesses, settings)

    def use(self, position: int, request: PreparedRequest, served: Served) -> Uses:
        start, stop = self._accesses.starts[position : position + 2]
        blocks: list[int] = self._accesses.blocks[start:stop].tolist()
        num_blocks = len(blocks)
        blocks += self._fresh.take(self._num_reply_blocks(request, num_blocks))
        return Uses(blocks, num_blocks, None, 0, self._elsewhere.find(request))

    def _num_reply_blocks(self, request: PreparedRequest, num_blocks: int) -> int:
        length = request.num_output_tokens
        if not self._settings.output_kv or not length:
            return 0
        size = self._settings.unit.block_tokens
        return max(0, -(-(request.num_tokens + length - 1) // size) - num_blocks)


class TextHistory:
    """exact: what serves exact hits: with moved text, no more than what stands in front of it."""

    def __init__(self, settings: CauseSettings) -> None:
        self._settings = settings
        self._size = settings.unit.block_size
        self._everything = PromptTree(self._size)
        is_moved = settings.reuse == "shift"
        self._exact = PromptTree(self._size) if is_moved else self._everything
        self._fresh = Fresh()
        self._elsewhere = MovedText(self._everything, settings)

    def use(self, position: int, request: PreparedRequest, served: Served) -> Uses:
        tokens, namespace = request.symbols, request.namespace
        everything = self._everything.match(tokens, namespace)
        exact = everything
        if self._exact is not self._everything:
            exact = self._exact.match(tokens, namespace)
        elsewhere = self._elsewhere.find(request, exact.num_tokens, everything, served.hit_tokens)
        source = self._gone_on_from(tokens, namespace, exact)
        sequence = self._sequence(request)
        if self._exact is not self._everything:
            prefix = self._everything.match(sequence, namespace)
            self._everything.add(sequence, namespace, prefix)
            sequence = sequence[: served.moved[0][0]] if served.moved else sequence
        blocks = self._add(sequence, namespace)
        num_full = min(len(tokens), len(sequence)) // self._size
        if num_full < len(exact.blocks):  # evicted in part, and moved text took its place
            blocks, num_full = exact.blocks, len(exact.blocks)
        return Uses(blocks, num_full, source, exact.num_tokens, elsewhere)

    def _sequence(self, request: PreparedRequest) -> Tokens:
        """What the request computes: the last token of its reply is never fed back."""
        known = len(request.reply)
        num_fed = (known or request.num_output_tokens) - 1
        if not self._settings.output_kv or num_fed <= 0:
            return request.symbols
        reply = request.reply[:-1] if known else np.array(self._fresh.take(num_fed), np.int32)
        return np.concatenate([request.symbols, reply])

    def _add(self, sequence: Tokens, namespace: bytes) -> list[int]:
        tree = self._exact
        prefix, first = tree.match(sequence, namespace), len(tree)
        tree.add(sequence, namespace, prefix)
        blocks = prefix.blocks + list(range(first, len(tree)))
        is_partial = len(blocks) * self._size > len(sequence)
        if is_partial and self._settings.prefix_index == "chain":
            blocks.pop()  # it is in use for a while, and never found
        return blocks

    def _gone_on_from(self, tokens: Tokens, namespace: bytes, prefix: Prefix) -> int | None:
        if prefix.num_tokens == prefix.num_full or self._settings.prefix_index == "chain":
            return None
        return self._exact.last_block(tokens, namespace, prefix)


def history_of(accesses: Accesses, settings: CauseSettings) -> History:
    if settings.unit.tokens_per_symbol == 1:
        return TextHistory(settings)
    return IdHistory(accesses, settings)
