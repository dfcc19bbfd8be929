"""Tracks of a timeline: the requests of a session beside each other only where they overlap."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

NO_SESSION = "no session"


class Track(NamedTuple):
    """is_new: it is given out for the first time."""

    tid: int
    name: str
    is_new: bool


@dataclass(slots=True)
class _Lane:
    tid: int
    name: str
    end: int


class Tracks:
    """Owner of the track numbers."""

    def __init__(self) -> None:
        self._lanes: defaultdict[str | None, list[_Lane]] = defaultdict(list)
        self._count = 0

    def place(self, session: str | None, start: int, end: int) -> Track:
        """A track of the session that nothing is on from `start` to `end`, in any unit. Requests
        come in the order of their ends, else they get more tracks than they need."""
        lanes = self._lanes[session]
        free = [lane for lane in lanes if lane.end <= start]
        if free:
            lane = max(free, key=lambda lane: lane.end)
            lane.end = end
            return Track(lane.tid, lane.name, False)
        self._count += 1
        name = NO_SESSION if session is None else session
        lane = _Lane(self._count, f"{name} ({len(lanes) + 1})" if lanes else name, end)
        lanes.append(lane)
        return Track(lane.tid, lane.name, True)
