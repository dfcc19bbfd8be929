"""What changed in a session's context since the request before."""

from __future__ import annotations

from typing import NamedTuple

from kvtool.traces.prepared import PreparedRequest


class Change(NamedTuple):
    """cause: of the prompt tokens [start, stop), as far as they are missed. previous: position of
    the request compared with. message, previous_message: the first that differs, in either prompt
    (-1: the tools); None where there are none."""

    cause: str
    start: int
    stop: int
    previous: int
    message: int | None = None
    previous_message: int | None = None


class Past(NamedTuple):
    """A request that was compared with others behind it. position: in the order of the trace."""

    position: int
    request: PreparedRequest
