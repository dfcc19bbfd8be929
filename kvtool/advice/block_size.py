"""Another block size, with as many tokens of cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvtool.advice.situation import Proposal, Situation
from kvtool.traces.prepared import Unit

SIZES = (8, 16, 32, 64, 128)


def block_size(situation: Situation) -> Iterator[Proposal]:
    """Of text; hash ids are blocks already, and cannot be cut anew."""
    if not situation.has_text:
        return
    own = situation.workload.unit.block_size
    tokens = situation.num_blocks * own
    for size in SIZES:
        if size != own and tokens >= size:
            yield Proposal(
                title=f"Use blocks of {size} tokens instead of {own}",
                why=_why(size, own),
                replay=_cut(situation, size, tokens // size).replay,
                command=f"--block-size {size}",
            )


def _cut(situation: Situation, size: int, num_blocks: int) -> Situation:
    workload = replace(situation.workload, unit=Unit(1, size))
    return replace(situation.with_engine(block_size=size), workload=workload, num_blocks=num_blocks)


def _why(size: int, own: int) -> str:
    if size < own:
        return (
            f"Smaller blocks share what ends inside a block of {own} tokens and hold less that "
            "is never asked for; block tables get longer."
        )
    return "Fewer, larger blocks leave less room in ends of prompts that nobody shares."
