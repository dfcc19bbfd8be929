"""Requests in the order of time, read as streams: what comes too early waits."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.errors import InputError
from kvtool.traces.trace_request import TraceRequest


class Indexed(NamedTuple):
    """position: of the request in the order in which the files are written."""

    position: int
    request: TraceRequest


class Stream(NamedTuple):
    """A file's requests in the order of time, and when the first of them arrives."""

    first_s: float
    requests: Iterator[Indexed]


def in_order(
    requests: Iterator[Indexed], ranks: npt.NDArray[np.int64] | None, file: str
) -> Iterator[Indexed]:
    """ranks: the place of each request in the order of time; None: they come in it. Holds as many
    requests as one of them is out of place."""
    if ranks is None:
        yield from requests
        return
    waiting: dict[int, Indexed] = {}
    due = 0
    for position, request in enumerate(requests):
        if position >= len(ranks):
            raise InputError(f"{file} changed while it was being read.")
        waiting[int(ranks[position])] = request
        while due in waiting:
            yield waiting.pop(due)
            due += 1


def merged(streams: list[Stream]) -> Iterator[Indexed]:
    """By arrival, ties in the order of the streams. A stream is opened when its time has come, so
    that only files that overlap are open together."""
    closed = sorted(enumerate(streams), key=lambda s: (s[1].first_s, s[0]), reverse=True)
    heads: list[tuple[float, int, Indexed]] = []
    while heads or closed:
        while closed and (not heads or closed[-1][1].first_s <= heads[0][0]):
            number, _ = closed.pop()
            _advance(streams[number], number, heads)
        if heads:
            _, number, earliest = heappop(heads)
            yield earliest
            _advance(streams[number], number, heads)


def _advance(stream: Stream, number: int, heads: list[tuple[float, int, Indexed]]) -> None:
    if (following := next(stream.requests, None)) is not None:
        assert following.request.arrival_s is not None
        heappush(heads, (following.request.arrival_s, number, following))
