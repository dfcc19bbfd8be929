"""Do the hash ids of a trace name a block's content, or everything up to its end?"""

from __future__ import annotations

from collections import defaultdict

from kvtool.traces.trace_request import BlockPrompt

HashId = int | str
_Before = dict[HashId, HashId | None]  # None: it is a prompt's first


class Predecessors:
    """Ids that follow two different ones name contents. Where there is none, ids are chained
    hashes: equal content behind another prefix has another id, and whether it was there cannot be
    known. Memory: linear in the distinct ids."""

    def __init__(self) -> None:
        self._before: defaultdict[str, _Before] = defaultdict(dict)  # by scope
        self._several: set[tuple[str, HashId]] = set()

    @property
    def several(self) -> int:
        """Ids that were seen behind more than one other."""
        return len(self._several)

    def add(self, prompt: BlockPrompt, scope: str) -> None:
        known, previous = self._before[scope], None
        for hash_id in prompt.hash_ids:
            if known.setdefault(hash_id, previous) != previous:
                self._several.add((scope, hash_id))
            previous = hash_id
