"""Requests that wait for others: names that exist, and no circles."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter

from kvtool.errors import InputError
from kvtool.traces.trace_request import Place, TraceRequest


class Dependencies:
    """Of one file. missing: ids that were waited for and not seen yet, and who waits. forward:
    whether a request waits for one further down, which is allowed: only then can there be a
    circle."""

    def __init__(self) -> None:
        self.missing: dict[str, Place] = {}
        self.forward = False

    def add(self, request: TraceRequest, known: Container[str]) -> None:
        """known: the ids of the requests before this one."""
        for other in request.after:
            if other not in known:
                self.missing.setdefault(other, request.place)
        self.forward |= self.missing.pop(request.id, None) is not None


def refuse_missing(missing: Mapping[str, Place]) -> None:
    for other, place in missing.items():
        raise InputError(
            f"{place}: the request waits for {other!r}, and no request has this id.",
            hint="--lenient lets such requests start without waiting.",
        )


def refuse_circles(requests: Iterable[TraceRequest]) -> None:
    """Raises `InputError` where requests wait for each other."""
    graph = TopologicalSorter({request.id: request.after for request in requests})
    try:
        graph.prepare()
    except CycleError as error:
        circle = " → ".join(map(str, reversed(error.args[1])))
        raise InputError(f"Requests wait for each other: {circle}.") from None
