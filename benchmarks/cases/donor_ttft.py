"""Time to first token by donor rule: 400 new tokens, 1000 that four contexts are cached with, 100 new.

A mean of copies is read like any copy, so no rule should cost a request more than another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from interleave import interleaved_ms
from shift_runtime import DONOR_HEAD, HEAD, MOVED, TAIL, answer, open_runtime

from kvtool.runtime import Runtime

RULES = ("recent", "similar", "consensus")
CONTEXTS = 4
ROUNDS = 7


def run() -> Iterable[dict[str, Any]]:
    dice = np.random.default_rng(7)
    runtimes = {rule: open_runtime(donor=rule, repair="first:32") for rule in RULES}
    moved = dice.integers(1000, 40_000, MOVED).tolist()
    for _ in range(CONTEXTS):
        context = dice.integers(1000, 40_000, DONOR_HEAD).tolist()
        for runtime in runtimes.values():
            _fill(runtime, context + moved)
    means = {rule: _tokens_in_means(runtime) for rule, runtime in runtimes.items()}
    assert means["consensus"] >= MOVED - 64 and not means["recent"] + means["similar"], means
    heads = [dice.integers(1000, 40_000, HEAD).tolist() for _ in range(ROUNDS + 1)]
    tail = dice.integers(1000, 40_000, TAIL).tolist()
    targets = [head + moved + tail for head in heads]
    variants = {rule: _shifted(runtimes[rule], iter(targets)) for rule in RULES}
    times = interleaved_ms(variants, ROUNDS)
    for runtime in runtimes.values():
        runtime.close()
    yield {
        "model": runtimes["recent"].effective["model"],
        "dtype": "float32",
        "repair": "first:32",
        "contexts": CONTEXTS,
        "prompt": {"new": HEAD, "moved": MOVED, "tail": TAIL},
        "ttft_ms": times,
        "to_recent": {rule: round(times[rule] / times["recent"], 3) for rule in RULES},
    }


def _fill(runtime: Runtime, tokens: list[int]) -> None:
    """Compute the text behind one more context, and let its mean be made."""
    answer(runtime, tokens, shift=False)
    assert not runtime.engine.has_work


def _tokens_in_means(runtime: Runtime) -> int:
    shift = runtime.engine.manager.shift
    assert shift is not None
    return sum(len(chain.tokens) for chain in shift.chains)


def _shifted(runtime: Runtime, targets: Iterator[list[int]]) -> Callable[[], object]:
    """Another prompt each time, so that none goes on from what the last one left."""

    def shifted() -> None:
        request = answer(runtime, next(targets))
        usage = request.usage
        # A mean is one of whole blocks.
        assert MOVED - 64 <= usage.shifted_tokens + usage.recomputed_tokens <= MOVED + 1, usage
        assert usage.recomputed_tokens <= 64, usage

    return shifted
