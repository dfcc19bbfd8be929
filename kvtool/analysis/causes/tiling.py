"""Spans of one request, laid one behind another."""

from __future__ import annotations

from collections.abc import Iterator

from kvtool.analysis.causes.cause import CauseSpan
from kvtool.analysis.causes.elsewhere import Ranges


class Tiling:
    """end: where the next span begins."""

    def __init__(self, start: int) -> None:
        self.end = start
        self._spans: list[CauseSpan] = []

    def cover(self, stop: int, cause: str) -> None:
        """From the end to `stop`; nothing where that lies in front of it."""
        if stop <= self.end:
            return
        start = self.end
        if self._spans and self._spans[-1].cause == cause:
            start = self._spans.pop().start
        self._spans.append(CauseSpan(start, stop, cause))
        self.end = stop

    def without(self, ranges: Ranges) -> tuple[CauseSpan, ...]:
        """The spans outside of the ranges, which are disjoint and ascending."""
        return tuple(part for span in self._spans for part in _outside(span, ranges))


def _outside(span: CauseSpan, ranges: Ranges) -> Iterator[CauseSpan]:
    start = span.start
    for begin, end in ranges:
        if begin < span.stop and end > start:
            if begin > start:
                yield CauseSpan(start, begin, span.cause)
            start = max(start, end)
    if start < span.stop:
        yield CauseSpan(start, span.stop, span.cause)
