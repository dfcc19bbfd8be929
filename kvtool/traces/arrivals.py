"""When the requests of a file arrive, and the order that follows from it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kvtool.traces.trace_request import Place, TraceRequest


@dataclass(slots=True)
class Arrivals:
    """Of the requests of one file in its order; 16 bytes a request.

    times: seconds; busy: seconds that a request took, 0 where unknown. complete: every request has
    a time. backwards: requests earlier than the one before them; first_backwards: the first.
    """

    times: array[float] = field(default_factory=lambda: array("d"))
    busy: array[float] = field(default_factory=lambda: array("d"))
    complete: bool = True
    backwards: int = 0
    first_backwards: Place | None = None

    def add(self, request: TraceRequest) -> None:
        if request.arrival_s is None:
            self.complete = False
            return
        if self.times and request.arrival_s < self.times[-1]:
            self.backwards += 1
            self.first_backwards = self.first_backwards or request.place
        self.times.append(request.arrival_s)
        self.busy.append(request.recorded.duration_s or 0.0)

    @property
    def first(self) -> float | None:
        return min(self.times, default=None)

    def ranks(self) -> npt.NDArray[np.int64] | None:
        """[R]: the place of each request in the order of time, ties in the order of the file;
        None where that is the order of the file. All requests have times."""
        if not self.backwards:
            return None
        order = np.argsort(self.times, kind="stable")
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        return ranks


def overlapping(files: list[Arrivals]) -> int:
    """Requests that arrive while another is being served, or at the same moment as another."""
    times = np.concatenate([np.asarray(file.times) for file in files])
    busy = np.concatenate([np.asarray(file.busy) for file in files])
    order = np.argsort(times, kind="stable")
    times, ends = times[order], np.maximum.accumulate((times + busy)[order])
    return int(np.count_nonzero((times[1:] < ends[:-1]) | (times[1:] == times[:-1])))
