"""The seam between control plane and data plane."""

from __future__ import annotations

from typing import Protocol

from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, StepOutput


class Executor(Protocol):
    """Carries out a batch: copies, loads, store, attention, logits, sampling."""

    @property
    def groups(self) -> tuple[GroupSpec, ...]: ...

    def execute(self, batch: Batch) -> StepOutput:
        """A token for every scheduled request with `sample`; the forced one where it is given.

        What concerns one request alone is its `ModelError` in the output, not an exception.
        Raises `LoadFailed` where a load of the batch cannot be carried out.
        """
        ...

    def close(self) -> None: ...
