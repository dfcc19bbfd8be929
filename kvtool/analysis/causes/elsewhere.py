"""Text that was seen behind another beginning, and what shifted reuse would save of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kvtool.analysis.accesses import Accesses
from kvtool.analysis.measurable import why_not_moved
from kvtool.analysis.prompt_tree import Prefix, PromptTree
from kvtool.analysis.scheme import fixed_grid
from kvtool.analysis.served import CauseSettings
from kvtool.analysis.symbol_repair import SymbolRepair
from kvtool.reuse.choose import choose
from kvtool.reuse.refusals import Limits
from kvtool.reuse.repair import parse_repair
from kvtool.reuse.run import Run
from kvtool.reuse.runs import find_runs
from kvtool.traces.prepared import PreparedRequest

Ranges = tuple[tuple[int, int], ...]


class Elsewhere(NamedTuple):
    """ranges: prompt tokens [start, stop), ascending, disjoint. recoverable: tokens."""

    ranges: Ranges = ()
    recoverable: int = 0


NOWHERE = Elsewhere()
_PADDING = np.int32(-1)


class MovedText:
    """Whole blocks of an earlier prompt at any offset, and what continues them."""

    def __init__(self, everything: PromptTree, settings: CauseSettings) -> None:
        self._everything = everything
        self._min_run = settings.min_run
        self._is_on = settings.reuse == "shift"
        repair = parse_repair(settings.repair)
        self._repair = SymbolRepair(repair.rule, repair.amount, 1)

    def find(
        self, request: PreparedRequest, num_exact: int, everything: Prefix, hit_tokens: int
    ) -> Elsewhere:
        """num_exact: tokens seen with the same beginning; everything: those, and such behind moved
        text, whose KV is no exact one."""
        tokens, size = request.symbols, self._everything.block_size
        first = max(everything.num_tokens, hit_tokens)
        limits = Limits(min_run=size)
        runs = find_runs(tokens, first, self._everything, request.namespace, limits=limits).runs
        approximate = [(num_exact, everything.num_tokens)]
        ranges = union([*approximate, *((run.start, run.stop) for run in runs)])
        if self._is_on:
            return Elsewhere(ranges)
        return Elsewhere(ranges, saved(runs, len(tokens) - 1, self._repair, self._min_run, size))


class MovedIds:
    """Recorded blocks with the same id behind other ids; of chained hashes there are none."""

    def __init__(self, accesses: Accesses, settings: CauseSettings) -> None:
        self._is_measurable = why_not_moved(accesses) is None
        self._scale = settings.unit.tokens_per_symbol
        self._min_run = -(-settings.min_run // self._scale)
        self._tree = PromptTree(1)
        repair = parse_repair(settings.repair)
        self._repair = SymbolRepair(repair.rule, repair.amount, self._scale)

    def find(self, request: PreparedRequest) -> Elsewhere:
        if not self._is_measurable:
            return NOWHERE
        symbols, namespace = request.symbols, request.namespace
        prefix = self._tree.match(symbols, namespace)
        padded = np.append(symbols, _PADDING)  # a last symbol is in no run
        runs = fixed_grid(self._tree, padded, prefix, namespace, Limits(min_run=1))
        self._tree.add(symbols, namespace, prefix)
        recoverable = saved(runs, len(symbols) - 1, self._repair, self._min_run, 1)
        ranges = union((self._scale * run.start, self._scale * run.stop) for run in runs)
        return Elsewhere(ranges, self._scale * recoverable)


def union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(ranges):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        elif start < stop:
            joined.append((start, stop))
    return tuple(joined)


def saved(runs: list[Run], end: int, repair: SymbolRepair, min_run: int, block_size: int) -> int:
    """Symbols in front of `end` that moving the best of these runs saves."""
    cut = [
        run if run.stop <= end else run.cut(run.start, end, block_size)
        for run in runs
        if run.start < end
    ]
    usable = [run for run in cut if run.num_tokens >= min_run]
    chosen = choose(usable, repair, min_run, block_size) if usable else []
    return sum(run.num_tokens - repair.of_run(run, block_size) for run in chosen)
