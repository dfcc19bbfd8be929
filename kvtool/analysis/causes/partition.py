"""Gives every missed token of every request exactly one cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.causes import cause
from kvtool.analysis.causes.cause import RequestCauses
from kvtool.analysis.causes.change import Change
from kvtool.analysis.causes.eviction import UNSEEN, Eviction, Evictions
from kvtool.analysis.causes.namespaces import seen_anywhere
from kvtool.analysis.causes.sessions import Sessions
from kvtool.analysis.causes.tiling import Tiling
from kvtool.analysis.causes.uses import Uses, history_of
from kvtool.analysis.served import CauseSettings, Served
from kvtool.traces.prepared import PreparedRequest, Unit
from kvtool.traces.trace_request import BlockPrompt


class Facts(NamedTuple):
    """Of one request, whatever the cache did. num_tokens: of its symbols; a rest behind them has no
    id. is_below_floor: nothing of it can ever be found."""

    num_tokens: int
    uses: Uses
    change: Change | None
    is_below_floor: bool


def causes_of(
    requests: Iterable[PreparedRequest],
    served: Sequence[Served],
    accesses: Accesses,
    settings: CauseSettings,
) -> Iterator[RequestCauses]:
    """One each, in order. requests: are read once, before the first answer; of each, numbers are
    kept. accesses: of the same requests, none in front of those that start earlier.

    A miss begins where the hit ends. What moved text stands for is taken out; of the rest the
    first that fits is the cause:

        [hit ... | seen ... | behind it ...)

    everything      below_block_floor: a prompt too short to be found
    whole blocks    in_flight, ttl, policy, capacity: an earlier request had them in this place
    seen            the part of a block: what happened to the block, if an index finds such parts;
                    else partial_block, or below_block_floor where it is the first
    behind it       other_namespace: seen from the first token on, elsewhere
                    context_rewritten, truncated_window, reply_rerendered: the session's own
                    earlier context, as it is now; partial_block: of hash ids
                    diverged: other text that was seen
                    first_sight; partial_block: a rest that has no hash id
    """
    history, sessions = history_of(accesses, settings), Sessions(settings)
    facts = [
        Facts(
            min(len(request.symbols) * settings.unit.tokens_per_symbol, request.num_tokens),
            history.use(position, request, served[position]),
            sessions.change(position, request),
            _is_below_floor(request, settings),
        )
        for position, request in enumerate(requests)
    ]
    evictions = Evictions.of([one.uses for one in facts], served, settings)
    elsewhere = seen_anywhere(accesses, np.argsort(evictions.ranks))
    for position, one in enumerate(facts):
        yield _Missed(position, one, served[position], evictions, settings).causes(
            int(elsewhere[position])
        )


def _is_below_floor(request: PreparedRequest, settings: CauseSettings) -> bool:
    prompt = request.request.prompt
    if isinstance(prompt, BlockPrompt) and settings.unit.tokens_per_symbol > 1:
        return not prompt.hash_ids and request.num_tokens < settings.unit.tokens_per_symbol
    return settings.prefix_index == "chain" and request.num_tokens < settings.unit.block_tokens


class _Missed:
    """The tiling of one request."""

    def __init__(
        self,
        position: int,
        facts: Facts,
        served: Served,
        evictions: Evictions,
        settings: CauseSettings,
    ) -> None:
        self._position = position
        self._facts = facts
        self._served = served
        self._evictions = evictions
        self._settings = settings
        self._tiling = Tiling(served.hit_tokens)
        self._capacity = 0

    def causes(self, num_elsewhere: int) -> RequestCauses:
        """num_elsewhere: see `seen_anywhere`."""
        tiling, facts, unit = self._tiling, self._facts, self._settings.unit
        if facts.is_below_floor:
            tiling.cover(self._served.prompt_tokens, cause.BELOW_BLOCK_FLOOR)
        self._cover_seen()
        tiling.cover(_tokens(num_elsewhere, facts, unit), cause.OTHER_NAMESPACE)
        if facts.change is not None:
            self._cover_new(facts.change.start)
            tiling.cover(facts.change.stop, facts.change.cause)
        self._cover_new(facts.num_tokens)
        tiling.cover(self._served.prompt_tokens, cause.PARTIAL_BLOCK)
        spans = tiling.without(self._served.moved)
        assert sum(span.num_tokens for span in spans) == self._served.missed_tokens
        capacity = self._capacity if self._capacity > self._settings.capacity_blocks else None
        recoverable = facts.uses.elsewhere.recoverable
        return RequestCauses(self._position, spans, recoverable, capacity)

    def _cover_seen(self) -> None:
        """What an earlier request had in this place."""
        tiling, facts, unit = self._tiling, self._facts, self._settings.unit
        uses = facts.uses
        num_seen = self._evictions.num_seen(self._position, uses.num_blocks)
        last = UNSEEN
        for index in range(tiling.end // unit.block_tokens, num_seen):
            last = self._noted(self._evictions.block(self._position, index))
            tiling.cover(_tokens(index + 1, facts, unit), last)
        whole = _tokens(num_seen, facts, unit)
        if not whole < uses.seen < whole + unit.block_tokens:
            return  # another request of the trace's order, which started later, had more
        if self._settings.prefix_index == "chain":
            last = cause.PARTIAL_BLOCK if whole else cause.BELOW_BLOCK_FLOOR
        elif uses.source is not None and tiling.end < uses.seen:
            last = self._noted(self._evictions.source(self._position, uses.source)) or last
        tiling.cover(uses.seen, last or cause.PARTIAL_BLOCK)

    def _cover_new(self, end: int) -> None:
        """Nobody had it in this place."""
        for start, stop in self._facts.uses.elsewhere.ranges:
            self._tiling.cover(min(start, end), cause.FIRST_SIGHT)
            self._tiling.cover(min(stop, end), cause.DIVERGED)
        self._tiling.cover(end, cause.FIRST_SIGHT)

    def _noted(self, eviction: Eviction) -> str:
        if eviction.cause in (cause.CAPACITY, cause.POLICY):
            least = eviction.capacity
            if eviction.cause == cause.CAPACITY and self._settings.reuse != "none":
                least = max(least, self._settings.capacity_blocks + 1)  # this was not enough
            self._capacity = max(self._capacity, least)
        return eviction.cause


def _tokens(num_blocks: int, facts: Facts, unit: Unit) -> int:
    return min(num_blocks * unit.block_tokens, facts.num_tokens)
