"""How many tokens running replies may be given at once instead of one by one.

Feeding k recorded tokens of every reply in one step equals k steps, so far as hits go, if nothing
can happen in between: nobody's prompt is computed, nobody arrives, enters or ends, blocks suffice
and are taken for new tokens alone, and nobody could find in the cache what another one decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

import numpy as np

from kvtool.cache.common_prefix import common_prefix
from kvtool.cache.growth import Tail
from kvtool.cache.manager import CacheManager, Tokens
from kvtool.engine.admission import num_blocks_for
from kvtool.engine.batch import SampledToken
from kvtool.engine.request import Request
from kvtool.engine.scheduler import Scheduler
from kvtool.engine.waiting_queue import Candidate, admission_order
from kvtool.engine.wanted_blocks import num_missing_blocks


def num_steps(scheduler: Scheduler, limit: int) -> int:
    """At most `limit`, at least 1."""
    manager, running = scheduler.manager, scheduler.running
    if limit <= 1 or manager.config.evict == "fifo" or manager.shift is not None:
        return 1  # fifo: steps tell which of two replies' blocks is older
    if not all(_is_decoding(request) and _owns_tail(request, manager) for request in running):
        return 1
    steps = min(limit, *(_num_left(request) for request in running))
    while steps > 1 and not _fits(manager, running, steps):
        steps //= 2
    candidates = _candidates(scheduler) if steps > 1 else []
    if candidates:
        steps = min(steps, _num_steps_outside(scheduler, candidates))
    if steps > 1 and _may_be_found(manager, running, [one.request for one in candidates]):
        return 1
    return steps


def take_ahead(running: Iterable[Request], steps: int) -> None:
    """All but the last token of `steps` recorded ones join the request: the coming step feeds
    them, and samples the last."""
    for request in running:
        for _ in range(steps - 1):
            assert request.forced_id is not None
            request.append(SampledToken(request.forced_id))


def _is_decoding(request: Request) -> bool:
    fed = request.num_tokens - request.num_computed_tokens
    return request.num_output_tokens > 0 and fed == 1 and request.kv is not None


def _owns_tail(request: Request, manager: CacheManager) -> bool:
    """Whether it goes on in its last block as it is. A copy takes a block more and gives one back
    only when its step is over, which is too late for the blocks of the steps behind it."""
    kv = request.kv
    assert kv is not None
    growths = (group.growth(kv, request.num_tokens) for group in manager.groups)
    return all(growth.tail is Tail.KEEP for growth in growths)


def _num_left(request: Request) -> int:
    return request.sampling.max_tokens - request.num_output_tokens


def _fits(manager: CacheManager, running: Iterable[Request], steps: int) -> bool:
    missing = 0
    for request in running:
        assert request.kv is not None
        missing += manager.num_missing_blocks(request.kv, request.num_tokens + steps - 1)
    return missing <= manager.num_available_blocks


def _candidates(scheduler: Scheduler) -> list[Candidate]:
    """Who could be admitted, in the order in which they are tried."""
    config, manager = scheduler.config, scheduler.manager
    is_full = len(scheduler.running) >= min(config.max_num_seqs, config.max_num_batched_tokens)
    if is_full or not scheduler.waiting or _num_spare(scheduler) < 1:
        return []
    return scheduler.waiting.candidates(lambda one: manager.match(one.tokens, one.namespace))


def _num_steps_outside(scheduler: Scheduler, candidates: Sequence[Candidate]) -> int:
    """For how many steps none of them is admitted, if nobody finds what is decoded meanwhile.

    Replies that go on only take blocks away, so whoever finds no room now finds none then. If the
    first one has none but others have, it must stay the first: what they would hit is there until
    a block is taken, and what is held by those who run is there in any case.
    """
    size, spare = scheduler.block_size, _num_spare(scheduler)
    first, entering = candidates[0], [one for one in candidates if _num_needed(one, size) <= spare]
    if first in entering:
        return 1
    held = min(first.num_cached_tokens, _num_held(first.request, scheduler.running, size))
    lasting = Candidate(first.request, held)
    if admission_order([lasting, *entering], scheduler.config.max_overtakes)[0] is lasting:
        return scheduler.config.max_num_batched_tokens
    return min(-request.num_computed_tokens % size for request in scheduler.running) or 1


def _num_spare(scheduler: Scheduler) -> int:
    """Blocks for a newcomer: see `admission.has_room`."""
    config, manager = scheduler.config, scheduler.manager
    promised = sum(num_missing_blocks(request, manager) for request in scheduler.running)
    return manager.num_available_blocks - promised - ceil(config.watermark * manager.num_blocks)


def _num_needed(candidate: Candidate, block_size: int) -> int:
    needed = num_blocks_for(candidate.request.num_tokens, block_size)
    return needed - candidate.num_cached_tokens // block_size


def _num_held(request: Request, running: Iterable[Request], block_size: int) -> int:
    """Of what it would hit, the tokens in full blocks of those who run."""
    shared = [
        common_prefix(request.tokens, other.tokens[: other.num_computed_tokens])
        for other in running
        if other.namespace == request.namespace
    ]
    return max(shared, default=0) // block_size * block_size


def _may_be_found(
    manager: CacheManager, running: Sequence[Request], waiting: Iterable[Request]
) -> bool:
    """Whether the block that one of them fills next may equal a block that is cached, or begin
    like one that somebody else fills or asks for."""
    size = manager.config.block_size
    everyone = (*running, *waiting)
    for request in running:
        start = request.num_computed_tokens // size * size
        if request.tokens[start] < 0:
            continue  # see `Replies`: nobody else has this symbol
        if any(_is_like(request, other, start) for other in everyone):
            return True
        tokens = _first(request, start + size)
        if manager.match(tokens, request.namespace) == start + size:
            return True
    return False


def _is_like(request: Request, other: Request, start: int) -> bool:
    """Whether they have the same tokens up to `start` and the one there."""
    if other is request or other.namespace != request.namespace:
        return False
    if _token(other, start) != request.tokens[start]:
        return False
    return common_prefix(_first(other, start + 1), request.tokens) > start


def _token(request: Request, position: int) -> int | None:
    """Recorded ones of its reply included."""
    if position < request.num_tokens:
        return int(request.tokens[position])
    recorded, behind = request.forced_ids or (), position - request.num_prompt_tokens
    return recorded[behind] if behind < len(recorded) else None


def _first(request: Request, num_tokens: int) -> Tokens:
    """So many of its tokens, or all that are recorded."""
    recorded = request.forced_ids or ()
    rest = recorded[request.num_output_tokens : max(0, num_tokens - request.num_prompt_tokens)]
    if not rest:
        return request.tokens[:num_tokens]
    return np.concatenate([request.tokens, np.array(rest, dtype=np.int32)])
