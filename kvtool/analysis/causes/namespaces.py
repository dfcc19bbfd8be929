"""Which prompts were seen before, but for another model, adapter or salt."""

from __future__ import annotations

import numpy as np

from kvtool.analysis.accesses import Accesses, Ints

_NOTHING = -1


def seen_anywhere(accesses: Accesses, order: Ints) -> Ints:
    """int64 [R]: of each request, how many leading blocks an earlier one had, in any namespace.
    order: the requests as they started, int64 [R]. Zeros where there is one namespace only."""
    found = np.zeros(accesses.num_requests, dtype=np.int64)
    if len(np.unique(accesses.namespaces)) < 2:
        return found
    chains: dict[tuple[int, int], int] = {}  # (block in front, content) -> block
    for request in order.tolist():
        start, stop = accesses.starts[request : request + 2]
        block, num_seen, is_seen = _NOTHING, 0, True
        for content in accesses.contents[start:stop].tolist():
            link = block, content
            is_seen = is_seen and link in chains
            num_seen += is_seen
            block = chains.setdefault(link, len(chains))
        found[request] = num_seen
    return found
