"""How many tokens running replies may be given at once instead of one by one.

Feeding k recorded tokens of every reply in one step equals k steps, so far as hits go, if nothing
can happen in between: nobody's prompt is computed, nobody arrives or ends, blocks suffice, and
nobody could find in the cache what another one decodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from kvtool.cache.common_prefix import common_prefix
from kvtool.cache.manager import CacheManager, Tokens
from kvtool.engine.batch import SampledToken
from kvtool.engine.request import Request


def num_steps(
    manager: CacheManager,
    running: Sequence[Request],
    waiting: Iterable[Request],
    limit: int,
) -> int:
    """At most `limit`, at least 1. waiting: requests that found no room in the last step."""
    if limit <= 1 or manager.config.evict == "fifo" or manager.shift is not None:
        return 1  # fifo: steps tell which of two replies' blocks is older
    if not all(map(_is_decoding, running)):
        return 1
    steps = min(limit, *(_num_left(request) for request in running))
    while steps > 1 and not _fits(manager, running, steps):
        steps //= 2
    if steps > 1 and _may_be_found(manager, running, waiting):
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


def _num_left(request: Request) -> int:
    return request.sampling.max_tokens - request.num_output_tokens


def _fits(manager: CacheManager, running: Iterable[Request], steps: int) -> bool:
    missing = 0
    for request in running:
        assert request.kv is not None
        missing += manager.num_missing_blocks(request.kv, request.num_tokens + steps - 1)
    return missing <= manager.num_available_blocks


def _may_be_found(
    manager: CacheManager, running: Sequence[Request], waiting: Iterable[Request]
) -> bool:
    """Whether the next block that one of them fills with a recorded reply may equal a block that
    is cached, or that somebody else fills or asks for."""
    size = manager.config.block_size
    futures = {request.id: _future(request) for request in running}
    others = {**futures, **{request.id: request.tokens for request in waiting}}
    namespaces = {request.id: request.namespace for request in (*running, *waiting)}
    for request in running:
        if min(request.forced_ids or (0,)) < 0:
            continue  # nobody has these symbols
        future = futures[request.id]
        whole = (request.num_computed_tokens // size + 1) * size
        if manager.match(future, request.namespace) >= whole:
            return True
        if _is_shared(request.id, whole, others, namespaces):
            return True
    return False


def _is_shared(
    own: int, length: int, tokens: Mapping[int, Tokens], namespaces: Mapping[int, bytes]
) -> bool:
    return any(
        other != own
        and namespaces[other] == namespaces[own]
        and common_prefix(tokens[own], tokens[other]) >= length
        for other in tokens
    )


def _future(request: Request) -> Tokens:
    """Its tokens when it ends."""
    rest = (request.forced_ids or ())[request.num_output_tokens :]
    return np.concatenate([request.tokens, np.array(rest, dtype=np.int32)])
