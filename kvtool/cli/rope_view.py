"""What `models.rope_facts` found, for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvtool.models.rope_fact import Fact
    from kvtool.models.rope_facts import RopeFacts
    from kvtool.models.rope_pairs import LayerPairs

WIDTH = 96
PER_ROW = 8  # wavelengths


def rope_lines(facts: RopeFacts) -> Iterator[str]:
    yield f"{facts.architecture}, {facts.dtype}, context {facts.context} tokens"
    if facts.reason is not None:
        yield f"Its keys cannot be moved: {facts.reason}."
        return
    for pairs in facts.pairs:
        yield ""
        yield from _pairs(pairs, facts.context)
    if facts.delta_multiple > 1:
        yield f"\nKeys may move by multiples of {facts.delta_multiple} tokens only."
    for number, fact in enumerate(facts.facts, start=1):
        yield "\n" + fill(f"{number}. {fact.statement}", width=WIDTH, subsequent_indent="   ")
        yield from _measured(fact)
    yield "\nEvery fact holds." if facts.holds else "\nNOT every fact holds."


def _pairs(pairs: LayerPairs, context: int) -> Iterator[str]:
    layers = ranges(pairs.layers)
    if pairs.values is None:
        yield f"Layers {layers}: no rotation (NoPE); a key is the same at every position."
        return
    start, end = pairs.values
    yield (
        f"Layers {layers}: {pairs.part}, values {start}…{end - 1} of {pairs.head_dim}, "
        f"{pairs.pairing} pairs, turning {pairs.direction}."
    )
    yield (
        f"  {len(pairs.frequencies)} pairs; {pairs.unfinished} never complete a turn within "
        f"{context} tokens. Fast to slow, tokens a turn:"
    )
    turns = ["∞" if length is None else f"{length:.4g}" for length in pairs.wavelengths]
    for first in range(0, len(turns), PER_ROW):
        yield "  " + "".join(f"{turn:>11}" for turn in turns[first : first + PER_ROW])


def ranges(numbers: Sequence[int]) -> str:
    """(0, 1, 2, 5) -> 0-2, 5"""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _measured(fact: Fact) -> Iterator[str]:
    for measured in fact.measured:
        verdict, limit = "     ", ""
        if measured.tolerance is not None:
            verdict = "ok   " if measured.holds else "FAILS"
            limit = f"  (at most {measured.tolerance:.1e})" if measured.tolerance else "  (none)"
        yield f"   {verdict} {measured.what + ':':78} {measured.value:8.2g}{limit}"
