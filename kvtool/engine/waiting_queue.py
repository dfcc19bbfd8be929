"""Requests that wait for admission, and the order in which they are tried.

Cache-aware scheduling (SGLang): the longest cached prefix first, so that a prefix is used
while it is still cached. Fair within a bound: a request that `max_overtakes` later arrivals
have passed goes first whatever its prefix.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import NamedTuple

from kvtool.engine.request import Request

CACHE_AWARE_WINDOW = 16  # waiting requests, oldest first, whose cached prefixes are compared


class Candidate(NamedTuple):
    request: Request
    num_cached_tokens: int


def admission_order(candidates: list[Candidate], max_overtakes: int) -> list[Candidate]:
    """Those overtaken often enough in order of arrival, then by cached prefix, longest first."""

    def rank(candidate: Candidate) -> tuple[bool, int, int]:
        request, num_cached_tokens = candidate
        starved = request.overtaken >= max_overtakes
        return (not starved, 0 if starved else -num_cached_tokens, request.arrival)

    return sorted(candidates, key=rank)


class WaitingQueue:
    """In order of arrival; a preempted request returns to its place."""

    def __init__(self, max_overtakes: int) -> None:
        self._max_overtakes = max_overtakes
        self._requests: list[Request] = []

    def __len__(self) -> int:
        return len(self._requests)

    def push(self, request: Request) -> None:
        insort(self._requests, request, key=lambda waiting: waiting.arrival)

    def remove(self, request: Request) -> None:
        self._requests.remove(request)

    def candidates(self, match: Callable[[Request], int]) -> list[Candidate]:
        """The oldest `CACHE_AWARE_WINDOW` requests in admission order."""
        window = self._requests[:CACHE_AWARE_WINDOW]
        return admission_order(
            [Candidate(request, match(request)) for request in window], self._max_overtakes
        )

    def may_pass(self, request: Request) -> bool:
        """No older request has been overtaken as often as is allowed."""
        return all(older.overtaken < self._max_overtakes for older in self._older(request))

    def pop(self, request: Request) -> None:
        """Take out a request that is admitted now; the older ones have been overtaken."""
        for older in self._older(request):
            older.overtaken += 1
        self._requests.remove(request)

    def _older(self, request: Request) -> list[Request]:
        return self._requests[: self._requests.index(request)]
