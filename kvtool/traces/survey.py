"""One reading of a whole trace before it is used: is it sound, and what is it like?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from kvtool.traces.arrivals import Arrivals
from kvtool.traces.consistency import Consistency
from kvtool.traces.dependencies import Dependencies
from kvtool.traces.predecessors import Predecessors
from kvtool.traces.read_log import BadRecord, ReadLog
from kvtool.traces.request_ids import KnownIds
from kvtool.traces.trace_request import BlockPrompt, ChatPrompt, TraceRequest

SYSTEM_ROLES = ("system", "developer")


@dataclass(slots=True)
class FileSurvey:
    """Of one file. requests: how many were accepted."""

    requests: int = 0
    arrivals: Arrivals = field(default_factory=Arrivals)
    dependencies: Dependencies = field(default_factory=Dependencies)


@dataclass(slots=True)
class Survey:
    """Of a trace; grows with `add_file`. without_system: chats that name no system prompt.
    later_turns: chats that hold an earlier reply. with_session: requests that name theirs."""

    consistency: Consistency
    files: list[FileSurvey] = field(default_factory=list)
    ids: KnownIds = field(default_factory=KnownIds)
    models: Counter[str | None] = field(default_factory=Counter)
    predecessors: Predecessors = field(default_factory=Predecessors)
    without_system: int = 0
    later_turns: int = 0
    with_session: int = 0

    @property
    def requests(self) -> int:
        return sum(file.requests for file in self.files)

    @property
    def timed(self) -> bool:
        """Whether every request has a time of arrival."""
        return all(file.arrivals.complete for file in self.files)

    @property
    def origin_s(self) -> float:
        """When the first request arrives; 0 where no request has a time."""
        firsts = [file.arrivals.first for file in self.files]
        return min((first for first in firsts if first is not None), default=0.0)

    def add_file(self, requests: Iterable[TraceRequest], log: ReadLog) -> None:
        """Raises `InputError` for a request that does not go with the others, unless lenient."""
        file = FileSurvey()
        self.files.append(file)
        for request in accepted(requests, self.consistency, log):
            file.requests += 1
            file.arrivals.add(request)
            file.dependencies.add(request, self.ids.here)
            self.ids.add(request.id)
            self._add(request)
        self.ids.next_file()

    def kept(self) -> Survey:
        """Without what only the survey itself needs, which is linear in the distinct hash ids."""
        ids = KnownIds() if self.ids.all_unique else self.ids
        return replace(self, predecessors=Predecessors(), ids=ids)

    def _add(self, request: TraceRequest) -> None:
        self.models[request.model] += 1
        self.with_session += request.session is not None
        prompt = request.prompt
        if isinstance(prompt, BlockPrompt):
            self.predecessors.add(prompt, request.scope)
        elif isinstance(prompt, ChatPrompt):
            roles = {message.get("role") for message in prompt.messages}
            self.without_system += roles.isdisjoint(SYSTEM_ROLES)
            self.later_turns += "assistant" in roles


def accepted(
    requests: Iterable[TraceRequest], consistency: Consistency, log: ReadLog
) -> Iterator[TraceRequest]:
    """Those that go with the rest of the trace; the same ones at every reading."""
    for request in requests:
        try:
            consistency.check(request.prompt)
        except BadRecord as fault:
            log.refuse(request.place, fault)
        else:
            yield request
