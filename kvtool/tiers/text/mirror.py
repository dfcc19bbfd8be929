"""The text of one namespace in the tiers that can list theirs, kept up to date."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kvtool.tiers.text.listing import Listed, ListsText
from kvtool.tiers.text.stored_text import StoredText


class Mirror:
    """Every run is read once; afterwards an update costs what has changed."""

    def __init__(self, tiers: Sequence[ListsText], namespace: bytes, block_size: int) -> None:
        self.text = StoredText(namespace, block_size)
        self._listings = [_Listing(tier) for tier in tiers]

    def update(self) -> StoredText:
        for listing in self._listings:
            listing.update(self.text)
        return self.text

    def check_integrity(self) -> None:
        self.text.check_integrity()


class _Listing:
    """The runs of one tier. Those whose beginning is stored nowhere wait for it: nobody can say
    what their KV was computed behind."""

    def __init__(self, tier: ListsText) -> None:
        self._tier = tier
        self._state: object = None
        self._blocks: dict[Hashable, list[int]] = {}
        self._waiting: dict[Hashable, Listed] = {}

    def update(self, text: StoredText) -> None:
        known = self._blocks.keys() | self._waiting.keys()
        changes = self._tier.text_changes(text.namespace, known, self._state)
        self._state = changes.state
        for handle in changes.gone:
            self._waiting.pop(handle, None)
        # Tails before heads, so that no head is kept for them in between.
        for handle in reversed([handle for handle in self._blocks if handle in changes.gone]):
            text.release(self._blocks.pop(handle))
        self._waiting.update((listed.handle, listed) for listed in changes.new)
        if changes.new:
            self._take_in(text)

    def _take_in(self, text: StoredText) -> None:
        for listed in sorted(self._waiting.values(), key=lambda listed: listed.run.home):
            blocks = text.add(listed.run, listed.last_use)
            if blocks is not None:
                del self._waiting[listed.handle]
                self._blocks[listed.handle] = blocks
