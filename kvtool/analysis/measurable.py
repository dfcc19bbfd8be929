"""Whether a trace can say anything about text at other positions."""

from __future__ import annotations

import numpy as np

from kvtool.analysis.accesses import Accesses


def num_free_ids(accesses: Accesses) -> int:
    """Content ids seen behind different predecessors, the start of a request being one.

    None at all: the ids are chained hashes, which differ wherever anything in front of them
    does, so equal text at other positions cannot be recognised.
    """
    before = np.concatenate([[-1], accesses.contents])[:-1]
    before[accesses.depths == 0] = -1
    order = np.lexsort((before, accesses.contents))
    contents, before = accesses.contents[order], before[order]
    same = contents[1:] == contents[:-1]
    other = same & (before[1:] != before[:-1])
    return len(np.unique(contents[1:][other]))


def why_not_moved(accesses: Accesses) -> str | None:
    """Why reuse at other positions cannot be measured on this trace; None: it can."""
    if accesses.unit.block_size > 1 or num_free_ids(accesses):
        return None
    return (
        "not measurable on this trace: no id follows two different ids, so they are chained "
        "hashes, in which equal text at another position has another id"
    )
