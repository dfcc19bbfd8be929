"""What one step computes: integers only, handed from the scheduler to an executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kvtool.cache.backing import Load
from kvtool.errors import ModelError

if TYPE_CHECKING:
    from kvtool.engine.request import Request


@dataclass(frozen=True, slots=True, eq=False)
class ScheduledRequest:
    """Tokens [start, start + num_tokens) of one request, fed in this step.

    slots: one array a group, int64 [num_tokens]; -1 = the slot already holds this token's KV,
    do not store. entries: one array a group, int32 [num_entries, 5], snapshots that tile
    [0, start + num_tokens). sample: the last row yields a token.
    """

    request: Request
    start: int
    num_tokens: int
    slots: tuple[npt.NDArray[np.int64], ...]
    entries: tuple[npt.NDArray[np.int32], ...]
    sample: bool

    @property
    def end(self) -> int:
        return self.start + self.num_tokens

    @property
    def token_ids(self) -> npt.NDArray[np.int32]:
        return self.request.tokens[self.start : self.end]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """copies: one array a group, int32 [num_copies, 3] rows (source block, target block,
    num_slots), carried out before anything is stored (copy-on-write of partial blocks).
    loads: stored KV to read into blocks of these requests, each claimed and ended by whoever
    executes the batch; a layer's slots are neither read nor stored before its bytes are there."""

    requests: tuple[ScheduledRequest, ...]
    copies: tuple[npt.NDArray[np.int32], ...]
    loads: tuple[Load, ...] = ()

    @property
    def num_tokens(self) -> int:
        return sum(scheduled.num_tokens for scheduled in self.requests)


class SampledToken(NamedTuple):
    """logprob and top_logprobs [(token_id, logprob)…] when asked for; logits: the row the token
    was drawn from, before penalties and filters, float32 [vocab_size]."""

    token_id: int
    logprob: float | None = None
    top_logprobs: tuple[tuple[int, float], ...] = ()
    logits: npt.NDArray[np.float32] | None = None


# request id -> the token it got in this step, or why the model has none for it
StepOutput = dict[int, SampledToken | ModelError]
