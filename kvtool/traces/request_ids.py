"""One id a request: the trace's own where it is the only one of its name."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class KnownIds:
    """The ids of a trace as its files have them. shared: those that several files have; repeated:
    those that one file has several times; here: those of the file being read."""

    seen: set[str] = field(default_factory=set)
    shared: set[str] = field(default_factory=set)
    repeated: set[str] = field(default_factory=set)
    here: set[str] = field(default_factory=set)

    def next_file(self) -> None:
        self.seen |= self.here
        self.here = set()

    def add(self, request_id: str) -> None:
        if request_id in self.here:
            self.repeated.add(request_id)
        elif request_id in self.seen:
            self.shared.add(request_id)
        self.here.add(request_id)

    @property
    def all_unique(self) -> bool:
        return not self.shared and not self.repeated


class UniqueIds:
    """Names for the requests of one file, in its order: `FILE:id` for ids that several files have,
    `id#2`, `id#3` for the second and third request of one id in the file.

    taken: the names that were made up so far, for all files of the trace.
    """

    def __init__(self, known: KnownIds, file_name: str, taken: set[str]) -> None:
        self._known = known
        self._file = file_name
        self._taken = taken
        self._times: Counter[str] = Counter()
        self._names: dict[tuple[str, int], str] = {}

    def next(self, request_id: str) -> str:
        """The name of the next request with this id."""
        self._times[request_id] += request_id in self._known.repeated
        return self.latest(request_id)

    def latest(self, request_id: str) -> str:
        """The last request with this id so far, else the first one: what `after` refers to."""
        time, shared = max(1, self._times[request_id]), request_id in self._known.shared
        if time == 1 and not shared:
            return request_id
        if (request_id, time) not in self._names:
            name = f"{self._file}:{request_id}" if shared else request_id
            self._names[request_id, time] = self._free(name if time == 1 else f"{name}#{time}")
        return self._names[request_id, time]

    def _free(self, name: str) -> str:
        while name in self._known.seen or name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
