"""What a replay did for each request of a trace: what an explanation of its misses starts from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np

from kvtool.traces.prepared import Unit


class Served(NamedTuple):
    """One request. position: in the order in which the trace is iterated. Tokens: hit ones stood
    in the cache in front, shifted ones elsewhere, recomputed ones belong to such text. In flight:
    behind the hit, about to be computed for another request. Times in seconds since the replay's
    start. evicted_blocks: by anybody while it ran. moved: where the shifted and recomputed tokens
    are, [start, stop) ascending."""

    position: int
    prompt_tokens: int
    hit_tokens: int
    shifted_tokens: int
    recomputed_tokens: int
    in_flight_tokens: int
    output_tokens: int
    preemptions: int
    evicted_blocks: int
    arrival_s: float
    start_s: float
    first_token_s: float
    end_s: float
    moved: tuple[tuple[int, int], ...] = ()

    @property
    def missed_tokens(self) -> int:
        """Of the prompt: computed because nothing in the cache stood for them."""
        reused = self.hit_tokens + self.shifted_tokens + self.recomputed_tokens
        return self.prompt_tokens - reused

    @property
    def computed_tokens(self) -> int:
        """Of a prompt that is cached completely the last token is computed all the same."""
        return max(1, self.missed_tokens)

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.arrival_s


_COLUMNS = np.dtype(
    [(name, "f8" if name.endswith("_s") else "i8") for name in Served._fields[1:-1]]
)


class ServedTable(Sequence[Served]):
    """Requests by position, about 100 bytes each; filled in any order."""

    def __init__(self, num_requests: int) -> None:
        self._rows = np.zeros(num_requests, dtype=_COLUMNS)
        self._moved: dict[int, tuple[tuple[int, int], ...]] = {}

    def put(self, served: Served) -> None:
        self._rows[served.position] = served[1:-1]
        if served.moved:
            self._moved[served.position] = served.moved

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, position: int) -> Served: ...
    @overload
    def __getitem__(self, position: slice) -> list[Served]: ...
    def __getitem__(self, position: int | slice) -> Served | list[Served]:
        if isinstance(position, slice):
            return [self[i] for i in range(*position.indices(len(self)))]
        if position < 0:
            position += len(self)
        row = self._rows[position].item()
        return Served._make((position, *row, self._moved.get(position, ())))

    def __iter__(self) -> Iterator[Served]:
        return (self[position] for position in range(len(self)))


class CauseSettings(NamedTuple):
    """Of the replay whose misses are explained. min_run, repair: of moved text, whether it is reused
    or would be. ttl_s: the cache drops what was idle for longer; None: it drops nothing so."""

    unit: Unit
    capacity_blocks: int
    evict: str
    prefix_index: str
    reuse: str
    min_run: int
    output_kv: bool
    repair: str = "auto"
    ttl_s: float | None = None
