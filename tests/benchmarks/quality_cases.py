"""Small cases of moved text, and a bench with a tiny model to measure them on."""

from __future__ import annotations

import random
from collections.abc import Sequence

import tiny

from benchmarks.quality.bench import Bench
from benchmarks.quality.case import Case, Context, Earlier, Piece, check, context
from benchmarks.quality.frame import Tokens
from kvtool.models.hf import PagedModel

BLOCK_SIZE = 4
TEXT_TOKENS = 30
KINDS = ("unlike", "similar", "unlike", "own")


def bench(name: str = "llama") -> Bench:
    made = Bench(PagedModel(tiny.build(name)), num_blocks=160, block_size=BLOCK_SIZE)
    for pool in made.paged.pools:
        pool.fill_(float("nan"))
    return made


def tokens(seed: int, count: int) -> Tokens:
    dice = random.Random(seed)
    return tuple(dice.randrange(3, 128) for _ in range(count))


FRONTS = (tokens(1, 9), tokens(2, 14), tokens(3, 7), tokens(4, 5))
TARGET = tokens(5, 11)


def moved_case(fronts: Sequence[Tokens] = FRONTS, target: Tokens = TARGET) -> Case:
    """One text behind `target`; its earlier contexts are the `fronts`, of KINDS, oldest first."""
    text = Piece(tokens(6, TEXT_TOKENS), "text")
    return made(context(target, text), context(target), [context(f, text) for f in fronts])


def reordered_case() -> Case:
    """Three texts 1 2 3, now 3 2 1."""
    one, two, three = (Piece(tokens(10 + i, 9 + i), f"part {i}") for i in range(3))
    earlier = [context(tokens(20 + i, 4 + 3 * i), one, two, tokens(9, 2), three) for i in range(4)]
    front = tokens(5, 6)
    return made(context(front, three, two, tokens(8, 3), one), context(front), earlier)


def made(target: Context, without: Context, earlier: Sequence[Context]) -> Case:
    case = Case(
        prompt="prompt",
        situation="moved",
        target=target,
        without=without,
        question=tokens(7, 6),
        answer=tokens(8, 5),
        earlier=tuple(map(Earlier, KINDS, earlier)),
    )
    check(case)
    return case
