"""What one step computes: integers only, handed from the scheduler to an executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Load
from kvtool.cache.block_pool import BlockIds
from kvtool.errors import ModelError
from kvtool.reuse.probe import Candidates
from kvtool.reuse.run import Run

if TYPE_CHECKING:
    from kvtool.engine.request import Request


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledRequest:
    """Tokens of one request, fed in this step.

    positions: int64 [num_tokens], ascending; what lies between them is served from the cache.
    slots: one array a group, int64 [num_tokens]; -1 = the slot already holds this token's KV,
    do not store. entries: one array a group, int32 [num_entries, 5], snapshots that tile [0, n),
    n > the last position. runs: those in the entries for the first time, in the blocks of the
    first group, to be checked before anything reads them. sample: the last row yields a token.
    """

    request: Request
    positions: BlockIds
    slots: tuple[npt.NDArray[np.int64], ...]
    entries: tuple[npt.NDArray[np.int32], ...]
    runs: tuple[Run, ...]
    sample: bool

    @property
    def num_tokens(self) -> int:
        return len(self.positions)

    @property
    def end(self) -> int:
        return int(self.positions[-1]) + 1

    @property
    def token_ids(self) -> npt.NDArray[np.int32]:
        return self.request.tokens[self.positions]


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledSelection:
    """Which tokens of moved runs are computed again is to be chosen for one request, which feeds
    nothing else in this step. rows, candidates: of `reuse.probe.make_probe`; rule: its name."""

    rows: ScheduledRequest
    rule: str
    candidates: tuple[Candidates, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """copies: one array a group, int32 [num_copies, 3] rows (source block, target block,
    num_slots), carried out before anything is stored (copy-on-write of partial blocks).
    moves: one array a group, int64 [num_moves, 3] rows (source slot, target slot, delta), KV
    copied with its keys turned by delta, before anything is read or stored.
    loads: stored KV to read into blocks of these requests, each claimed and ended by whoever
    executes the batch; a layer's slots are neither read nor stored before its bytes are there.
    donor_loads: the same for text of other positions, to be read completely before anything else.
    selections: for `Selecting.select`, once the rest of the batch is executed.
    merges: one array a group, int64 [num_merges, 4] rows (source slot, target slot, delta, number)
    of running means, see `models.moving.merge_keys`; carried out last, nothing else of the batch
    reads or writes their targets."""

    requests: tuple[ScheduledRequest, ...]
    copies: tuple[npt.NDArray[np.int32], ...]
    moves: tuple[npt.NDArray[np.int64], ...] = ()
    loads: tuple[Load, ...] = ()
    donor_loads: tuple[Load, ...] = ()
    selections: tuple[ScheduledSelection, ...] = ()
    merges: tuple[npt.NDArray[np.int64], ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.scheduled and not any(map(len, self.merges))

    @property
    def num_tokens(self) -> int:
        """Rows of the forward pass."""
        return sum(scheduled.num_tokens for scheduled in self.requests)

    @property
    def scheduled(self) -> tuple[ScheduledRequest, ...]:
        """All requests of the step, once each."""
        return self.requests + tuple(selection.rows for selection in self.selections)


class SampledToken(NamedTuple):
    """logprob and top_logprobs [(token_id, logprob)…] when asked for; logits: the row the token
    was drawn from, before penalties and filters, float32 [vocab_size]."""

    token_id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    logits: npt.NDArray[np.float32] | None = None


class Selected(NamedTuple):
    """positions: one array a candidate, int64, ascending, `num_selected` of each. row_layers: what
    choosing cost, in rows times layers."""

    positions: tuple[BlockIds, ...]
    row_layers: float


# request id -> the token it got in this step, or why the model has none for it
StepOutput = dict[int, SampledToken | ModelError]
