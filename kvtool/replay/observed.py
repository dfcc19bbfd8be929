"""An executor that tells what it is given, and lets time pass for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kvtool.cache.group import GroupSpec
from kvtool.engine.batch import Batch, ScheduledSelection, Selected, StepOutput
from kvtool.engine.executor import Executor, Selecting

OnBatch = Callable[[Batch], None]


class Observed:
    """before: called with every batch that is about to be carried out; after: when it was."""

    def __init__(self, executor: Executor, before: OnBatch, after: OnBatch) -> None:
        self.inner = executor
        self._before = before
        self._after = after

    @property
    def groups(self) -> tuple[GroupSpec, ...]:
        return self.inner.groups

    def execute(self, batch: Batch) -> StepOutput:
        self._before(batch)
        output = self.inner.execute(batch)
        self._after(batch)
        return output

    def close(self) -> None:
        self.inner.close()


class ObservedSelecting(Observed):
    """The same around an executor that chooses tokens."""

    def select(self, selections: Sequence[ScheduledSelection]) -> Mapping[int, Selected]:
        assert isinstance(self.inner, Selecting)
        return self.inner.select(selections)


def observed(executor: Executor, before: OnBatch, after: OnBatch) -> Observed:
    kind = ObservedSelecting if isinstance(executor, Selecting) else Observed
    return kind(executor, before, after)
