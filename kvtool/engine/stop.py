"""Stop strings in a stream of text."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Cuts text before the stop string that is complete first (of several that end at the same
    character, the longest), however the text is cut into pieces.

    Holds back exactly the longest suffix that may still become a stop string.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> str:
        """Text that is safe to show now. Nothing more comes out once a stop string matched."""
        if self.matched is not None:
            return ""
        text = self._held + text
        found = [
            (start + len(stop), start, stop)
            for stop in self._stops
            if (start := text.find(stop)) >= 0
        ]
        if found:
            _, start, self.matched = min(found)
            self._held = ""
            return text[:start]
        split = len(text) - self._num_held(text)
        self._held = text[split:]
        return text[:split]

    def flush(self) -> str:
        """What is still held, at the end of the text."""
        held, self._held = self._held, ""
        return held

    def _num_held(self, text: str) -> int:
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
