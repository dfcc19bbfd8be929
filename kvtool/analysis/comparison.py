"""Which earlier request another one is compared with, and what they have in common."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from kvtool.analysis.causes.change import Change, Past
from kvtool.analysis.causes.sessions import Sessions
from kvtool.analysis.served import CauseSettings
from kvtool.cache.common_prefix import common_prefix
from kvtool.errors import InputError
from kvtool.traces.prepared import PreparedRequest

MAX_NEAR_NAMES = 3


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """other: of the same session where its context changed, else the one that shares the longest
    beginning, the latest of several; None: nothing was before it. shared: symbols. longest, most:
    the one of all that shares the longest beginning, and how many symbols. change: what happened
    to the session's context."""

    request: PreparedRequest
    position: int
    other: Past | None
    shared: int
    longest: Past | None
    most: int
    change: Change | None

    @property
    def is_same_namespace(self) -> bool:
        return self.other is not None and self.other.request.namespace == self.request.namespace

    @property
    def is_same_session(self) -> bool:
        if self.other is None or not self.is_same_namespace:
            return False
        session = self.request.request.session
        return session is not None and self.other.request.request.session == session


def comparison(
    requests: Iterable[PreparedRequest], position: int, settings: CauseSettings
) -> Comparison:
    """requests: from the first on; read up to this one, twice."""
    target = next(request for n, request in enumerate(requests) if n == position)
    sessions, best, shared = Sessions(settings), None, (-1, False)
    kept: dict[int, Past] = {}
    for number, request in enumerate(requests):
        if number == position:
            break
        is_own = request.namespace == target.namespace
        found = common_prefix(request.symbols, target.symbols), is_own
        if found >= shared:
            best, shared = Past(number, request), found
        if is_own and request.request.session == target.request.session:
            sessions.change(number, request)
            kept[number] = Past(number, request)
    longest, most = best, max(0, shared[0])
    change = sessions.change(position, target)
    if change is not None:
        best = kept[change.previous]
        shared = common_prefix(best.request.symbols, target.symbols), True
    return Comparison(target, position, best, max(0, shared[0]), longest, most, change)


def position_of(requests: Iterable[PreparedRequest], request_id: str) -> int:
    """Raises `InputError` for an id that no request has, with those that look like it."""
    names = []
    for position, request in enumerate(requests):
        if request.request.id == request_id:
            return position
        names.append(request.request.id)
    near = difflib.get_close_matches(request_id, names, n=MAX_NEAR_NAMES, cutoff=0.0)
    raise InputError(
        f"No request has the id {request_id!r}; the trace has {len(names):,} requests.",
        hint=f"Near it are: {', '.join(near)}." if near else None,
    )
