"""The seam between control plane and data plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, ScheduledSelection, Selected, StepOutput
from kvtool.reuse.run import Run


class RunRefused(Exception):
    """Cached KV is not what it should be at the position it is wanted for; nothing was stored.

    runs: request id -> its runs that failed the check, as in `ScheduledRequest.runs`.
    """

    def __init__(self, runs: Mapping[int, tuple[Run, ...]]) -> None:
        super().__init__(f"runs of requests {sorted(runs)} failed the check")
        self.runs = runs


class Executor(Protocol):
    """Carries out a batch: copies, moves, loads, store, attention, logits, sampling, merges."""

    @property
    def groups(self) -> tuple[GroupSpec, ...]: ...

    def execute(self, batch: Batch) -> StepOutput:
        """A token for every scheduled request with `sample`; the forced one where it is given.

        What concerns one request alone is its `ModelError` in the output, not an exception.
        Raises `LoadFailed` where a load of the batch cannot be carried out, and `RunRefused`,
        before anything else happens, where a run fails its check.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class Selecting(Protocol):
    """An executor that the repairs attn, vdev and kdev can be asked of."""

    def select(self, selections: Sequence[ScheduledSelection]) -> Mapping[int, Selected]:
        """Request id -> the tokens that are computed again, chosen by the rule.

        Called after `execute` of the same batch, so its copies, moves and loads are over. Of the
        tables it may write the slots of `rows` only, and of those none inside a candidate: they
        hold the moved KV until the chosen ones are computed.
        """
        ...
