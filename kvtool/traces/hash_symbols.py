"""Hash ids of a trace as symbols: small numbers in the order of first appearance."""

from __future__ import annotations

from collections import defaultdict
from itertools import count, islice

import numpy as np

from kvtool.traces.prepared import Symbols
from kvtool.traces.trace_request import BlockPrompt


class HashSymbols:
    """Equal symbols for equal ids of one scope, and only for these: ids may be numbers of any
    size or text, and 1 is not "1". Memory: linear in the distinct ids."""

    def __init__(self) -> None:
        self._numbers = count()
        self._scopes: dict[str, dict[int | str, int]] = {}

    def of(self, prompt: BlockPrompt, scope: str) -> Symbols:
        """int32 [n], n > 0: one for each id. A prompt shorter than a block, of a trace that leaves
        such rests without an id, gets one that no other has."""
        if not prompt.hash_ids:
            return self.fresh(1)
        known = self._scopes.get(scope)
        if known is None:
            known = self._scopes[scope] = defaultdict(self._numbers.__next__)
        return np.array([known[hash_id] for hash_id in prompt.hash_ids], dtype=np.int32)

    def fresh(self, num_symbols: int) -> Symbols:
        """int32 [num_symbols] that stand for nothing else."""
        return np.fromiter(islice(self._numbers, num_symbols), dtype=np.int32, count=num_symbols)
